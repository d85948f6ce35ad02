"""What an attack reached: how often members score higher, and how many are caught where few others are accused.

True positives at 1 % false ones are the headline: an attack that is certain about a few records and guesses about the
rest has an AUC near one half, and those few are exposed all the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv
from torch import Tensor

from understudy.errors import UserError

ScoreArray = npt.NDArray[np.float64]

RESAMPLES = 1000
TABLE = 2_000_000  # counts in memory at a time
LEVEL = 0.95
FEW_FALSE_ONES = 10  # non-members above the threshold, for it to be more than a few chance records


@dataclass(frozen=True)
class Interval:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Reached:
    """What one attack reached on some candidates."""

    members: int
    non_members: int
    auc: Interval
    caught: Interval  # true positives at 1 % false ones, as a share


def reached(members: Tensor, non_members: Tensor, rng: np.random.Generator, at: float = 0.01) -> Reached:
    """From scores, higher for likelier members; NaN (no opinion) ranks lowest. Ties count half in the AUC, and a tie at
    the threshold is not let through, so false positives are at most ``at``."""
    if not len(members) or not len(non_members):
        raise UserError(
            f"There are {len(members)} members and {len(non_members)} non-members to judge; an attack needs both."
        )
    inside, outside = _by_score(members, non_members)
    whole = _rates(inside[None], outside[None], at)
    again = [_rates(m, o, at) for m, o in zip(_resampled(inside, rng), _resampled(outside, rng), strict=True)]
    auc, caught = (np.concatenate(column) for column in zip(*again, strict=True))
    return Reached(
        len(members),
        len(non_members),
        _interval(float(whole[0][0]), auc),
        _with_few_hits(_interval(float(whole[1][0]), caught), len(members)),
    )


def resolves(non_members: int, members: int, at: float = 0.01) -> str | None:
    """One sentence on what so few records cannot show; None: enough to resolve ``at`` false positives."""
    if not non_members or not members:
        return f"{members} members and {non_members} non-members show nothing: an attack is judged on some of both."
    if non_members * at < 1:
        return (
            f"{non_members} non-members cannot resolve {at:.0%} false positives: the threshold lies above all of them, "
            f"which stands for {1 / non_members:.1%} at best; {round(FEW_FALSE_ONES / at)} would be enough."
        )
    if non_members * at < FEW_FALSE_ONES:
        return (
            f"With {non_members} non-members, {at:.0%} false positives are {int(non_members * at)} of them, so the "
            f"threshold hangs on a few records; {round(FEW_FALSE_ONES / at)} would be enough."
        )
    if members * at < 1:
        return f"With {members} members, each is {1 / members:.1%} of the true positives: less is not resolved."
    return None


def _by_score(members: Tensor, non_members: Tensor) -> tuple[ScoreArray, ScoreArray]:
    """(distinct scores,) counts of members and of non-members, from the highest score down."""
    scores = [np.asarray(some.detach().cpu().numpy(), dtype=np.float64) for some in (members, non_members)]
    joined = np.concatenate([np.where(np.isnan(some), -np.inf, some) for some in scores])
    distinct, place = np.unique(joined, return_inverse=True)
    counts = [
        np.bincount(places, minlength=len(distinct))[::-1].astype(np.float64)
        for places in np.split(place.reshape(-1), [len(members)])
    ]
    return counts[0], counts[1]


def _rates(members: ScoreArray, others: ScoreArray, at: float) -> tuple[ScoreArray, ScoreArray]:
    """AUC and share of members caught, for each row of counts by score."""
    caught, accused = members.cumsum(1), others.cumsum(1)
    all_members, all_others = caught[:, -1], accused[:, -1]
    below = all_others[:, None] - accused
    auc = (members * (below + others / 2)).sum(1) / (all_members * all_others)
    let_through = (accused <= at * all_others[:, None]).sum(1)
    before = np.concatenate([np.zeros((len(caught), 1)), caught], 1)
    return auc, before[np.arange(len(caught)), let_through] / all_members


def _resampled(counts: ScoreArray, rng: np.random.Generator) -> Iterator[ScoreArray]:
    """Bootstrap samples, as counts by score, some at a time."""
    scores, rows = np.repeat(np.arange(len(counts)), counts.astype(np.int64)), max(1, TABLE // len(counts))
    for start in range(0, RESAMPLES, rows):
        some = min(rows, RESAMPLES - start)
        drawn = scores[rng.integers(0, len(scores), (some, len(scores)), dtype=np.int32)]
        drawn += np.arange(some)[:, None] * len(counts)
        yield np.bincount(drawn.reshape(-1), minlength=some * len(counts)).reshape(some, -1).astype(np.float64)


def _interval(value: float, resampled: ScoreArray) -> Interval:
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, min(value, float(low)), max(value, float(high)))


def _with_few_hits(caught: Interval, members: int) -> Interval:
    """At least as wide as the exact binomial interval: none caught of ten resamples to none, always."""
    hits, tail = round(caught.value * members), (1 - LEVEL) / 2
    low = float(betaincinv(hits, members - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, members - hits, 1 - tail)) if hits < members else 1.0
    return Interval(caught.value, min(caught.low, low), max(caught.high, high))
