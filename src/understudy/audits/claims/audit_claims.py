"""``audit_claims``: does any experiment contradict what a config claims?

For every task that charges, or for which a paper claims something, and for every pair of neighbours: a pilot half that
chooses a statistic and its cuts, a test half that tries them, and, where that refutes, a second pass with fresh noise
and the same cuts. One per cent of false alarms is shared over all rows.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from understudy.audits.claims.claimed import ClaimedConfig, ClaimedTask, besides_tasks, claimed_by, repeatable
from understudy.audits.claims.findings import AuditedMechanism, ClaimsAudit, JudgedRow
from understudy.audits.claims.judging import UnjudgedRow, row_of
from understudy.audits.claims.pairs import Neighbours
from understudy.audits.claims.preparing import Prepared, prepare, steps_to_test
from understudy.audits.claims.repetitions import AGAIN, FEWEST, PILOT, TEST, AuditProgress, HowLong, Repetitions
from understudy.audits.claims.stored import StoredScores
from understudy.audits.claims.variants import unlimited, with_every_record, with_steps
from understudy.config.build import build_data
from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.data.standardise import as_if_agreed
from understudy.errors import UserError
from understudy.threads import one_thread

__all__ = ["ClaimsAudit", "HowLong", "audit_claims"]


def audit_claims(
    config: Config,
    *,
    out: Path | None = None,
    how_long: HowLong | None = None,
    only: Sequence[str] | None = None,
    progress: AuditProgress = lambda doing, done, most: None,
) -> ClaimsAudit:
    """``out``: a folder for scores, from which an interrupted audit goes on; a finished one leaves none.
    ``only``: pairs, by the beginning of their names, for a narrower look."""
    begun, name, time_given = time.monotonic(), config.plan.name, how_long or HowLong()
    if repeatable(config):
        return ClaimsAudit(name, (), repeatable(config))
    with one_thread():
        given = build_data(config)
        data, not_tested = as_if_agreed(given), besides_tasks(config, given)
        claimed = claimed_by(config, data)
        if not claimed.tasks:
            return ClaimsAudit(name, (), claimed.why_none, not_tested=not_tested)
        experiments = [
            experiment
            for task in claimed.tasks
            for experiment in _experiments(claimed, data, task, time_given, only, progress)
        ]
        running = [one for one in experiments if one.prepared is not None]
        if not running:
            raise UserError(f"None of the pairs could be run: {'; '.join(one.why_not for one in experiments)}")
        repetitions = Repetitions(config, data.problem, time_given, StoredScores(out), progress, len(running), begun)
        rows = {id(one): _rows(one, repetitions) for one in running}
        share = time_given.level / sum(map(len, rows.values()))
        for one in running:
            one.tested = [(row.scored.mechanism, row.tested(share)) for row in rows[id(one)]]
        repetitions.stored.forget()
        found = [mechanism for task in claimed.tasks for mechanism in _mechanisms(task, experiments)]
        return ClaimsAudit(name, tuple(found), "", time_given.level, time.monotonic() - begun, not_tested)


@dataclass
class _Experiment:
    task: ClaimedTask
    pair: Neighbours
    prepared: Prepared | None = None
    why_not: str = ""
    tested: list[tuple[int, JudgedRow]] = field(default_factory=list)


def _experiments(
    claimed: ClaimedConfig,
    data: Federation,
    task: ClaimedTask,
    how_long: HowLong,
    only: Sequence[str] | None,
    progress: AuditProgress,
) -> list[_Experiment]:
    found = []
    for pair in task.pairs.all():
        if only is not None and not any(pair.name.startswith(name) for name in only):
            continue
        progress(f"{task.asked.task}: {pair.name}", 0, 0)
        try:
            found.append(_Experiment(task, pair, _prepared(claimed, data, task, pair, how_long)))
        except UserError as error:
            found.append(_Experiment(task, pair, why_not=str(error)))
    return found


def _prepared(
    claimed: ClaimedConfig, data: Federation, task: ClaimedTask, pair: Neighbours, how_long: HowLong
) -> Prepared:
    several = task.published is None and task.asked.round > 0 and claimed.config.plan.rounds > task.asked.round
    spent = replace(task.longest, rate=1.0) if pair.every_record else task.longest
    most = steps_to_test(spent, 2 if several else 1, task.delta)
    short = with_steps(claimed.config, most, claimed.charges)
    short = with_every_record(short) if pair.every_record else short
    affordable = how_long.seconds * how_long.workers / (len(task.pairs.all()) * 4 * FEWEST)
    seconds = affordable if how_long.runs is None else math.inf
    try:
        return prepare(unlimited(short), data, pair, task.asked.task, most, seconds)
    except UserError as why:
        try:  # a method whose σ only a budget can solve
            return prepare(short, data, pair, task.asked.task, most, seconds)
        except UserError:
            raise why from None


def _rows(one: _Experiment, repetitions: Repetitions) -> list[UnjudgedRow]:
    prepared = one.prepared
    assert prepared is not None
    halves = {half: repetitions.of(prepared, half) for half in (PILOT, TEST)}
    rows = [
        row_of(at, scored, one.pair, halves, lambda: repetitions.of(prepared, AGAIN), repetitions.how_long.level)
        for at, scored in enumerate(prepared.scored)
    ]
    return [row for row in rows if row is not None]


def _mechanisms(task: ClaimedTask, experiments: Sequence[_Experiment]) -> list[AuditedMechanism]:
    """Rows on all mechanisms of a task together count for each of them."""
    mine = [one for one in experiments if one.task is task]
    left_out = {one.pair.name: one.why_not for one in mine if one.prepared is None}
    return [
        AuditedMechanism(
            claimed, tuple(row for one in mine for which, row in one.tested if which in (at, -1)), left_out
        )
        for at, claimed in enumerate(task.mechanisms())
    ]
