"""One run of a task with many canaries in it, and what an attacker makes of its releases."""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.audits.claims.canary_scores import CanaryLook, Filtered, Sketch, decorrelated
from understudy.audits.claims.claim import Numbers
from understudy.audits.claims.experiment import Repetition, Trial
from understudy.audits.claims.preparing import RoundClaim, charge_of, claim_of
from understudy.audits.claims.spread import Statistics, spread
from understudy.audits.claims.statistics import ReleaseKind, ReleaseScores, Slot
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.privacy.mechanism import NoisySum

SKETCHED = 60_000_000  # numbers in all sketches together
KEPT_NUMBERS = 20_000_000  # of the run's releases
DRAWN = 4  # copies of the canary in a release, on average: sampling must not miss it
MOST_COPIES = 400
FIRST, LAST = 2, 10  # releases of the two runs by which time is taken
KEY = "canary"  # of the noise of all replays, so that it drops out of their differences


def fair_coins(number: int) -> NDArray[np.bool_]:
    """From the operating system: no seed of a run, and nobody who knows it, tells anything about them."""
    return (np.frombuffer(os.urandom(number), dtype=np.uint8) & 1).astype(bool)


@dataclass(frozen=True)
class CanaryPlan:
    """What is fixed before the coins are thrown."""

    trial: Trial
    always: Examples  # records that are in anyway
    canaries: Examples
    spent: Callable[[Examples], RoundClaim]
    replayed: int  # releases that are looked at, the first ones
    planned: int  # releases that the claim is about
    whole: bool  # the run goes on to its end

    def alone(self, number: int, copies: int) -> Examples:
        return self.always.and_also(self.canaries.take([number] * copies))


@dataclass(frozen=True)
class ScoredLook:
    look: CanaryLook
    scores: Numbers
    coins: NDArray[np.bool_]


def copies_for(rate: float) -> int:
    """So many that sampling hardly misses all of them."""
    return 1 if rate == 1 else min(MOST_COPIES, math.ceil(DRAWN / rate))


