"""Panels side by side in one picture."""

from understudy.papers.experiment import Panel, Trace
from understudy.view.experiment import panels_figure


def panel(heading: str, lines: int, *, first: int = 0) -> Panel:
    traces = [Trace(f"line {n}", [0, 1], [n, n + 1], n) for n in range(first, first + lines)]
    return Panel(heading, "round", "test accuracy (%), band: worst to best seed of all the runs that count", traces)


def test_panels_with_the_same_many_lines_share_a_legend_below() -> None:
    figure = panels_figure([panel("a", 6), panel("b", 6)], "title")
    assert [axes.get_legend() for axes in figure.axes] == [None, None]
    (shared,) = figure.legends
    assert [text.get_text() for text in shared.get_texts()] == [f"line {n}" for n in range(6)]


def test_other_panels_have_their_own() -> None:
    for panels in ([panel("a", 6)], [panel("a", 6), panel("b", 6, first=1)], [panel("a", 5), panel("b", 5)]):
        figure = panels_figure(panels, "title")
        assert all(axes.get_legend() is not None for axes in figure.axes)
        assert not figure.legends


def test_a_long_label_does_not_run_beyond_its_panel() -> None:
    figure = panels_figure([panel("a", 2)], "title")
    figure.canvas.draw()
    (axes,) = figure.axes
    assert axes.yaxis.label.get_window_extent().height <= figure.bbox.height
    assert "\n" in axes.get_ylabel()
