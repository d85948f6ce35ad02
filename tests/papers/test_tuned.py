"""A tuned comparison: rates are chosen on validation records, seeds are averaged, a stopped one goes on."""

import json
from pathlib import Path

import pytest

from understudy.errors import UserError
from understudy.papers.experiment import Experiment
from understudy.papers.reproduce import STUDIES, study
from understudy.papers.tuned import Comparison, Contender, Standing, compare_tuned, markdown
from understudy.runs.watching import Observer
from understudy.view.standings import standings_figure

SMALL = {
    "data": {"name": "digits", "clients": 3, "limit": 150},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "batch": 16}},
    "engine": {"name": "inline"},
}


def small_plan() -> Comparison:
    contenders = [Contender("fedavg", {}), Contender("fedprox", {"method.name": "fedprox"})]
    return Comparison("small", "a small one", SMALL, (0.001, 0.1), (0, 1), contenders)


def test_the_rate_with_the_best_validation_accuracy_is_the_one_that_counts(tmp_path: Path) -> None:
    standings = compare_tuned(small_plan(), tmp_path, Observer())
    for one in standings:
        seen = {rate: accuracy for rate, accuracy in one.validation.items() if accuracy is not None}
        assert one.rate == float(max(seen, key=lambda rate: seen[rate]))
        assert len(one.accuracies) == 2
        ends = [json.loads((one.run_folder(tmp_path, seed) / "summary.json").read_text()) for seed in (0, 1)]
        assert one.accuracies == [end["accuracy"] for end in ends]
        both_ways = [(end["bytes_up"] + end["bytes_down"]) / 1e6 for end in ends]
        assert one.megabytes == pytest.approx(sum(both_ways) / 2)
    tuning = json.loads((tmp_path / "runs/fedavg/rate-0.1/metrics.jsonl").read_text().splitlines()[-1])
    assert "validation_accuracy" in tuning
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert [row["label"] for row in rows] == ["fedavg", "fedprox"]


def test_gone_on_with_it_repeats_nothing(tmp_path: Path) -> None:
    compare_tuned(small_plan(), tmp_path, Observer())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*/checkpoint/*.json")}
    compare_tuned(small_plan(), tmp_path, Observer())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*/checkpoint/*.json")} == before


def test_mean_and_spread_by_hand() -> None:
    # 80, 90 and 85 %: mean 85, deviations −5, 5 and 0, so the spread is √(50/2) = 5.
    one = Standing("a", 0.1, {}, [0.8, 0.9, 0.85], [0.8, 0.9, 0.9], 2.0, 3.0)
    assert one.mean == pytest.approx(0.85)
    assert one.spread == pytest.approx(0.05)
    assert "| a | 0.1 | 85.0 ± 5.0 | 86.7 | 2.0 | 3 |" in markdown([one])
    assert [text.get_text() for text in standings_figure([one], "t").axes[0].get_yticklabels()] == ["a"]


def test_studies_are_found_by_name_and_scale() -> None:
    for name, found in STUDIES.items():
        for scale in found.scales:
            plan = study(name, scale)
            assert isinstance(plan, Experiment) or plan.contenders
    with pytest.raises(UserError, match="There is no study 'averaging'"):
        study("averaging", "desk")
    with pytest.raises(UserError, match="cannot be run at scale paper; choose smoke or desk"):
        study("averaging-family", "paper")
