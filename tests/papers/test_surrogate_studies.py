"""FedDM's studies: curves over seeds by hand, what each study compares, and a whole small one."""

import json
from pathlib import Path

import numpy
import pytest

from understudy.papers.compared import curves_drawing, curves_table
from understudy.papers.feddm import SKEW
from understudy.papers.reproduce import study
from understudy.papers.study import StudyLine
from understudy.papers.tuned import Comparison, Contender, compare_tuned
from understudy.runs.watching import Observer
from understudy.view.panels import drawing_figure


def curve(label: str, sent: list[list[float]], values: list[list[float]]) -> StudyLine:
    last = [seed[-1] for seed in values]
    return StudyLine(label, last, rounds=range(len(values[0])), values=values, sent=sent)


TWO_SEEDS = curve("a", [[0, 1.0, 2.0], [0, 1.2, 2.4]], [[0.1, 0.5, 0.8], [0.1, 0.7, 0.9]])
ONE_SEED = curve("b", [[0, 1.1]], [[0.1, 0.6]])


def test_means_bands_and_megabytes_over_seeds_by_hand() -> None:
    # Round 1: 0.5 and 0.7, mean 0.6, sent 1.0 and 1.2, mean 1.1. Round 2: 0.8 and 0.9, mean 0.85, sent 2.2.
    assert TWO_SEEDS.by_round() == pytest.approx([0.1, 0.6, 0.85])
    assert (TWO_SEEDS.by_round(min), TWO_SEEDS.by_round(max)) == ([0.1, 0.5, 0.8], [0.1, 0.7, 0.9])
    assert TWO_SEEDS.sent_by_round == pytest.approx([0.0, 1.1, 2.2])


def test_a_budget_buys_the_rounds_that_fit_into_it() -> None:
    # 1.1 MB are just round 1; 2.1 MB are not round 2, which ends at 2.2; nothing fits into 0.5 but the opening.
    # A hundredth too little does no harm: 1.09 · 1.01 = 1.1009.
    assert TWO_SEEDS.within(1.1) == TWO_SEEDS.within(1.09) == [0.5, 0.7]
    assert TWO_SEEDS.within(2.1) == [0.5, 0.7]
    assert TWO_SEEDS.within(2.2) == [0.8, 0.9]
    assert TWO_SEEDS.within(0.5) == [0.1, 0.1]


def test_everybody_is_scored_at_the_end_and_for_the_least_megabytes() -> None:
    # a: 80 and 90 %, mean 85, deviations ±5, spread √50 = 7.1. Within b's 1.1 MB: 50 and 70 %, spread √200 = 14.1.
    assert curves_table({"p": {"b": ONE_SEED, "a": TWO_SEEDS}}).rows == [
        ["p", "a", "2", "85.0 ± 7.1", "2.20", "1.10", "60.0 ± 14.1"],
        ["p", "b", "1", "60.0 ± 0.0", "1.10", "1.10", "60.0 ± 0.0"],
    ]


def test_curves_are_of_the_runs_that_counted(tmp_path: Path) -> None:
    config = {
        "data": {"name": "digits", "clients": 2, "limit": 60},
        "model": {"name": "softmax"},
        "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 1, "batch": 16}},
        "engine": {"name": "inline"},
    }
    plan = Comparison("n", "about", config, (0.1, 0.3), (4, 5), [Contender("one", {})])
    (one,) = compare_tuned(plan, tmp_path, Observer())
    assert one.rounds == [0, 1, 2]
    for at, seed in enumerate(plan.seeds):
        file = tmp_path / f"runs/one/rate-{one.rate:g}-seed-{seed}/metrics.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert one.values[at] == [line["accuracy"] for line in lines]
        sent = [(line["bytes_up"] + line["bytes_down"]) / 1e6 for line in lines]
        assert one.sent[at] == pytest.approx([sent[0], sent[0] + sent[1], sum(sent)])


def test_a_method_has_one_colour_in_all_panels_and_the_opening_is_left_out() -> None:
    drawing = curves_drawing("title", {"first": {"a": TWO_SEEDS, "b": ONE_SEED}, "second": {"b": ONE_SEED}})
    figure = drawing_figure(drawing)
    first, over_megabytes, second, _ = figure.axes
    assert first.lines[1].get_color() == second.lines[0].get_color() != first.lines[0].get_color()
    assert numpy.asarray(first.lines[0].get_ydata()) == pytest.approx([60.0, 85.0])
    assert numpy.asarray(over_megabytes.lines[0].get_xdata()) == pytest.approx([1.1, 2.2])
    assert first.get_ylim() == (50.0, 100.0)  # the worst seed after round 1 has 50 %
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


def test_at_desk_scale_every_baseline_meets_feddm_on_both_skewed_splits() -> None:
    plan = SKEW["desk"]
    assert len(plan.seeds) == 3
    for alpha in ("0.1", "0.01"):
        assert list(plan.panels[f"α = {alpha}"]) == ["FedDM", "REAL", "FedAvg", "FedProx", "FedNova", "SCAFFOLD"]
    drawn = {contender for lines in plan.panels.values() for contender in lines.values()}
    assert drawn == {contender.label for contender in plan.contenders}


def test_a_small_study_of_the_options_gives_a_row_and_a_curve_each(tmp_path: Path) -> None:
    found = study("feddm-options", "smoke")(tmp_path, Observer())
    labels = ["feddm", "ipc-5", "ipc-3", "rho-1", "rho-4", "steps-120", "real", "real-3"]
    assert [one.label for one in found.lines] == labels
    sent = {one.label: one.megabytes or 0.0 for one in found.lines}
    # Fewer images, fewer megabytes; real ones travel with a byte a pixel and not four.
    assert sent["ipc-3"] < sent["ipc-5"] < sent["feddm"] == sent["rho-4"]
    assert sent["real"] < sent["feddm"]
    assert len(found.tables["curves"][0].rows) == 3 + 3 + 3 + 2
