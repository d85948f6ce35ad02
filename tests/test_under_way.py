"""Notes of how far long loops are, across the processes of one machine."""

import os

import pytest

from understudy import under_way
from understudy.under_way import Loop, counted, loops, note, take_place


def test_a_loop_is_seen_while_it_runs_and_not_afterwards() -> None:
    seen = []
    for _ in counted("training", range(3), 3):
        seen += loops()
    assert seen == [Loop("training", done, 3) for done in range(3)]
    assert loops() == []


def test_a_loop_that_is_left_early_is_over() -> None:
    for at in counted("training", range(9), 9):
        if at == 4:
            break
    assert loops() == []


def test_what_another_process_notes_is_seen_here() -> None:
    child = os.fork()
    if not child:
        take_place(3)
        note("moving records", 7, 20)
        os._exit(0)
    os.waitpid(child, 0)
    try:
        assert loops() == [Loop("moving records", 7, 20)]
        assert str(loops()[0]) == "moving records, step 7 of 20"
    finally:
        under_way.clear(3)


def test_processes_beyond_the_board_go_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_way, "_place", under_way.PLACES)
    note("training", 1, 2)
    assert loops() == []
