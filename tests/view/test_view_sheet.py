import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.splits.split import Split
from understudy.data.tiling import BLANK, PAPER, lay_out, paint, tiles
from understudy.errors import UserError
from understudy.view.sheet import draw_sheet, draw_sheets, figure_of, read_sheets, sheets_figure
from written_runs import GREY, change_config, keep, write_run

COLOUR = Problem((3, 2, 2), 2)


def grey(*labels: int, value: float = 0.0) -> Examples:
    return Examples(torch.full((len(labels), 1, 2, 2), value), torch.tensor(labels))


def test_images_in_network_space_are_shown_as_pixels_again() -> None:
    # x·0.25 + 0.5 is the pixel between 0 and 1: 0 → 128, 2 → 255, −2 → 0; beyond that it is cut off.
    x = torch.tensor([[[[0.0, 2.0], [-2.0, 5.0]]]])
    (tile,) = tiles(Examples(x, torch.tensor([1])), GREY, 1, 4)
    assert tile.tolist() == [[[128] * 3, [255] * 3], [[0] * 3, [255] * 3]]


def test_bytes_are_shown_as_they_are_and_colours_keep_their_channels() -> None:
    x = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    x[0, 0], x[0, 2, 1, 1] = 200, 7
    (tile,) = tiles(Examples(x, torch.tensor([0])), COLOUR, 0, 4)
    assert tile[0, 0].tolist() == [200, 0, 0]
    assert tile[1, 1].tolist() == [200, 0, 7]


def test_a_class_shows_no_more_images_than_asked_for() -> None:
    assert len(tiles(grey(0, 1, 1, 1), GREY, 1, 2)) == 2
    assert tiles(grey(0, 1), GREY, 2, 2) == []


def test_an_image_with_several_labels_stands_under_each() -> None:
    both = Examples(torch.zeros(1, 1, 2, 2), torch.tensor([[1.0, 0.0, 1.0]]))
    layout = lay_out({"a": both}, ["a"], Problem((1, 2, 2), 3, multilabel=True), 1)
    assert [cell.label for cell in layout.cells] == [0, 2]


def test_rows_are_clients_and_columns_classes() -> None:
    layout = lay_out({"a": grey(2, 2), "c": grey(0, 1)}, ["a", "b", "c"], GREY, 4)
    assert [(cell.row, cell.column, len(cell.tiles)) for cell in layout.cells] == [(0, 2, 2), (2, 0, 1), (2, 1, 1)]
    assert (layout.rows, layout.columns, layout.side) == (3, 3, 2)


def test_with_many_classes_each_client_shows_its_own_one_after_the_other() -> None:
    layout = lay_out({"a": grey(40, 70)}, ["a"], Problem((1, 2, 2), 100), 1)
    assert not layout.by_class
    assert [(cell.column, cell.label) for cell in layout.cells] == [(0, 40), (1, 70)]


