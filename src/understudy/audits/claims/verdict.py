"""From the results of two arms to a verdict: does this experiment contradict the claim?

A row has one number per repetition in two arms: data without a record, and the same with it. A cut turns a number
into a guess. Cuts are chosen on a pilot half and tried on the other half, once; there the shares of false alarms and
of misses are bounded from above (Clopper and Pearson), and the claim is refuted if the two bounds together still lie
below the claimed curve. Choosing where one tests would find something in every exact mechanism.

Each row has two cuts: the one that lies furthest below the curve in the pilot, and the one that would show the
largest ε. The level is shared evenly: over the rows, over a row's cuts, and over a cut's two bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, ndtri

from understudy.audits.claims.claim import Bounded, Numbers
from understudy.errors import UserError

CUTS = 2  # per row
MOST_THRESHOLDS = 2000  # tried on a pilot


@dataclass(frozen=True)
class Arms:
    """One statistic of one pair of neighbours, a number per repetition. NaN is a number that is above no threshold."""

    name: str
    without: Numbers  # (repetitions,)
    with_record: Numbers  # (repetitions,), not necessarily as many
    note: str = ""  # what a reader should know of this pair

    def __post_init__(self) -> None:
        if not np.size(self.without) or not np.size(self.with_record):
            raise UserError(f"{self.name}: an arm has no results; ask for at least one repetition.")


@dataclass(frozen=True)
class Cut:
    """Guesses "with the record" where a number is above the threshold; or, ``above`` being false, where it is not."""

    threshold: float
    above: bool


@dataclass(frozen=True)
class RowVerdict:
    """What one row showed on the test half. All bounds hold together, each cut's with its share of the level."""

    name: str
    refuted: bool
    false_alarms: float  # upper bounds, at the cut that lies further below the curve
    misses: float
    epsilon_lower: float  # by the better cut, at the claim's δ
    ceiling: float  # the largest ε that flawless guesses would have shown here
    within_reach: bool  # flawless guesses would have refuted the claim
    level: float  # this row's share
    cuts: tuple[Cut, ...]  # for a second pass with fresh noise
    note: str = ""


def judge(pilot: Sequence[Arms], test: Sequence[Arms], claim: Bounded, level: float = 0.01) -> list[RowVerdict]:
    """Each row's cuts chosen on the pilot half and tried on the other; the level shared over all rows."""
    if [arms.name for arms in pilot] != [arms.name for arms in test]:
        raise UserError("pilot: its rows must be those of the test half, in the same order; give both the same names.")
    rows = [(choose(some, claim, level / len(pilot), like=arms), arms) for some, arms in zip(pilot, test, strict=True)]
    return judge_again(rows, claim, level)


def judge_again(rows: Sequence[tuple[Sequence[Cut], Arms]], claim: Bounded, level: float = 0.01) -> list[RowVerdict]:
    """Cuts that are fixed already, tried on numbers that had no part in choosing them."""
    if not 0 < level < 1:
        raise UserError(f"level: {level:g} is not a share of false alarms; write a number between 0 and 1, like 0.01.")
    return [_verdict(arms, tuple(cuts), claim, level / len(rows)) for cuts, arms in rows]


def choose(pilot: Arms, claim: Bounded, level: float, like: Arms | None = None) -> tuple[Cut, Cut]:
    """The cuts that would show most at this row's level if the test half, of the size of ``like``, came out alike."""
    cuts = _candidates(pilot)
    rates = _rates(pilot, cuts)
    sizes = _sizes(like or pilot)
    bounds = upper_bound(rates * sizes, sizes, level / CUTS / 2)
    below_curve = _depth(bounds, claim)
    by_epsilon = epsilon_shown(bounds, claim.delta)
    return cuts[int(np.argmax(below_curve))], cuts[int(np.argmax(by_epsilon))]


