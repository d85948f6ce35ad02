"""What a run says at its end, from the lines of its rounds, by hand."""

from typing import Any

from understudy.runs.lost_work import Spent
from understudy.runs.scores import summarise


def line(round: int, accuracy: float | None, **more: Any) -> dict[str, Any]:
    usual = {"bytes_up": 10, "bytes_down": 100, "failed": 1, "seconds": 1.5, "undone": False, "epsilon": 1.0}
    return {"round": round, "accuracy": accuracy, **usual, **more}


def test_bytes_seconds_and_failures_are_those_of_all_rounds_and_accuracy_that_of_the_last() -> None:
    found = summarise([line(0, 0.1), line(1, 0.8), line(2, 0.6, bytes_up=30)], 2, Spent(1.0, 7, 11), 4.5)
    wanted = {"bytes_up": 10 + 10 + 30 + 7, "bytes_down": 300 + 11, "seconds": 4.5 + 1, "failed": 3}
    wanted |= {"accuracy": 0.6, "best_accuracy": 0.8, "rounds": 2, "finished": True, "epsilon": 4.5}
    assert {key: found[key] for key in wanted} == wanted


def test_a_run_is_finished_when_its_last_round_counts() -> None:
    assert not summarise([line(0, 0.1), line(1, 0.8)], 2, Spent(), None)["finished"]
    undone = summarise([line(0, 0.1), line(1, 0.8), line(2, None, undone=True)], 2, Spent(), None)
    assert (undone["finished"], undone["accuracy"], undone["best_accuracy"]) == (False, None, 0.8)
