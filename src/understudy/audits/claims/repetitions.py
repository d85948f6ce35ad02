"""Repetitions of an experiment: how many, how they are spread, and what an earlier audit has of them already."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from understudy.audits.claims.preparing import Prepared
from understudy.audits.claims.spread import Statistics, spread
from understudy.audits.claims.stored import StoredScores, digest_of
from understudy.config.schema import Config
from understudy.data.problem import Problem
from understudy.errors import UserError

FEWEST, MOST = 40, 400  # repetitions per arm and half
PILOT, TEST, AGAIN = "pilot", "test", "again"

AuditProgress = Callable[[str, int, int], None]  # what is being done, repetitions done, of how many at most


@dataclass(frozen=True)
class HowLong:
    """How much an audit may try."""

    runs: int | None = None  # repetitions per arm and half; None: as many as fit into the seconds
    seconds: float = 75.0  # for all pilots and tests; a second pass, where something is refuted, comes on top
    workers: int = field(default_factory=lambda: min(8, os.cpu_count() or 1))
    level: float = 0.01  # share of audits of exact mechanisms that may come out as refuted after the first pass

    def __post_init__(self) -> None:
        if self.runs is not None and self.runs < 1:
            raise UserError(f"runs: {self.runs} repetitions show nothing; write at least 1.")
        if not self.seconds > 0 or self.workers < 1:
            raise UserError("seconds and workers must be positive.")


@dataclass
class Repetitions:
    """Runs experiments one after another; ``experiments`` is how many there will be."""

    config: Config
    problem: Problem
    how_long: HowLong
    stored: StoredScores
    progress: AuditProgress
    experiments: int
    begun: float = field(default_factory=time.monotonic)
    finished: int = 0  # halves

    def of(self, one: Prepared, half: str) -> list[Statistics]:
        """Without and with the record by turns. A second pass has as many as its test."""
        digest = digest_of(
            self.config,
            self.problem,
            *(one.trial.task, one.pair.name, one.trial.most, one.trial.client, one.fitted_on),
            *(self.how_long.runs, self.how_long.seconds),
        )
        found = self.stored.get(digest, half)
        if found is None:
            found = self._run(one, half, len(self.stored.get(digest, TEST) or ()) if half == AGAIN else 0)
            self.stored.keep(digest, half, found)
        self.finished += half != AGAIN
        return found

    def _run(self, one: Prepared, half: str, wanted: int) -> list[Statistics]:
        fixed = wanted or 2 * (self.how_long.runs or 0)
        done, most, doing = 0, fixed or 2 * MOST, f"{one.trial.task}: {one.pair.name}, {half}"

        def count() -> None:
            nonlocal done
            done += 1
            self.progress(doing, done, most)

        if fixed:
            return spread(one.once, fixed, self.how_long.workers, count)
        return spread(one.once, most, self.how_long.workers, count, least=2 * FEWEST, until=self._deadline())

    def _deadline(self) -> float:
        """An equal share of the time that is left."""
        left = self.begun + self.how_long.seconds - time.monotonic()
        return time.monotonic() + max(left, 0.0) / max(1, 2 * self.experiments - self.finished)