def upper_bound(count: Numbers | float, runs: Numbers | float, level: float) -> Numbers:
    """Clopper and Pearson: a share so large that so few would come out with probability ``level`` at most."""
    count, runs = np.broadcast_arrays(np.asarray(count, float), np.asarray(runs, float))
    below = count < runs
    return np.where(below, betainccinv(count + 1, np.where(below, runs - count, 1.0), level), 1.0)


def epsilon_shown(bounds: Numbers, delta: float) -> Numbers:
    """The least ε, at this δ, that allows a test with such shares of false alarms and misses: (…, 2) → (…)."""
    alphas, betas = bounds[..., 0], bounds[..., 1]
    with np.errstate(divide="ignore"):
        ratios = np.maximum((1 - delta - betas) / alphas, (1 - delta - alphas) / betas)
        return np.log(np.maximum(ratios, 1.0))


def ceiling(runs: int, level: float, delta: float = 0.0) -> float:
    """The largest ε that a flawless attack with this many test runs per arm could show at one cut."""
    share = float(upper_bound(0, runs, level / 2))
    return float(epsilon_shown(np.array([share, share]), delta))


def _verdict(arms: Arms, cuts: tuple[Cut, ...], claim: Bounded, level: float) -> RowVerdict:
    sizes, share = _sizes(arms), level / len(cuts) / 2
    bounds = upper_bound(np.rint(_rates(arms, cuts) * sizes), sizes, share)
    flawless = upper_bound(0 * sizes, sizes, share)
    deepest = int(np.argmax(_depth(bounds, claim)))
    return RowVerdict(
        name=arms.name,
        refuted=bool(_contradicts(bounds, claim).any()),
        false_alarms=float(bounds[deepest, 0]),
        misses=float(bounds[deepest, 1]),
        epsilon_lower=float(epsilon_shown(bounds, claim.delta).max()),
        ceiling=float(epsilon_shown(flawless, claim.delta)),
        within_reach=bool(_contradicts(flawless, claim)),
        level=level,
        cuts=cuts,
        note=arms.note,
    )


def _contradicts(bounds: Numbers, claim: Bounded) -> NDArray[np.bool_]:
    return bounds[..., 1] < claim.least_misses(bounds[..., 0])


def _depth(bounds: Numbers, claim: Bounded) -> Numbers:
    """How far below the curve, on the scale of the normal quantile: a cut that always says the same lies nowhere."""
    depth = ndtri(claim.least_misses(bounds[:, 0])) - ndtri(bounds[:, 1])
    return np.where(np.isnan(depth), -np.inf, depth)


def _sizes(arms: Arms) -> Numbers:
    return np.array([np.size(arms.without), np.size(arms.with_record)], float)


def _rates(arms: Arms, cuts: Sequence[Cut]) -> Numbers:
    """Shares of false alarms and of misses: (cuts, 2)."""
    thresholds, above = np.array([cut.threshold for cut in cuts]), np.array([cut.above for cut in cuts])
    alarms = _share_above(arms.without, thresholds)
    hits = _share_above(arms.with_record, thresholds)
    return np.stack([np.where(above, alarms, 1 - alarms), np.where(above, 1 - hits, hits)], axis=1)


def _share_above(scores: Numbers, thresholds: Numbers) -> Numbers:
    numbers = np.sort(scores[~np.isnan(scores)])
    return (numbers.size - np.searchsorted(numbers, thresholds, side="right")) / scores.size


def _candidates(arms: Arms) -> list[Cut]:
    """Between neighbouring numbers of the pilot, and below all of them, where only −∞ and NaN lie."""
    both = np.concatenate([arms.without, arms.with_record])
    values = np.unique(both[~np.isnan(both)])
    lower, upper = values[:-1], values[1:]
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lower) & np.isfinite(upper), lower / 2 + upper / 2, lower)
    thresholds = np.concatenate([[-np.inf], middle])
    if thresholds.size > MOST_THRESHOLDS:
        thresholds = thresholds[np.linspace(0, thresholds.size - 1, MOST_THRESHOLDS).astype(int)]
    return [Cut(float(threshold), above) for threshold in thresholds for above in (True, False)]
