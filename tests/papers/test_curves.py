"""Curves of a comparison over rounds and megabytes, by hand."""

import numpy
import pytest

from understudy.papers.compared import curves_drawing, curves_table
from understudy.papers.study import StudyLine
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
        ["p", "b", "1", "60.0, one seed", "1.10", "1.10", "60.0, one seed"],
    ]


def test_a_method_has_one_colour_in_all_panels_and_the_opening_is_left_out() -> None:
    drawing = curves_drawing("title", {"first": {"a": TWO_SEEDS, "b": ONE_SEED}, "second": {"b": ONE_SEED}})
    figure = drawing_figure(drawing)
    first, over_megabytes, second, _ = figure.axes
    assert first.lines[1].get_color() == second.lines[0].get_color() != first.lines[0].get_color()
    assert numpy.asarray(first.lines[0].get_ydata()) == pytest.approx([60.0, 85.0])
    assert numpy.asarray(over_megabytes.lines[0].get_xdata()) == pytest.approx([1.1, 2.2])
    assert first.get_ylim() == (50.0, 100.0)  # the worst seed after round 1 has 50 %
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