def test_the_painted_cells_are_the_images_and_the_others_pale() -> None:
    layout = lay_out({"a": grey(1, value=-2.0)}, ["a", "b"], GREY, 1)
    canvas = paint(layout, GREY)
    down, across = canvas.shape[0] // 2, canvas.shape[1] // 3
    middles = canvas[down // 2 :: down, across // 2 :: across, 0]
    assert middles.tolist() == [[BLANK, 0, BLANK], [BLANK, BLANK, BLANK]]
    assert canvas[0, 0].tolist() == [PAPER] * 3


def test_records_that_are_no_images_are_refused() -> None:
    with pytest.raises(UserError, match="not a grey or colour image"):
        lay_out({}, [], Problem((5,), 2), 1)


def test_a_sheet_counts_images_and_bytes_as_they_were_sent(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", method="feddm")
    keep(run, {"client-0": grey(0, 0), "client-1": grey(1)}, {"client-0": 5, "client-1": 5})
    (sheet,) = read_sheets([run])
    # Three images of 2·2 floats, and a byte for each label: 3·16 + 3.
    assert (sheet.images, sheet.nbytes) == (3, 51)
    assert sheet.caption == "3 images of 2 clients · 51 B, sent 5 times · not audited"


def test_a_sheet_says_how_often_its_clients_sent_such_sets(tmp_path: Path) -> None:
    once = keep(write_run(tmp_path / "a"), {"client-0": grey(0)}, {"client-0": 1})
    uneven = keep(write_run(tmp_path / "b"), {"x": grey(0), "y": grey(0)}, {"x": 2, "y": 3})
    assert [sheet.often for sheet in read_sheets([once, uneven])] == ["sent once", "sent up to 3 times"]


def test_clients_who_gave_nothing_have_a_row_too(tmp_path: Path) -> None:
    run = keep(write_run(tmp_path / "a"), {"client-1": grey(0)})
    Split({f"client-{n}": torch.tensor([n]) for n in range(3)}).save(run / "split.json")
    (sheet,) = read_sheets([run])
    assert sheet.clients == ["client-0", "client-1", "client-2"]


def test_without_a_split_clients_are_ordered_by_number(tmp_path: Path) -> None:
    run = keep(write_run(tmp_path / "a"), {name: grey(0) for name in ("client-10", "client-2")})
    assert read_sheets([run])[0].clients == ["client-2", "client-10"]


def test_runs_beside_each_other_share_their_rows(tmp_path: Path) -> None:
    one = keep(write_run(tmp_path / "a", method="feddm"), {"client-0": grey(0)})
    two = keep(write_run(tmp_path / "b", add=["fedssyn"]), {"client-1": grey(1)})
    left, right = sheets_figure([one, two]).axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["client-0", "client-1"]
    assert right.get_yticklabels() == []
    assert [label.get_text() for label in right.get_xticklabels()] == ["0", "1", "2"]
    assert [axes.texts[0].get_text() for axes in (left, right)] == ["feddm", "fedavg + fedssyn"]
    assert left.get_position().y0 == pytest.approx(right.get_position().y0)
    assert left.get_position().x1 < right.get_position().x0
    pictures = [np.asarray(axes.images[0].get_array()) for axes in (left, right)]
    assert pictures[0].shape == pictures[1].shape


def test_pictures_are_written_at_a_size_for_a_page(tmp_path: Path) -> None:
    run = keep(write_run(tmp_path / "a", method="feddm"), {"client-0": grey(0, 1, 2)})
    for file in (
        draw_sheet(run, tmp_path / "one.png", per_class=2),
        draw_sheets([run, run], tmp_path / "two.png"),
    ):
        width, height = struct.unpack(">II", file.read_bytes()[16:24])
        assert 700 <= width <= 1800
        assert 200 <= height <= 1800


def test_a_run_without_synthetic_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\(fedavg\) holds no synthetic images"):
        sheets_figure([write_run(tmp_path / "a")], 1)


def test_for_a_run_with_fedcog_it_says_how_its_images_are_drawn(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\(fedavg \+ fedcog\) holds no synthetic images; .* --generated"):
        sheets_figure([write_run(tmp_path / "a", add=["fedcog"])], 1)


def test_what_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    run = keep(write_run(tmp_path / "a"), {"client-0": grey(0)})
    with pytest.raises(UserError, match="per_class is 0"):
        sheets_figure([run], 0)
    with pytest.raises(UserError, match="No run folder"):
        sheets_figure([])
    change_config(run, problem={"shape": [1, 4, 4], "classes": 3, "multilabel": False, "mean": [], "std": []})
    with pytest.raises(UserError, match=r"client-0.npz: records have shape \(1, 2, 2\)"):
        sheets_figure([run])
    change_config(run, problem=None)
    with pytest.raises(UserError, match="has an incomplete 'problem'"):
        sheets_figure([run])


def test_two_classes_have_their_names_and_room_for_every_line_of_text(tmp_path: Path) -> None:
    folder = keep(write_run(tmp_path / "run", problem=Problem((1, 2, 2), 2)), {"north": grey(0, 1, 1)})
    change_config(folder, data={"name": "pictures/", "labels": ["healthy", "pneumonia"]})
    (sheet,) = read_sheets([folder])
    figure = figure_of([replace(sheet, leak="11.3 % of the records recognised (by chance 1.0 %)")])
    figure.canvas.draw()
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["healthy", "pneumonia"]
    page = figure.bbox
    for text in (*figure.texts, *axes.texts, *axes.get_xticklabels()):
        box = text.get_window_extent()
        assert page.x0 <= box.x0, text.get_text()
        assert box.x1 <= page.x1, text.get_text()
        assert box.y1 <= page.y1, text.get_text()
