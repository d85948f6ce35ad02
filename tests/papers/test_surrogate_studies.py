"""FedDM's studies: curves over seeds by hand, what each study compares, and a whole small one."""

import json
from pathlib import Path

import numpy
import pytest

from understudy.papers.feddm import options_smoke, skew_at_desk
from understudy.papers.reproduce import study
from understudy.papers.seed_curves import SeedCurve, panel_table, panels
from understudy.papers.tuned import Comparison, Contender, Standing, compare_tuned
from understudy.runs.watching import Observer
from understudy.view.claims import claims_figure

TWO_SEEDS = SeedCurve("a", [0, 1, 2], [[0, 1.0, 2.0], [0, 1.2, 2.4]], [[0.1, 0.5, 0.8], [0.1, 0.7, 0.9]])
ONE_SEED = SeedCurve("b", [0, 1], [[0, 1.1]], [[0.1, 0.6]])


def write_metrics(folder: Path, accuracies: list[float], sent: int) -> None:
    """Half of ``sent`` bytes up and half down in every round after the opening."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("data: {name: digits}\n")
    usual = {"epsilon": None, "failed": 0, "seconds": 1.0}
    lines = [
        {
            "round": at,
            "accuracy": one,
            "bytes_up": sent // 2 * min(at, 1),
            "bytes_down": sent // 2 * min(at, 1),
            **usual,
        }
        for at, one in enumerate(accuracies)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_means_bands_and_megabytes_over_seeds_by_hand() -> None:
    # Round 1: 0.5 and 0.7, mean 0.6, sent 1.0 and 1.2, mean 1.1. Round 2: 0.8 and 0.9, mean 0.85, sent 2.2.
    assert TWO_SEEDS.mean == pytest.approx([0.1, 0.6, 0.85])
    assert (TWO_SEEDS.lowest, TWO_SEEDS.highest) == ([0.1, 0.5, 0.8], [0.1, 0.7, 0.9])
    assert TWO_SEEDS.sent == pytest.approx([0.0, 1.1, 2.2])


def test_a_budget_buys_the_rounds_that_fit_into_it() -> None:
    # 1.1 MB are just round 1; 2.1 MB are not round 2, which ends at 2.2; nothing fits into 0.5 but the opening.
    # A hundredth too little does no harm: 1.09 · 1.01 = 1.1009.
    assert TWO_SEEDS.within(1.1) == TWO_SEEDS.within(1.09) == [0.5, 0.7]
    assert TWO_SEEDS.within(2.1) == [0.5, 0.7]
    assert TWO_SEEDS.within(2.2) == [0.8, 0.9]
    assert TWO_SEEDS.within(0.5) == [0.1, 0.1]


def test_everybody_is_scored_at_the_end_and_for_the_least_megabytes() -> None:
    # a: 80 and 90 %, mean 85, deviations ±5, spread √50 = 7.1. Within b's 1.1 MB: 50 and 70 %, spread √200 = 14.1.
    table = panel_table({"p": [ONE_SEED, TWO_SEEDS]}).splitlines()
    assert table[2] == "| p | a | 2 | 85.0 ± 7.1 | 2.20 | 1.10 | 60.0 ± 14.1 |"
    assert table[3] == "| p | b | 1 | 60.0 ± 0.0 | 1.10 | 1.10 | 60.0 ± 0.0 |"


def test_curves_are_of_the_runs_that_counted(tmp_path: Path) -> None:
    contenders = [Contender("one", {})]
    plan = Comparison("n", "about", {}, (0.1, 0.3), (4, 5), contenders, panels={"here": {"One": "one"}})
    standing = Standing("one", 0.3, {}, [0.5, 0.7], [0.5, 0.7], 2.0, 1.0)
    write_metrics(tmp_path / "runs/one/rate-0.3", [0.9, 0.9], 2_000_000)  # tuning: not to be drawn
    write_metrics(tmp_path / "runs/one/rate-0.3-seed-4", [0.1, 0.5], 2_000_000)
    write_metrics(tmp_path / "runs/one/rate-0.3-seed-5", [0.1, 0.7], 4_000_000)
    found = panels(plan, [standing], tmp_path)
    assert found == {"here": [SeedCurve("One", [0, 1], [[0.0, 2.0], [0.0, 4.0]], [[0.1, 0.5], [0.1, 0.7]])]}


def test_a_method_has_one_colour_in_all_panels_and_the_opening_is_left_out() -> None:
    figure = claims_figure({"first": [TWO_SEEDS, ONE_SEED], "second": [ONE_SEED]}, "title")
    first, over_megabytes, second, _ = figure.axes
    assert first.lines[1].get_color() == second.lines[0].get_color() != first.lines[0].get_color()
    assert numpy.asarray(first.lines[0].get_ydata()) == pytest.approx([60.0, 85.0])
    assert numpy.asarray(over_megabytes.lines[0].get_xdata()) == pytest.approx([1.1, 2.2])
    assert first.get_ylim() == (50.0, 100.0)  # the worst seed after round 1 has 50 %
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


def test_at_desk_scale_every_baseline_meets_feddm_on_both_skewed_splits() -> None:
    plan = skew_at_desk()
    assert len(plan.seeds) == 3
    for alpha in ("0.1", "0.01"):
        assert list(plan.panels[f"α = {alpha}"]) == ["FedDM", "FedAvg", "FedProx", "FedNova", "SCAFFOLD"]
    drawn = {contender for lines in plan.panels.values() for contender in lines.values()}
    assert drawn == {contender.label for contender in plan.contenders}


def test_a_small_study_of_the_options_gives_a_row_and_a_curve_each(tmp_path: Path) -> None:
    assert study("feddm-options", "smoke") == options_smoke()
    plan = options_smoke()
    standings = compare_tuned(plan, tmp_path, Observer())
    assert [one.label for one in standings] == [
        "feddm",
        "ipc-5",
        "ipc-3",
        "rho-1",
        "rho-4",
        "steps-120",
        "real",
        "real-3",
    ]
    sent = {one.label: one.megabytes for one in standings}
    # Fewer images, fewer megabytes; real ones travel with a byte a pixel and not four.
    assert sent["ipc-3"] < sent["ipc-5"] < sent["feddm"] == sent["rho-4"]
    assert sent["real"] < sent["feddm"]
    table = panel_table(panels(plan, standings, tmp_path)).splitlines()
    assert len(table) == 2 + 3 + 3 + 3 + 2
