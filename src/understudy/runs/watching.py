"""Observers of a run, and the error for when it cannot continue."""

import sys
from pathlib import Path

from understudy.errors import UserError
from understudy.runs.folder import Line


class Observer:
    """Watches a run; this one ignores everything."""

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None: ...
    def heard(self, client: str) -> None: ...
    def scored(self, line: Line) -> None: ...
    def says(self, sentence: str) -> None: ...


class Aloud(Observer):
    """For someone who only waits for the result: prints a run's messages, but no progress."""

    def says(self, sentence: str) -> None:
        print(sentence, file=sys.stderr)


class RunStopped(UserError):
    """The run ended before its last round, in good order."""


class RunDiverged(RunStopped):
    """It ended because nothing finite came of its rounds, so that running it again would end no better."""
