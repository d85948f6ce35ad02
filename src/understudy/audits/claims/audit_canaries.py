"""``audit_canaries``: one run of each task with many canaries in it, as a smoke alarm.

Every canary is put in by a fair coin that is thrown before the run. From the releases an attacker guesses the coins;
how many guesses are right is held against the claimed curve (`one_run`). Where that contradicts it, there is a second
run, with fresh noise and fresh coins.
"""

import os
import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from understudy.audits.claims.canary_run import CanaryPlan, ScoredLook, planned, run_once
from understudy.audits.claims.claimed import ClaimedConfig, ClaimedTask, besides_tasks, claimed_by, repeatable
from understudy.audits.claims.experiment import Trial
from understudy.audits.claims.findings import AuditedMechanism, CanaryRow, ClaimsAudit
from understudy.audits.claims.one_run import OneRun, audit_one_run
from understudy.audits.claims.preparing import spent_by
from understudy.audits.claims.repetitions import AuditProgress, HowLong
from understudy.config.build import build_data, build_method
from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.data.standardise import as_if_agreed
from understudy.errors import UserError
from understudy.threads import one_thread

FEWEST_CANARIES = 10
MOST_BYTES = 2**31  # of the overlaps of all canaries with each other, and of solving for them
BYTES_PER_OVERLAP = 32


def audit_canaries(
    config: Config,
    canaries: int,
    *,
    how_long: HowLong | None = None,
    progress: AuditProgress = lambda doing, done, most: None,
) -> ClaimsAudit:
    check_number(canaries)
    begun, name, time_given = time.monotonic(), config.plan.name, how_long or HowLong()
    if repeatable(config):
        return ClaimsAudit(name, (), repeatable(config))
    with one_thread():
        given = build_data(config)
        data, not_tested = as_if_agreed(given), besides_tasks(config, given)
        claimed = claimed_by(config, data)
        if not claimed.tasks:
            return ClaimsAudit(name, (), claimed.why_none, not_tested=not_tested)
        tasks = [_CanaryTask(claimed, data, task, canaries, time_given, progress) for task in claimed.tasks]
        for one in tasks:
            one.run(len(tasks))
        share = time_given.level / max(1, sum(len(one.first) for one in tasks))
        found = [mechanism for one in tasks for mechanism in one.judged(share)]
        return ClaimsAudit(name, tuple(found), "", time_given.level, time.monotonic() - begun, not_tested)


def check_number(canaries: int) -> None:
    most = int((MOST_BYTES / BYTES_PER_OVERLAP) ** 0.5)
    if canaries < FEWEST_CANARIES:
        raise UserError(f"canaries: {canaries} show nothing; ask for at least {FEWEST_CANARIES}, like 1000.")
    if canaries > most:
        needed = canaries**2 * BYTES_PER_OVERLAP / 2**30
        raise UserError(f"canaries: {canaries} would take {needed:,.0f} GB of memory; ask for at most {most}.")


def numbers_of_guesses(canaries: int, rate: float) -> tuple[tuple[int, ...], float]:
    """Fixed before the run, with the share that says in. Never all canaries, since hardly ever exactly half of them are
    in. A canary that sampling left out looks as if it were not in, so where records are sampled only the highest scores
    say something."""
    shares = (1.25, 4, 16) if rate == 1 else (4, 16, 64)
    return tuple(dict.fromkeys(max(1, int(canaries / share)) for share in shares)), 0.5 if rate == 1 else 1.0


@dataclass
class _CanaryTask:
    claimed: ClaimedConfig
    data: Federation
    task: ClaimedTask
    canaries: int
    how_long: HowLong
    progress: AuditProgress
    plan: CanaryPlan | None = None
    first: list[ScoredLook] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def run(self, tasks: int) -> None:
        """``tasks`` share the time."""
        config, asked, pairs = self.claimed.config, self.task.asked, self.task.pairs
        try:
            self.progress(f"{asked.task}: {self.canaries} canaries", 0, 0)
            method = build_method(config, self.data, "eager")
            trial = Trial(
                method, config.top.privacy, config.top.seed, asked.task, ((asked.round, asked.brief),), asked.memory
            )
            self.plan = planned(
                trial,
                pairs.one_record().without,
                pairs.canaries(self.canaries),
                partial(spent_by, config, method, asked),
                self.how_long.seconds / tasks,
                self.how_long.workers,
            )
            self.first = self._run("first run")
        except UserError as error:
            self.left_out["one run with canaries"] = str(error)

    def judged(self, share: float) -> list[AuditedMechanism]:
        verdicts = [_verdict(one, share) for one in self.first]
        again: list[OneRun | None] = [None] * len(verdicts)
        if any(verdict.refuted for verdict in verdicts):
            again = [
                _verdict(one, share) if verdict.refuted else None
                for one, verdict in zip(self._run("second run"), verdicts, strict=True)
            ]
        rows = [
            (one.look.mechanism, self._row(one, verdict, confirmed))
            for one, verdict, confirmed in zip(self.first, verdicts, again, strict=True)
        ]
        found = []
        for at, claimed in enumerate(self.task.mechanisms()):
            mine = tuple(row for which, row in rows if which in (at, -1))
            if not mine and not self.left_out:
                self.left_out[claimed.mechanism] = "its releases come after all those that were looked at."
            found.append(AuditedMechanism(claimed, (), self.left_out, mine))
        return found

    def _row(self, one: ScoredLook, verdict: OneRun, confirmed: OneRun | None) -> CanaryRow:
        assert self.plan is not None
        claim = one.look.claim
        rate = max(some.rate for some in claim.spendings)
        return CanaryRow(one.look.what, rate, one.look.releases, claim.epsilon, self.plan.whole, verdict, confirmed)

    def _run(self, which: str) -> list[ScoredLook]:
        assert self.plan is not None
        done, doing = 0, f"{self.task.asked.task}: {self.canaries} canaries, {which}"

        def count() -> None:
            nonlocal done
            done += 1
            self.progress(doing, done, self.canaries)

        scored, left_out = run_once(self.plan, self.how_long.workers, count)
        self.left_out |= left_out
        return scored


def _verdict(one: ScoredLook, level: float) -> OneRun:
    numbers, ins = numbers_of_guesses(len(one.coins), one.look.scores.rate)
    ties = np.random.default_rng(int.from_bytes(os.urandom(16)))
    return audit_one_run(one.scores, one.coins, one.look.claim, numbers, ties, level, ins)
