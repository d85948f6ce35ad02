"""The lines of a run as they come, through a kill, a resume and a page that lost its connection."""

import json
from pathlib import Path

import pytest

from understudy.files import write_whole
from understudy.runs.following import Following, News, plain


def line(round: int, accuracy: float = 0.5) -> str:
    return json.dumps({"round": round, "accuracy": accuracy}) + "\n"


def add(file: Path, *lines: str) -> None:
    with file.open("a") as opened:
        opened.write("".join(lines))


def told(news: News | None) -> tuple[bool, list[int]]:
    assert news is not None
    return news.anew, [line["round"] for line in news.lines]


def test_lines_come_once_and_half_a_line_comes_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    following = Following(file)
    assert following.look() is None, "the run has not begun"
    add(file, line(0), line(1))
    assert told(following.look()) == (True, [0, 1])
    assert following.look() is None
    add(file, line(2)[:9])
    assert following.look() is None
    add(file, line(2)[9:], line(3))
    assert told(following.look()) == (False, [2, 3])


def test_a_resumed_run_that_lost_nothing_goes_on(tmp_path: Path) -> None:
    """A run that is resumed writes its metrics anew, without lines that do not count."""
    file = tmp_path / "metrics.jsonl"
    following = Following(file)
    add(file, line(0), line(1), line(2)[:5])
    assert told(following.look()) == (True, [0, 1])
    write_whole(file, (line(0) + line(1)).encode())
    assert following.look() is None
    add(file, line(2))
    assert told(following.look()) == (False, [2])


def test_a_resumed_run_that_lost_a_line_is_told_anew(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    following = Following(file)
    add(file, line(0), line(1), line(2))
    following.look()
    write_whole(file, (line(0) + line(1)).encode())
    assert told(following.look()) == (True, [0, 1])
    add(file, line(2, accuracy=0.9))
    assert told(following.look()) == (False, [2])
    write_whole(file, (line(0) + line(1) + line(2, accuracy=0.1) + line(3)).encode())
    assert told(following.look()) == (True, [0, 1, 2, 3])


def test_a_page_that_lost_its_connection_goes_on_from_its_place(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    add(file, line(0), line(1))
    first = Following(file).look()
    assert first is not None
    assert Following(file, first.place).look() is None
    add(file, line(2))
    assert told(Following(file, first.place).look()) == (False, [2])
    write_whole(file, (line(0) + line(1, accuracy=0.1) + line(2)).encode())
    assert told(Following(file, first.place).look()) == (True, [0, 1, 2])


@pytest.mark.parametrize("place", ["x", "-", "5-", "99999999-1", "-1--1", "²-³", "9" * 5000, "1-1"])
def test_a_place_that_is_none_begins_anew(tmp_path: Path, place: str) -> None:
    file = tmp_path / "metrics.jsonl"
    add(file, line(0), line(1))
    assert told(Following(file, place).look()) == (True, [0, 1])


def test_lines_that_are_none_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    add(file, line(0), "null\n", "{\n", '{"round": true}\n', "[" * 5000 + "\n", line(1))
    assert told(Following(file).look()) == (True, [0, 1])


def test_a_page_gets_what_it_can_show() -> None:
    failures = [{"client": f"c{number}\u202e", "why": "<b>no\n"} for number in range(1000)]
    got = plain(
        {
            "round": 1,
            "accuracy": float("nan"),
            "loss": float("inf"),
            "epsilon": 10**400,
            "undone": False,
            "recall": [0.5, float("nan")],
            "remarks": ["so\x1b[2J"],
            "bytes_by_client": {"a": [1, 2]},
            "failures": failures,
            "nested": {"deep": 1},
        }
    )
    assert got.pop("failures") == [{"client": f"c{number} ", "why": "<b>no "} for number in range(20)]
    assert got == {
        "round": 1,
        "accuracy": None,
        "loss": None,
        "epsilon": None,
        "undone": False,
        "recall": [0.5, None],
        "remarks": ["so [2J"],
    }
    assert plain({"round": 0, "failures": "many"})["failures"] == []
    assert plain({"round": 0, "failures": [3]})["failures"] == []
