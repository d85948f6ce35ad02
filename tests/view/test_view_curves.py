import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from understudy.errors import UserError
from understudy.view.canvas import PALETTE, line_look
from understudy.view.curves import curves_of_runs, draw_curves, read_curves
from understudy.view.panels import drawing_figure
from written_runs import write_run


def curves_figure(runs: list[Path], title: str = "") -> Figure:
    return drawing_figure(curves_of_runs(runs, title))


def png_size(file: Path) -> tuple[int, int]:
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def curves_in(axes: Axes) -> dict[str, tuple[list[float], list[float], str]]:
    """By name: x, y and colour of each curve; leaders have no label of their own."""
    named = [one for one in axes.lines if not str(one.get_label()).startswith("_")]
    return {
        str(one.get_label()).split("  ")[0]: (
            np.asarray(one.get_xdata()).tolist(),
            np.asarray(one.get_ydata()).tolist(),
            to_hex(one.get_color()),
        )
        for one in named
    }


def test_both_panels_show_every_run_in_the_same_colour(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", [0.1, 0.5, 0.75]),
        write_run(tmp_path / "b", [0.1, 0.8], method="feddm", sent=2_000_000),
    ]
    left, right = curves_figure(runs, "Two runs").axes
    assert curves_in(left) == {
        "fedavg": ([0, 1, 2], [10, 50, 75], PALETTE[0]),
        "feddm": ([0, 1], [10, 80], PALETTE[1]),
    }
    assert curves_in(right) == {
        "fedavg": ([0, 2, 4], [10, 50, 75], PALETTE[0]),
        "feddm": ([0, 4], [10, 80], PALETTE[1]),
    }
    assert (left.get_xlabel(), left.get_ylabel()) == ("round", "test accuracy (%)")
    assert right.get_xlabel() == "megabytes exchanged, up and down"
    assert right.get_xscale() == "linear"


def test_line_ends_are_labelled_with_what_was_reached_and_what_it_cost(tmp_path: Path) -> None:
    figure = curves_figure([write_run(tmp_path / "a", [0.1, 0.5], add=["fedssyn"])])
    left, right = figure.axes
    assert [text.get_text() for text in left.texts] == ["fedavg + fedssyn  50.0 %"]
    assert [text.get_text() for text in right.texts] == ["fedavg + fedssyn  2.0 MB"]
    assert figure.legends == []
    assert left.get_legend() is None


def test_labels_of_lines_that_end_together_do_not_overlap(tmp_path: Path) -> None:
    figure = curves_figure([write_run(tmp_path / str(n), [0.1, 0.5]) for n in range(5)])
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
        assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))
        assert max(box.x1 for box in boxes) <= figure.bbox.x1


def test_megabytes_are_logarithmic_where_one_run_sends_more_than_ten_times_as_much(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", [0.1, 0.5, 0.6], sent=50_000),
        write_run(tmp_path / "b", [0.1, 0.8, 0.8], sent=600_000),
    ]
    right = curves_figure(runs).axes[1]
    assert right.get_xscale() == "log"
    x = curves_in(right)["fedavg (a)"][0]
    assert np.isnan(x[0])  # nothing was sent before round 1, and there is no zero on such an axis
    assert x[1:] == pytest.approx([0.1, 0.2])


def test_rounds_without_a_score_are_left_out_but_their_bytes_count(tmp_path: Path) -> None:
    (curve,) = read_curves([write_run(tmp_path / "a", [0.1, None, 0.6])])
    assert (curve.rounds, curve.megabytes) == ([0, 2], [0, 4])


def test_a_run_without_any_score_is_left_out_and_alone_refused(tmp_path: Path) -> None:
    begun, scored = write_run(tmp_path / "a", [None, None]), write_run(tmp_path / "b", method="feddm")
    (curve,) = read_curves([begun, scored])
    assert (curve.label, curve.look) == ("feddm", 1)
    with pytest.raises(UserError, match="has an accuracy to draw"):
        read_curves([begun])


def test_after_the_last_colour_lines_are_dashed() -> None:
    looks = [line_look(number) for number in range(4 * len(PALETTE))]
    assert len(set(looks)) == len(looks)


def test_the_picture_is_twice_the_width_of_a_page_of_900_dots(tmp_path: Path) -> None:
    file = draw_curves([write_run(tmp_path / "a")], tmp_path / "new" / "curves.png", "One run")
    width, height = png_size(file)
    assert width == 1800
    assert 600 <= height <= 1200


def test_endings_that_are_no_picture_and_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    with pytest.raises(UserError, match=r"curves.doc: no picture"):
        draw_curves([run], tmp_path / "curves.doc")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"curves.png cannot be written"):
        draw_curves([run], tmp_path / "file" / "curves.png")