def planned(
    trial: Trial,
    always: Examples,
    canaries: Examples,
    spent: Callable[[Examples], RoundClaim],
    seconds: float,
    workers: int,
) -> CanaryPlan:
    """``seconds``: for the replays of all canaries."""
    claimed = spent(always.and_also(canaries))
    releases = sum(some.steps for some in claimed.spendings)
    plan = CanaryPlan(trial, always, canaries, spent, releases, releases, True)
    one = plan.alone(0, copies_for(min(some.rate for some in claimed.spendings)))
    first, last = (_timed(replace(trial, most=most), one) for most in (FIRST, LAST))
    if not last[1]:
        raise UserError(f"{trial.task} released nothing.")
    # Two short runs differ by chance as well: a release takes at least a quarter of its share of the longer one.
    each = max((last[0] - first[0]) / max(1, last[1] - first[1]), last[0] / last[1] / 4)
    begins = max(0.0, last[0] - last[1] * each)
    given = seconds * workers / len(canaries)
    replayed = max(1, min(releases, int((given - begins) / each), KEPT_NUMBERS // last[2]))
    took = _timed(replace(trial, most=replayed), one)[0]
    if took > 2 * given:
        replayed = max(1, int(replayed * given / took))
    return replace(plan, replayed=replayed, whole=releases * each <= seconds)


def _timed(trial: Trial, own: Examples) -> tuple[float, int, int]:
    """Seconds of processor, releases seen, numbers of the largest."""
    trial.run(own, "warming up")
    begun = time.process_time()
    outcome = trial.run(own, "timed")
    took, seen = time.process_time() - begun, [release for some in outcome.releases for release in some]
    return took, len(seen), max((release.noised.numel() for release in seen), default=1)


def run_once(plan: CanaryPlan, workers: int, count: Callable[[], None]) -> tuple[list[ScoredLook], dict[str, str]]:
    """Coins, then the run, then what each canary did to it. Also which releases cannot tell canaries apart, and why."""
    coins = fair_coins(len(plan.canaries))
    own = plan.always.and_also(plan.canaries.take(np.flatnonzero(coins).tolist()))
    trial = replace(plan.trial, kept=plan.replayed, most=None if plan.whole else plan.replayed)
    outcome = trial.run(own)
    if not any(outcome.releases):
        raise UserError(outcome.refusal or f"{trial.task} released nothing.")
    outcome = replace(outcome, releases=tuple(some[: plan.replayed] for some in outcome.releases))
    looks, left_out = _looks(plan, outcome, plan.spent(own))
    filtered = _replayed(plan, outcome, looks, workers, count)
    scored = [
        ScoredLook(look, decorrelated(filtered[look.kind][: look.releases], look.scores.rate, look.length), coins)
        for look in looks
    ]
    return scored, left_out


def _looks(plan: CanaryPlan, outcome: Repetition, spent: RoundClaim) -> tuple[list[CanaryLook], dict[str, str]]:
    """All releases of each kind, and the first alone, which claims more."""
    first: dict[ReleaseKind, NoisySum] = {}
    for release in outcome.releases[0]:
        first.setdefault(ReleaseKind.of(release), release)
    found: list[CanaryLook] = []
    for at, (kind, example) in enumerate(first.items()):
        mine = charge_of(example, list(first.values()), spent.charges) if spent.charges else 0
        mixed = spent.spendings if mine < 0 else (spent.spendings[mine],)
        scores = ReleaseScores.blank(kind, max(some.rate for some in mixed), outcome)
        releases = len(scores.scales)
        counted = mixed if mine < 0 else (replace(mixed[0], steps=releases),)
        found.append(CanaryLook(mine, "releases", at, scores, claim_of(counted, spent.delta)))
        if releases > 1 and mine >= 0:
            once = claim_of((replace(mixed[0], steps=1),), spent.delta)
            found.append(CanaryLook(mine, "first release", at, scores.first, once))
    enough = [look for look in found if look.numbers >= len(plan.canaries)]
    left_out = {
        f"{look.what} of {math.prod(look.scores.kind.shape):,} numbers": (
            f"{look.numbers:,} numbers cannot tell {len(plan.canaries):,} canaries apart."
        )
        for look in found
        if look not in enough
    }
    return enough, left_out


def _replayed(
    plan: CanaryPlan, outcome: Repetition, looks: Sequence[CanaryLook], workers: int, count: Callable[[], None]
) -> dict[int, list[Filtered]]:
    """By kind, release by release. Processes write into memory that they share."""
    longest: dict[int, ReleaseScores] = {}
    for look in looks:
        longest.setdefault(look.kind, look.scores)
    canaries, releases = len(plan.canaries), sum(len(scores.scales) for scores in longest.values())
    size = max(1, SKETCHED // max(1, canaries * releases))
    seen = {kind: scores.units(outcome) for kind, scores in longest.items()}
    sketch = {kind: [Sketch.of(x.numel(), size, at) for at, x in enumerate(seen[kind].values())] for kind in longest}
    found = {
        kind: [Filtered(_shared(canaries, dtype=torch.float64), _shared(canaries, one.size)) for one in sketch[kind]]
        for kind in longest
    }
    trial = replace(plan.trial, most=plan.replayed)
    copies = copies_for(min((scores.rate for scores in longest.values()), default=1.0))

    def units(own: Examples) -> dict[int, dict[Slot, Tensor]]:
        alone = trial.run(own, KEY, along=outcome)
        return {kind: scores.units(alone) for kind, scores in longest.items()}

    without = units(plan.always)

    def once(number: int) -> Statistics:
        for kind, with_canary in units(plan.alone(number, copies)).items():
            for at, (slot, x) in enumerate(seen[kind].items()):
                did = (with_canary[slot] - without[kind][slot]) / max(1.0, copies * longest[kind].rate)
                found[kind][at].products[number] = x @ did
                found[kind][at].sketches[number] = sketch[kind][at](did)
        return {}

    if looks:
        spread(once, canaries, workers, count)
    return found


def _shared(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Zeros in memory that forked processes write into."""
    return torch.zeros(shape, dtype=dtype).share_memory_()  # type: ignore[no-untyped-call,no-any-return]
