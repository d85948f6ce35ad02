"""A whole run, one round at a time: what a person's run does between two lines of metrics, and nothing less."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import understudy as us
from understudy.runs.folder import Line
from understudy.runs.rounds import Result
from understudy.runs.watching import Observer


class RoundsInTurn(Observer):
    """A run that waits before every round until it is told to go on. Files, ledger, checkpoint and scores are in it;
    what comes after the line of a round is in the turn of the next one."""

    def __init__(self, play: Callable[[Observer], Result]):
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._broken: BaseException | None = None
        self.result: Result | None = None
        threading.Thread(target=self._run, args=(play,), daemon=True).start()
        self._wait()  # for the opening

    def __call__(self) -> None:
        """One round."""
        self._go.release()
        self._wait()

    def scored(self, line: Line) -> None:
        self._done.release()
        self._go.acquire()

    def _run(self, play: Callable[[Observer], Result]) -> None:
        try:
            self.result = play(self)
        except BaseException as broken:
            self._broken = broken
        self._done.release()

    def _wait(self) -> None:
        self._done.acquire()
        if self._broken is not None:
            raise self._broken


def in_turn(out: Path, words: dict[str, Any], **live: Any) -> RoundsInTurn:
    """``words`` and ``live`` objects as `understudy.run` takes them."""
    return RoundsInTurn(lambda observer: us.run(words, out=out, observer=observer, **live))
