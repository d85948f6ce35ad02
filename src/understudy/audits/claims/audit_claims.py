"""``audit_claims``: does any experiment contradict what a config claims?

For every task that charges, or for which a paper claims something, and for every pair of neighbours: a pilot half that
chooses a statistic and its cuts, a test half that tries them, and, where that refutes, a second pass with fresh noise
and the same cuts. One per cent of false alarms is shared over all rows.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from understudy.audits.claims.claim import Claim
from understudy.audits.claims.findings import AuditedMechanism, ClaimedMechanism, ClaimsAudit, TestedRow
from understudy.audits.claims.pairs import Pair, PairMaker
from understudy.audits.claims.preparing import DELTA, Prepared, Scored, asked_by, claim_of, prepare, steps_to_test
from understudy.audits.claims.rehearsal import AskedOnce
from understudy.audits.claims.spread import Scores, spread
from understudy.audits.claims.stored import StoredScores, digest_of
from understudy.audits.claims.variants import planned_records_of, with_every_record, with_plan, with_steps
from understudy.audits.claims.verdict import Arms, RowVerdict, choose, judge_again
from understudy.config.build import build_data
from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.privacy.accounting import Spending
from understudy.privacy.charges import Charge
from understudy.privacy.published import PublishedClaim
from understudy.threads import one_thread

FEWEST, MOST = 50, 400  # repetitions per arm and half
PASSES = ("pilot", "test")
AGAIN = "again"
MOST_OF_A_CLASS = 2000  # records in a set of one class

Progress = Callable[[str, int, int], None]  # what is being done, repetitions done, of how many


@dataclass(frozen=True)
class HowLong:
    """How much an audit may try. ``runs``: repetitions per arm and half; None: as many as fit into ``seconds``."""

    runs: int | None = None
    seconds: float = 80.0
    workers: int = min(8, os.cpu_count() or 1)
    level: float = 0.01

    def repetitions(self, one: float, experiments: int) -> int:
        """Per arm and half, of an experiment that takes ``one`` second, out of so many experiments."""
        if self.runs is not None:
            return self.runs
        fit = self.seconds * self.workers / max(one, 1e-6) / experiments / (2 * len(PASSES))
        return int(min(MOST, max(FEWEST, fit)))


def audit_claims(
    config: Config,
    *,
    out: Path | None = None,
    how_long: HowLong | None = None,
    only: Sequence[str] | None = None,
    progress: Progress = lambda doing, done, of: None,
) -> ClaimsAudit:
    """``out``: a folder for finished scores, from which an interrupted audit goes on. ``only``: pairs by the beginning
    of their names, for a narrower look."""
    begun = time.monotonic()
    with one_thread():
        audit = _Audit(config, build_data(config), StoredScores(out), how_long or HowLong(), only, progress)
        return replace(audit.run(), seconds=time.monotonic() - begun)


@dataclass(frozen=True)
class _Row:
    """What is tested at one pair and level, before it is."""

    mechanism: int
    what: str
    pair: Pair
    claim: Claim
    statistic: str
    pilot: Arms
    test: Arms
    again: Callable[[], Arms]


@dataclass(frozen=True)
class _Audit:
    config: Config
    data: Federation
    stored: StoredScores
    how_long: HowLong
    only: Sequence[str] | None
    progress: Progress

    def run(self) -> ClaimsAudit:
        name = self.config.plan.name
        if why := self._no_promise():
            return ClaimsAudit(name, (), why, self.how_long.level)
        config = with_plan(self.config, planned_records_of(self.config, self.data))
        method, asked = asked_by(config, self.data, self._pairs(config, None).one_record())
        claimed = [one for one in asked if one.charges or self._published(method, one.task)]
        if not claimed:
            why = f"{name} charges nothing and publishes no claim, so there is nothing to test."
            return ClaimsAudit(name, (), why, self.how_long.level)
        charges = {one.task: one.charges for one in asked if one.charges}
        prepared = [self._prepared(config, one, self._published(method, one.task), charges) for one in claimed]
        experiments = sum(len(each) for each, _ in prepared)
        if not experiments:
            reasons = "; ".join(dict.fromkeys(why for _, left_out in prepared for why in left_out.values()))
            raise UserError(f"None of the pairs could be run: {reasons}")
        rows = [[row for one in each for row in self._rows(one, experiments)] for each, _ in prepared]
        share = self.how_long.level / max(1, sum(map(len, rows)))
        audited = [
            mechanism
            for one, some, (_, left_out) in zip(claimed, rows, prepared, strict=True)
            for mechanism in self._audited(method, one, some, left_out, share)
        ]
        return ClaimsAudit(name, tuple(audited), "", self.how_long.level)

    def _no_promise(self) -> str:
        privacy = self.config.top.privacy
        if privacy is not None and privacy.test_noise:
            return "privacy.test_noise makes the noise repeatable, so that no guarantee holds."
        return ""

    def _published(self, method: Method, task: str) -> PublishedClaim | None:
        found = method.published_claim(self._pairs(self.config, method).one_record().without)
        return found if found is not None and found.task == task else None

    def _pairs(self, config: Config, published_by: Method | None) -> PairMaker:
        pixels = next(iter(self.data.sites.values())).own.x.dtype.is_floating_point is False
        privacy = config.top.privacy
        if published_by is not None and privacy is None:
            return PairMaker(self.data.problem, pixels, self._of_a_class(), of_one=True)
        return PairMaker(self.data.problem, pixels, 1 if privacy is None or "labels" in privacy.public else 0)

    def _of_a_class(self) -> int:
        """Records of a class at a client, on average over those that hold it."""
        counts = [c for h in self.data.sites.values() for c in h.own.label_counts(self.data.problem.classes).tolist()]
        held = [count for count in counts if count]
        return min(MOST_OF_A_CLASS, max(2, round(sum(held) / len(held)))) if held else 2

    # ---- the experiments

    def _prepared(
        self,
        config: Config,
        asked: AskedOnce,
        published: PublishedClaim | None,
        charges: dict[str, tuple[Charge, ...]],
    ) -> tuple[list[Prepared], dict[str, str]]:
        """An experiment for each pair, and why there is none for some."""
        found, left_out = [], {}
        maker = self._pairs(config, None) if published is None else self._pairs_of_one(config)
        for pair in maker.all():
            if self.only is not None and not any(pair.name.startswith(name) for name in self.only):
                continue
            self.progress(f"{asked.task}: {pair.name}", 0, 0)
            try:
                found.append(self._one(config, pair, asked, published, charges))
            except UserError as error:
                left_out[pair.name] = str(error)
        return found, left_out

    def _pairs_of_one(self, config: Config) -> PairMaker:
        return replace(self._pairs(config, None), held=self._of_a_class(), of_one=True)

    def _one(
        self,
        config: Config,
        pair: Pair,
        asked: AskedOnce,
        published: PublishedClaim | None,
        charges: dict[str, tuple[Charge, ...]],
    ) -> Prepared:
        spent = published.spending if published is not None else _longest(asked.charges)
        if pair.every_record and published is None:
            spent = replace(spent, rate=1.0)
        privacy = config.top.privacy
        rounds = 2 if published is None and asked.round and self.config.plan.rounds > asked.round else 1
        most = steps_to_test(spent, rounds, DELTA if privacy is None else privacy.delta)
        short = with_steps(config, most, charges)
        if pair.every_record:
            short = with_every_record(short)
        seconds = self.how_long.seconds * self.how_long.workers / (4 * 2 * len(PASSES) * FEWEST)
        try:  # with σ as in the run; the budget would refuse some variants
            return prepare(_unlimited(short), self.data, pair, asked.task, most, seconds)
        except UserError:
            return prepare(short, self.data, pair, asked.task, most, seconds)

    def _rows(self, one: Prepared, experiments: int) -> list[_Row]:
        runs = self.how_long.repetitions(one.seconds, experiments)
        digest = digest_of(self.config, self.data.problem, one.trial.task, one.pair.name, one.trial.most, self.how_long.runs)
        scores = {part: self._scores(one, digest, part, runs) for part in PASSES}
        return [
            row
            for at, scored in enumerate(one.scored)
            if (row := self._best(one, at, scored, scores, lambda: self._scores(one, digest, AGAIN, runs))) is not None
        ]

    def _scores(self, one: Prepared, digest: str, part: str, runs: int) -> list[Scores]:
        kept = self.stored.get(digest, part)
        if kept is not None:
            return kept
        done, doing = 0, f"{one.trial.task}: {one.pair.name}, {part}"

        def count() -> None:
            nonlocal done
            done += 1
            self.progress(doing, done, 2 * runs)

        found = spread(one.once, 2 * runs, self.how_long.workers, count)
        self.stored.keep(digest, part, found)
        return found

    def _best(
        self,
        one: Prepared,
        at: int,
        scored: Scored,
        scores: dict[str, list[Scores]],
        again: Callable[[], list[Scores]],
    ) -> _Row | None:
        """The statistic that lies furthest below the claimed curve on the pilot half."""
        names = [key for key in scores["pilot"][0] if key.startswith(f"{at}|")]
        pilots = {name: _arms(scores["pilot"], name, one.pair) for name in names}
        depths = {name: _depth(arms, scored.claim, self.how_long.level) for name, arms in pilots.items()}
        if not depths:
            return None
        name = max(depths, key=lambda key: depths[key])
        test = _arms(scores["test"], name, one.pair)
        statistic = name.partition("|")[2]
        return _Row(
            scored.mechanism,
            scored.what,
            one.pair,
            scored.claim,
            statistic,
            pilots[name],
            test,
            lambda: _arms(again(), name, one.pair),
        )

    # ---- the verdicts

    def _audited(
        self, method: Method, asked: AskedOnce, rows: Sequence[_Row], left_out: dict[str, str], share: float
    ) -> list[AuditedMechanism]:
        tested = [(row.mechanism, self._tested(row, share)) for row in rows]
        claims = self._claimed(method, asked)
        together = [row for mechanism, row in tested if mechanism < 0]
        found = []
        for at, claimed in enumerate(claims):
            alone = [row for mechanism, row in tested if mechanism == at]
            found.append(AuditedMechanism(claimed, tuple(alone + together), left_out))
        return found

    def _tested(self, row: _Row, share: float) -> TestedRow:
        cuts = choose(row.pilot, row.claim, share, like=row.test)
        (verdict,) = judge_again([(cuts, row.test)], row.claim, share)
        confirmed: RowVerdict | None = None
        if verdict.refuted:
            (confirmed,) = judge_again([(cuts, row.again())], row.claim, share)
        spendings = row.claim.spendings
        return TestedRow(
            row.pair.name,
            row.what,
            row.statistic,
            max(some.rate for some in spendings),
            sum(some.steps for some in spendings),
            row.claim.epsilon,
            len(row.test.without),
            verdict,
            confirmed,
        )

    def _claimed(self, method: Method, asked: AskedOnce) -> list[ClaimedMechanism]:
        if asked.charges:
            return [
                ClaimedMechanism(
                    asked.task,
                    charge.mechanism,
                    True,
                    charge.rate,
                    charge.noise,
                    charge.steps,
                    charge.clip,
                    charge.delta,
                    claim_of((Spending(charge.rate, charge.noise, charge.steps),), charge.delta).epsilon,
                )
                for charge in asked.charges
            ]
        published = self._published(method, asked.task)
        assert published is not None
        spending, delta = published.spending, DELTA if self.config.top.privacy is None else self.config.top.privacy.delta
        return [
            ClaimedMechanism(
                asked.task,
                f"published: {published.source}",
                False,
                spending.rate,
                spending.noise,
                spending.steps,
                published.clip,
                delta,
                claim_of((spending,), delta).epsilon,
            )
        ]


def _longest(charges: Sequence[Charge]) -> Spending:
    charge = max(charges, key=lambda one: one.steps)
    return Spending(charge.rate, charge.noise, charge.steps)


def _unlimited(config: Config) -> Config:
    privacy = config.top.privacy
    return config if privacy is None or privacy.records is None else with_plan(config, privacy.records, limited=False)


def _arms(scores: Sequence[Scores], name: str, pair: Pair) -> Arms:
    values = np.array([one.get(name, np.nan) for one in scores], dtype=np.float64)
    return Arms(f"{pair.name} · {name}", values[0::2], values[1::2], pair.note)


def _depth(pilot: Arms, claim: Claim, level: float) -> float:
    cuts = choose(pilot, claim, level)
    (found,) = judge_again([(cuts, pilot)], claim, level)
    depth = float(ndtri(claim.least_misses(np.array([found.false_alarms]))[0]) - ndtri(found.misses))
    return depth if not np.isnan(depth) else -np.inf
