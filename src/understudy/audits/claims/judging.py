"""From the scores of two halves to a verdict on one row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from understudy.audits.claims.claim import Claim
from understudy.audits.claims.findings import JudgedRow
from understudy.audits.claims.pairs import Neighbours
from understudy.audits.claims.preparing import Scored
from understudy.audits.claims.repetitions import PILOT, TEST
from understudy.audits.claims.spread import Statistics
from understudy.audits.claims.verdict import Arms, choose, judge_again


@dataclass(frozen=True)
class UnjudgedRow:
    """One pair at one level, with the statistic that lies furthest below the claimed curve on the pilot half."""

    scored: Scored
    pair: Neighbours
    statistic: str
    pilot: Arms
    test: Arms
    again: Callable[[], Arms]  # a second pass

    def tested(self, level: float) -> JudgedRow:
        """``level``: this row's share."""
        claim = self.scored.claim
        cuts = choose(self.pilot, claim, level, like=self.test)
        (verdict,) = judge_again([(cuts, self.test)], claim, level)
        confirmed = judge_again([(cuts, self.again())], claim, level)[0] if verdict.refuted else None
        return JudgedRow(
            pair=self.pair.name,
            what=self.scored.what,
            statistic=self.statistic,
            rate=max(some.rate for some in claim.spendings),
            steps=sum(some.steps for some in claim.spendings),
            epsilon=claim.epsilon,
            runs=len(self.test.without),
            verdict=verdict,
            confirmed=confirmed,
        )


def row_of(
    at: int,
    scored: Scored,
    pair: Neighbours,
    halves: Mapping[str, Sequence[Statistics]],
    again: Callable[[], Sequence[Statistics]],
    level: float,
) -> UnjudgedRow | None:
    """The row number ``at`` of an experiment; None: nothing was scored."""
    names = [key for key in halves[PILOT][0] if key.startswith(f"{at}|")]
    pilots = {name: _arms(halves[PILOT], name, pair) for name in names}
    if not pilots:
        return None
    best = max(pilots, key=lambda name: _depth(pilots[name], scored.claim, level))
    test = _arms(halves[TEST], best, pair)
    return UnjudgedRow(scored, pair, best.partition("|")[2], pilots[best], test, lambda: _arms(again(), best, pair))


def _arms(scores: Sequence[Statistics], name: str, pair: Neighbours) -> Arms:
    values = np.array([one.get(name, np.nan) for one in scores], dtype=np.float64)
    return Arms(f"{pair.name} · {name}", values[0::2], values[1::2], pair.note)


def _depth(pilot: Arms, claim: Claim, level: float) -> float:
    """How far below the curve the pilot itself lies, on the scale of the normal quantile."""
    (found,) = judge_again([(choose(pilot, claim, level), pilot)], claim, level)
    least = claim.least_misses(np.array([found.false_alarms]))[0]
    depth = float(ndtri(least) - ndtri(found.misses))
    return depth if not np.isnan(depth) else -np.inf
