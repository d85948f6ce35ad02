"""Who watches a run, and what it says when it cannot go on."""

import sys
from pathlib import Path

from understudy.errors import UserError
from understudy.runs.folder import Line


class Observer:
    """Who watches a run; this one does not care."""

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None: ...
    def heard(self, client: str) -> None: ...
    def scored(self, line: Line) -> None: ...
    def says(self, sentence: str) -> None: ...


class Aloud(Observer):
    """For a person who only waits for the result: what a run has to say, and no progress."""

    def says(self, sentence: str) -> None:
        print(sentence, file=sys.stderr)


class RunStopped(UserError):
    """The run ended before its last round, in good order."""
