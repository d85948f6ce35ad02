"""A tuned comparison: rates are chosen on validation records, seeds are averaged, a stopped one goes on."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from understudy.errors import UserError
from understudy.papers.compared import compared, standings_drawing, standings_table
from understudy.papers.reproduce import STUDIES, study
from understudy.papers.stored import write_table
from understudy.papers.study import StudyLine
from understudy.papers.tuned import Comparison, Contender, compare_tuned, counted_run
from understudy.runs.watching import Observer
from understudy.view.findings import markdown
from understudy.view.panels import drawing_figure

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
    found = compared(small_plan(), tmp_path, Observer())
    for one in found.lines:
        seen = {rate: accuracy for rate, accuracy in one.validation.items() if accuracy is not None}
        assert one.rate == float(max(seen, key=lambda rate: seen[rate]))
        assert len(one.accuracies) == 2
        ends = [json.loads((counted_run(tmp_path, one, seed) / "summary.json").read_text()) for seed in (0, 1)]
        assert one.accuracies == [end["accuracy"] for end in ends]
        both_ways = [(end["bytes_up"] + end["bytes_down"]) / 1e6 for end in ends]
        assert one.megabytes == pytest.approx(sum(both_ways) / 2)
    tuning = json.loads((tmp_path / "runs/fedavg/rate-0.1/metrics.jsonl").read_text().splitlines()[-1])
    assert "validation_accuracy" in tuning
    table = write_table(tmp_path / "table.json", "small", "smoke", found)
    assert [line["label"] for line in table["lines"]] == ["fedavg", "fedprox"]
    assert (table["rates"], table["config"]) == ([0.001, 0.1], SMALL)


def test_gone_on_with_it_repeats_nothing(tmp_path: Path) -> None:
    compare_tuned(small_plan(), tmp_path, Observer())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*/checkpoint/*.json")}
    compare_tuned(small_plan(), tmp_path, Observer())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*/checkpoint/*.json")} == before


def test_mean_and_spread_by_hand() -> None:
    # 80, 90 and 85 %: mean 85, deviations −5, 5 and 0, so the spread is √(50/2) = 5.
    one = StudyLine("a", [0.8, 0.9, 0.85], [0.8, 0.9, 0.9], 0.1, {}, 2.0, 3.0)
    assert one.mean == pytest.approx(0.85)
    assert one.spread == pytest.approx(0.05)
    assert "| a | 0.1 | 85.0 ± 5.0 | 86.7 | 2.0 | 3 | not audited |" in markdown([standings_table([one])])
    assert "| 3 | 17.1 % |" in markdown([standings_table([replace(one, leak=0.171)])])
    (axes,) = drawing_figure(standings_drawing("t", [one])).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a"]
    dots, bar = axes.lines
    assert np.asarray(dots.get_xdata()) == pytest.approx([80, 90, 85])
    assert np.asarray(bar.get_xdata()) == pytest.approx([85])


def test_studies_are_found_by_name_and_scale() -> None:
    for name, found in STUDIES.items():
        for scale in found.scales:
            assert study(name, scale) is found.scales[scale]
    with pytest.raises(UserError, match="There is no study 'averaging'"):
        study("averaging", "desk")
    with pytest.raises(UserError, match="cannot be run at scale paper; choose smoke or desk"):
        study("averaging-family", "paper")
    with pytest.raises(UserError, match="There is no scale 'large'; choose smoke, desk or paper"):
        study("averaging-family", "large")
