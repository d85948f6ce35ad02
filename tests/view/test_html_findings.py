"""A study's findings as a page, and the galleries and pictures it shares with the report."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.papers.study import Drawing, Findings, Mosaic, Panel, StudyTable, Trace
from understudy.runs.reported import read_reported
from understudy.view.html import gallery as galleries
from understudy.view.html.findings_page import findings_page
from understudy.view.html.gallery import gallery_of
from understudy.view.html.page import coded
from understudy.view.html.pictures import png
from understudy.view.html.several_runs import kin_of
from written_runs import change_config, write_run

GREY = Problem((1, 2, 2), 3)


def some(labels: list[int]) -> Examples:
    return Examples(torch.arange(len(labels) * 4, dtype=torch.uint8).view(-1, 1, 2, 2), torch.tensor(labels))


def test_a_study_is_told_by_claims_tables_panels_and_pictures() -> None:
    panel = Panel("Curves", "round", "%", [Trace("<i>a</i>", [0, 1], [1.0, float("nan")])])
    table = StudyTable(("method", "accuracy"), [("**feddm**", "<b>97.1</b>")], "Ours beside the paper's")
    found = Findings(
        "What was compared <b>",
        tables={"table": [table]},
        pictures={"curves": Drawing("All curves", [panel])},
        mosaics={"images": Mosaic("What was made", {"north": some([0, 0, 2])}, GREY, ["zero", "one", "<u>two"])},
        notes=["The claim `A > B` held.", "Ours is above. **holds**: <b>2</b> against 1, `**` left alone."],
    )
    page = findings_page(found, "a-study, desk scale")
    for shown in (
        "<h1>a-study, desk scale</h1>",
        "What was compared &lt;b&gt;",
        "The claim <code>A &gt; B</code> held.",
        "Ours is above. <strong>holds</strong>: &lt;b&gt;2&lt;/b&gt; against 1, <code>**</code> left alone.",
        '<th scope="row">feddm</th>',
        "&lt;b&gt;97.1&lt;/b&gt;",
        r'"label":"\u003ci\u003ea\u003c/i\u003e"',
        "class &lt;u&gt;two",
    ):
        assert shown in page, shown
    assert page.count('src="data:image/png;base64,') == 2


def test_a_picture_holds_exactly_its_pixels() -> None:
    pixels = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    data = png(pixels)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (width, height, depth, kind) == (3, 2, 8, 6)  # 6: colours and opacity
    begin = data.index(b"IDAT") + 4
    length = struct.unpack(">I", data[begin - 8 : begin - 4])[0]
    rows = np.frombuffer(zlib.decompress(data[begin : begin + length]), np.uint8).reshape(2, 1 + 12)
    assert not rows[:, 0].any()  # no filter
    assert (rows[:, 1:].reshape(2, 3, 4) == pixels).all()


def test_a_gallery_keeps_to_its_room_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {f"client-{at}": some([0] * 12 + [1]) for at in range(4)}
    found = gallery_of(sets, GREY, ["zero", "one", "two"])
    assert found is not None
    assert [len(pictures) for _, pictures in found.rows] == [2, 2, 2, 2]
    assert found.left_out.startswith("Shown are 44 of 52 images: up to 10 of each class")
    monkeypatch.setattr(galleries, "MOST_CLIENTS", 3)
    assert "and 3 of 4 clients" in str(gallery_of(sets, GREY, []))
    small = gallery_of(sets, GREY, [], room=found.nbytes // 3)
    assert small is not None
    assert small.nbytes <= found.nbytes // 3
    assert small.left_out


def test_records_that_are_no_pictures_have_no_gallery() -> None:
    flat = Problem((4,), 2)
    assert gallery_of({"a": Examples(torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))}, flat, []) is None
    assert gallery_of({}, GREY, []) is None


def test_only_backticks_become_code() -> None:
    assert str(coded("run `a <b>` now")) == "run <code>a &lt;b&gt;</code> now"
    assert str(coded("a ` <b>")) == "a ` &lt;b&gt;"


def test_runs_on_different_data_are_told_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name) for name in "abc"]
    change_config(folders[2], data={"name": "mnist"})
    first, second = kin_of(read_reported(folders))
    assert (first.label, second.label) == ("fedavg (a) on digits, 2 runs", "fedavg (c) on mnist")  # not of two seeds
