"""The log of a run: its progress as lines of text in its folder."""

import re
from pathlib import Path

import numpy as np

import understudy as us
from understudy.runs.log import RunLog, round_told

PLAN = {"method": {"name": "fedavg", "rounds": 2, "local": {"steps": 0}}, "model": "softmax", "engine": "inline"}


def data() -> us.Federation:
    y = np.arange(12) % 3
    return us.Federation.from_arrays(
        {"a": (np.zeros((12, 4, 4), np.uint8), y)}, test=(np.zeros((3, 4, 4), np.uint8), y[:3])
    )


def test_progress_goes_into_the_folders_log_and_a_resumed_run_goes_on_below(tmp_path: Path) -> None:
    us.run(PLAN, data=data(), out=tmp_path / "run")
    first = (tmp_path / "run/log.txt").read_text()
    us.run(data=data(), out=tmp_path / "run", resume=True, rounds=3)
    lines = (tmp_path / "run/log.txt").read_text().splitlines()
    assert "\n".join(lines).startswith(first)
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \S", line) for line in lines)
    told = [line[21:] for line in lines]
    assert told[0].startswith("method.local has neither epochs nor steps")  # said before there was a folder
    assert [line.partition(":")[0] for line in told if line.startswith(("opening", "round"))] == [
        *["opening", "round 1 of 2", "round 2 of 2", "round 3 of 3"],
    ]
    assert told.count("finished") == 2


def test_a_round_in_words_has_its_failures_first() -> None:
    line = {
        "round": 2,
        "accuracy": 0.5,
        "bytes_up": 1200,
        "bytes_down": 30,
        "epsilon": 1.5,
        "clients": 3,
        "seconds": 2.0,
    }
    failed = {**line, "failures": [{"client": "elm", "why": "its cable was cut"}], "undone": True}
    numbers = "round 2 of 9: accuracy 50.00 %, 1,200 bytes up, 30 down, ε 1.5, 3 clients answered, 2.0 s"
    assert round_told(line, 9) == [numbers]
    assert round_told(failed, 9) == [
        "round 2 of 9: elm did not count: its cable was cut",
        "round 2 of 9: undone, as too few clients answered",
        numbers,
    ]


def test_nothing_that_moves_a_cursor_gets_into_the_log(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.open()
    log.add("two\nlines\x1b[31m and \x07 a bell")
    text = (tmp_path / "log.txt").read_text()
    assert text.count("\n") == 1
    assert all(letter.isprintable() for letter in text.rstrip("\n"))
