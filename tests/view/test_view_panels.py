"""Panels side by side in one picture."""

import numpy as np
import pytest
from matplotlib.axes import Axes

from understudy.papers.study import Drawing, Panel, Trace
from understudy.view.canvas import PALETTE
from understudy.view.panels import drawing_figure

LONG = "test accuracy (%), band: worst to best seed of all the runs that count"


def panel(heading: str, lines: int, *, first: int = 0) -> Panel:
    traces = [Trace(f"line {n}", [0, 1], [n, n + 1], n) for n in range(first, first + lines)]
    return Panel(heading, "round", LONG, traces)


def drawn(one: Panel) -> Axes:
    return drawing_figure(Drawing("title", [one])).axes[0]


def points(axes: Axes) -> list[list[tuple[float, float]]]:
    """Of every line of the picture."""
    return [[(float(x), float(y)) for x, y in np.asarray(line.get_xydata())] for line in axes.lines]


def test_a_legend_below_has_every_line_once() -> None:
    figure = drawing_figure(Drawing("title", [panel("a", 2), panel("b", 2, first=1)], legend="below"))
    assert [axes.get_legend() for axes in figure.axes] == [None, None]
    (shared,) = figure.legends
    assert [text.get_text() for text in shared.get_texts()] == ["line 0", "line 1", "line 2"]


def test_otherwise_each_panel_has_its_own_or_none_has() -> None:
    panels = [panel("a", 6), panel("b", 6)]
    figure = drawing_figure(Drawing("title", panels))
    assert all(axes.get_legend() is not None for axes in figure.axes)
    assert not figure.legends
    assert not any(axes.get_legend() for axes in drawing_figure(Drawing("title", panels, legend="none")).axes)


def test_a_long_label_does_not_run_beyond_its_panel() -> None:
    figure = drawing_figure(Drawing("title", [panel("a", 2)]))
    figure.canvas.draw()
    (axes,) = figure.axes
    assert axes.yaxis.label.get_window_extent().height <= figure.bbox.height
    assert "\n" in axes.get_ylabel()


def test_seeds_are_dots_with_a_bar_at_the_mean_of_each_place() -> None:
    # At 0: 50 and 70, mean 60; at 1: 80 alone.
    seeds = Trace("a", [0, 0, 1], [50, 70, 80], 1, "seeds")
    upright = drawn(Panel("", "", "accuracy", [seeds], names=["first", "second"]))
    dots, bars = points(upright)
    assert (dots, bars) == ([(0, 50), (0, 70), (1, 80)], [(0, 60), (1, 80)])
    assert [text.get_text() for text in upright.get_xticklabels()] == ["first", "second"]
    lying = drawn(Panel("", "", "accuracy", [seeds], names=["first", "second"], sideways=True))
    assert points(lying) == [[(y, x) for x, y in dots], [(y, x) for x, y in bars]]
    assert [text.get_text() for text in lying.get_yticklabels()] == ["first", "second"]
    assert lying.get_xlabel() == "accuracy"


def test_joined_seeds_have_a_line_through_their_means() -> None:
    axes = drawn(Panel("", "", "", [Trace("a", [0, 0, 1], [50, 70, 80], 0, "joined seeds")], names=["p", "q"]))
    assert points(axes)[0] == [(0, 60), (1, 80)]
    assert axes.lines[0].get_linestyle() == "-"


def test_a_band_goes_from_the_worst_seed_to_the_best() -> None:
    axes = drawn(Panel("", "", "", [Trace("a", [1, 2], [50, 60], low=[40, 55], high=[70, 65])]))
    (band,) = axes.collections
    corners = {(float(x), float(y)) for x, y in np.asarray(band.get_paths()[0].vertices)}
    assert corners == {(1, 40), (2, 55), (1, 70), (2, 65)}


def test_a_level_to_compare_with_goes_all_the_way_across_and_is_named() -> None:
    axes = drawn(Panel("", "", "", [Trace("a", [0], [50], 0, "seeds")], names=["one"], level=("limit", 58.7)))
    line = axes.lines[0]
    assert np.asarray(line.get_ydata()) == pytest.approx([58.7, 58.7])
    assert line.get_label() == "limit"


def test_panels_may_share_their_height_and_begin_at_zero() -> None:
    low, high = (Panel("", "", "", [Trace("a", [2, 3], [y, y + 1])], from_zero=True) for y in (0, 90))
    figure = drawing_figure(Drawing("title", [low, high], same_height=True))
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert figure.axes[0].get_xlim()[0] == 0
    apart = drawing_figure(Drawing("title", [low, high]))
    assert apart.axes[0].get_ylim() != apart.axes[1].get_ylim()


def test_more_lines_than_colours_differ_in_their_dashes() -> None:
    traces = [Trace(f"line {n}", [0, 1], [n, n], n, "line and dots") for n in range(len(PALETTE) + 1)]
    first, *_, last = drawn(Panel("", "", "", traces)).lines
    assert first.get_color() == last.get_color()
    assert (first.get_linestyle(), last.get_linestyle()) == ("-", "--")


def test_rounds_are_marked_at_round_numbers() -> None:
    axes = drawn(Panel("", "round", "", [Trace("a", range(71), range(71))]))
    assert {float(tick) % 10 for tick in axes.get_xticks()} == {0.0}


def test_a_single_round_has_no_fractions_beside_it() -> None:
    axes = drawn(Panel("", "round", "", [Trace("a", [1], [0.5])]))
    assert {float(tick) % 1 for tick in axes.get_xticks()} == {0.0}


def test_dots_with_their_labels_beside_them_have_a_legend_of_families() -> None:
    traces = [Trace(f"dot {n}", [n], [90 + n], n // 2, "dots", family=f"family {n // 2}") for n in (1, 2, 3)]
    figure = drawing_figure(Drawing("title", [Panel("", "x", "%", traces, near_100=True)], legend="beside"))
    (axes,) = figure.axes
    named = {text.get_text(): text for text in axes.texts}
    assert set(named) == {"dot 1", "dot 2", "dot 3"}
    assert {label: text.get_color() for label, text in named.items()} == {
        "dot 1": PALETTE[0],
        "dot 2": PALETTE[1],
        "dot 3": PALETTE[1],
    }
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["family 0", "family 1"]


def test_an_axis_near_100_gives_each_halving_of_what_is_missing_the_same_room() -> None:
    axes = drawn(Panel("", "x", "%", [Trace("a", [0, 1, 2, 3], [60, 80, 90, 95])], near_100=True))
    heights = [axes.transData.transform((0, y))[1] for y in (60, 80, 90, 95)]
    assert np.diff(heights) == pytest.approx([np.diff(heights)[0]] * 3)
    # What is missing, 40 to 5, and 15 % more on either side: from 54 to 95.65.
    assert axes.get_ylim() == pytest.approx((54, 100 - 5 / 1.15))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["60", "70", "80", "90", "95"]


def test_a_goal_frames_the_corner_at_the_upper_left() -> None:
    dots = Trace("a", [1, 50], [60, 96], style="dots")
    axes = drawn(Panel("", "x", "%", [dots], log_x=True, xlim=(0.5, 90), near_100=True, goal=(2, 93, "the goal")))
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert (left, right) == (0.5, 90)
    assert bottom < 60
    assert points(axes)[1:] == [[(left, 93), (2, 93)], [(2, 93), (2, top)]]
    assert [text.get_text() for text in axes.texts] == ["the goal"]
