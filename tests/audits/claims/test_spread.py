"""Repetitions over processes, and what an interrupted audit keeps."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from understudy.audits.claims.spread import Statistics, spread
from understudy.audits.claims.stored import FILE, StoredScores
from understudy.errors import UserError


def squared(number: int) -> Statistics:
    return {"square": float(number**2)}


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_order_however_many_processes(workers: int) -> None:
    done: list[int] = []
    found = spread(squared, 7, workers, lambda: done.append(1))
    assert [one["square"] for one in found] == [0, 1, 4, 9, 16, 25, 36]
    assert len(done) == 7


@pytest.mark.parametrize("workers", [1, 2])
def test_after_the_deadline_only_the_least_are_begun(workers: int) -> None:
    found = spread(squared, 100, workers, least=6, until=time.monotonic() - 1)
    assert [one["square"] for one in found] == [0, 1, 4, 9, 16, 25]


def test_a_sentence_from_a_process_is_passed_on() -> None:
    def fails(number: int) -> Statistics:
        raise UserError(f"Number {number} cannot be run.")

    with pytest.raises(UserError, match="cannot be run"):
        spread(fails, 4, 2)


def test_a_process_that_dies_is_said() -> None:
    def dies(number: int) -> Statistics:
        if number == 3:
            os._exit(1)
        return squared(number)

    with pytest.raises(UserError, match="ended early"):
        spread(dies, 8, 2)


ENDED_AT_BIRTH = """
import os, signal
from understudy.audits.claims.spread import spread
from understudy.errors import UserError

def as_ctrl_c(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, as_ctrl_c)
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
try:
    spread(lambda number: {"": 0.0}, 4, 2)
except UserError as error:
    print(error)
"""


def test_a_process_that_is_ended_before_it_has_begun_ends() -> None:
    asked = [sys.executable, "-c", ENDED_AT_BIRTH]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.startswith("A process of the audit ended early")
    assert len(said.splitlines()) == 1  # no copy of this program said it too


def test_finished_scores_are_found_again_and_half_a_line_is_not(tmp_path: Path) -> None:
    kept = StoredScores(tmp_path)
    kept.keep("digest", "pilot", [{"0|log size": 1.5}, {"0|log size": -2.0}])
    with (tmp_path / FILE).open("a") as file:
        file.write('{"digest": "digest", "part": "te')
    again = StoredScores(tmp_path)
    assert again.get("digest", "pilot") == [{"0|log size": 1.5}, {"0|log size": -2.0}]
    assert again.get("digest", "test") is None
    assert again.get("another", "pilot") is None
    again.keep("digest", "test", [{"0|log size": 0.0}])
    assert [json.loads(line)["part"] for line in (tmp_path / FILE).read_text().splitlines()] == ["pilot", "test"]


def test_a_finished_audit_forgets_its_own_scores_and_keeps_those_of_others(tmp_path: Path) -> None:
    StoredScores(tmp_path).keep("another", "pilot", [{"0|log size": 1.0}])
    mine = StoredScores(tmp_path)
    assert mine.get("digest", "pilot") is None
    mine.keep("digest", "pilot", [{"0|log size": 2.0}])
    mine.forget()
    again = StoredScores(tmp_path)
    assert again.get("another", "pilot") == [{"0|log size": 1.0}]
    assert again.get("digest", "pilot") is None
