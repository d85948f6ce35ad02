"""Observers of a run, and the error for when it cannot continue."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from understudy.errors import UserError
from understudy.runs.folder import Line


class Observer:
    """Watches a run; this one ignores everything."""

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None: ...
    def phase(self, round: int, name: str, clients: Sequence[str] = ()) -> None:
        """A part of a round begins; ``clients`` are asked in it."""

    def heard(self, client: str) -> None: ...
    def attends(self, there: Collection[str], awaited: Collection[str]) -> None:
        """Only where clients are machines: who is online, and who has not answered. Told every few seconds."""

    def scored(self, line: Line) -> None: ...
    def says(self, sentence: str) -> None: ...


class PassesOn(Observer):
    """Passes on to another observer what a run tells; for observers that do something besides."""

    def __init__(self, inner: Observer):
        self._inner = inner

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None:
        self._inner.begins(rounds, done, clients, folder)

    def phase(self, round: int, name: str, clients: Sequence[str] = ()) -> None:
        self._inner.phase(round, name, clients)

    def heard(self, client: str) -> None:
        self._inner.heard(client)

    def attends(self, there: Collection[str], awaited: Collection[str]) -> None:
        self._inner.attends(there, awaited)

    def scored(self, line: Line) -> None:
        self._inner.scored(line)

    def says(self, sentence: str) -> None:
        self._inner.says(sentence)


class Aloud(Observer):
    """For someone who only waits for the result: prints a run's messages, but no progress."""

    def says(self, sentence: str) -> None:
        print(sentence, file=sys.stderr)


class RunStopped(UserError):
    """The run ended before its last round, in good order."""


class AwaitsApproval(RunStopped):
    """It goes on once people have reviewed what would leave."""


class RunDiverged(RunStopped):
    """It ended because nothing finite came of its rounds, so that running it again would end no better."""
