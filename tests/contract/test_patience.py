"""Rounds with too few replies are undone; only so many in a row end a run, and none of them counts as its end."""

from collections.abc import Callable
from pathlib import Path

from contract_checks import watched_play
from test_contract import CASES

from understudy.federation.exchange import Request


def lost_in(*rounds: int) -> Callable[[Request], str | None]:
    def lost(request: Request) -> str | None:
        return "the line is dead" if request.round in rounds else None

    return lost


def test_undone_rounds_that_are_not_in_a_row_do_not_end_a_run(tmp_path: Path) -> None:
    result, _ = watched_play(CASES["fedavg"], tmp_path / "run", lost_in(1, 2, 4, 5), rounds=6)
    assert [line["undone"] for line in result.metrics] == [False, True, True, False, True, True, False]
    assert (result.summary["finished"], result.summary["rounds"]) == (True, 6)


def test_a_run_whose_last_round_was_undone_is_not_finished(tmp_path: Path) -> None:
    result, _ = watched_play(CASES["fedavg"], tmp_path / "run", lost_in(3), rounds=3)
    assert [line["undone"] for line in result.metrics] == [False, False, False, True]
    assert (result.summary["finished"], result.summary["rounds"]) == (False, 2)
    assert result.metrics[3]["loss"] == result.metrics[2]["loss"]
