"""Many canaries in one run: a smoke alarm, much cheaper than two arms and much blunter.

Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run. Before the run, a fair coin per canary decides
whether it is put in. Afterwards every canary gets a score; those with the highest are guessed in, those with the
lowest out, the rest is left open. If the run is (ε, 0)-private, the number of right guesses is at most that of as many
coins that fall right with probability e^ε/(1 + e^ε); δ adds a little to it. Mahloujifar, Melis and Chaudhuri, Auditing
f-Differential Privacy in One Run, bound the same number by the whole claimed curve.

Both need coins that nothing but the run has seen, and a number of guesses that was fixed beforehand: several numbers
may be tried, and share the level. Correlated scores cost power, not validity.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from understudy.audits.claims.claim import Bounded, Numbers
from understudy.errors import UserError

MOST_EPSILON = 100.0  # no number of canaries shows more
HALVINGS = 50


@dataclass(frozen=True)
class Guesses:
    """How an attacker did who guessed for some of the canaries."""

    canaries: int
    made: int
    right: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.canaries:
            raise UserError(f"guesses: {self.made} of {self.canaries} canaries, {self.right} right, is impossible.")

    @property
    def flawless(self) -> "Guesses":
        return Guesses(self.canaries, self.made, self.made)


@dataclass(frozen=True)
class OneRun:
    """What one run showed, by the number of guesses that showed most; two statements, each at the level."""

    guesses: Guesses
    epsilon_lower: float
    cap: float  # what flawless guesses would have shown
    refuted: bool  # by the whole curve of the claim
    within_reach: bool  # flawless guesses would have refuted it
    level: float  # the share of each number of guesses that was tried
    delta: float


def audit_one_run(
    scores: Numbers,
    coins: NDArray[np.bool_],
    claim: Bounded,
    numbers: Sequence[int],
    rng: np.random.Generator,
    level: float = 0.01,
    ins: float = 0.5,
) -> OneRun:
    """``coins``: which canaries were put in; higher scores: rather in. Fixed beforehand: ``numbers`` of guesses, and
    ``ins``, the share of them that say in."""
    if not numbers or not 0 < level < 1:
        raise UserError("one run: give at least one number of guesses, and a level between 0 and 1, like 0.01.")
    share = level / len(numbers)
    tried = [guess(scores, coins, number, rng, ins) for number in numbers]
    shown = [epsilon_lower(guesses, share, claim.delta) for guesses in tried]
    best = int(np.argmax(shown))
    return OneRun(
        guesses=tried[best],
        epsilon_lower=shown[best],
        cap=max(epsilon_lower(guesses.flawless, share, claim.delta) for guesses in tried),
        refuted=any(contradicts(guesses, claim, share) for guesses in tried),
        within_reach=any(contradicts(guesses.flawless, claim, share) for guesses in tried),
        level=share,
        delta=claim.delta,
    )


def guess(
    scores: Numbers, coins: NDArray[np.bool_], number: int, rng: np.random.Generator, ins: float = 0.5
) -> Guesses:
    """The highest scores are guessed in, the lowest out: half of the guesses each, or ``ins``. NaN counts as lowest.

    Equal scores are ranked by chance: their order in the list may follow the coins.
    """
    scores, coins = np.asarray(scores, float), np.asarray(coins, bool)
    if scores.shape != coins.shape or not 0 < number <= scores.size:
        raise UserError(
            f"guesses: {number} cannot be made from {scores.size} scores and {coins.size} coins; "
            "give one coin per score, and at most as many guesses."
        )
    ranks = np.lexsort((rng.random(scores.size), np.where(np.isnan(scores), -np.inf, scores)))
    in_order = coins[ranks]
    outs = int(number * (1 - ins))
    right = int((~in_order[:outs]).sum() + in_order[scores.size - (number - outs) :].sum())
    return Guesses(scores.size, number, right)


def chance(guesses: Guesses, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are, at most, if the run is (ε, δ)-private: the paper's Theorem 5.2."""
    right, made, share = guesses.right, guesses.made, float(expit(epsilon))
    at_least = float(binom.sf(right - 1, made, share))
    if delta == 0 or right == 0:
        return at_least
    just_below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), made, share))  # 1, 2, … fewer
    gained = float((just_below / np.arange(1, right + 1)).max())
    return min(1.0, at_least + 2 * guesses.canaries * delta * gained)


def epsilon_lower(guesses: Guesses, level: float, delta: float) -> float:
    """The ε below which, at this δ, so many right guesses are too unlikely; 0 if none is."""
    low, high = 0.0, MOST_EPSILON
    if chance(guesses, low, delta) > level:
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(guesses, middle, delta) > level else (middle, high)
    return low


def cap(canaries: int, level: float, delta: float, made: int | None = None) -> float:
    """The largest ε that this many canaries could show: every guess right; ``made``: how many, if not all."""
    made = canaries if made is None else made
    return epsilon_lower(Guesses(canaries, made, made), level, delta)


def contradicts(guesses: Guesses, claim: Bounded, level: float) -> bool:
    """So many right guesses are less likely than ``level`` under the claimed curve.

    Suppose they were as likely as that. Then h and r, the weights of wrong and right guesses among outcomes with more
    than i right ones, must grow from i to i − 1 at least as the curve says, and end above all the weight that there is.
    """
    right = level * guesses.right / guesses.canaries
    wrong = level * (guesses.made - guesses.right) / guesses.canaries
    for i in range(guesses.right - 1, -1, -1):
        more = max(wrong, float(claim.least_misses(np.array([max(0.0, 1 - right)]))[0]))
        if more == wrong:
            break  # nothing changes from here on
        right, wrong = min(1.0, right + i / (guesses.made - i) * (more - wrong)), more
    return right + wrong > guesses.made / guesses.canaries
