"""How much privacy several releases spend together: ε at a δ, from rates, noise and numbers of steps.

Only mathematics: nothing here knows about clients, budgets or files. Two accountants bound the same thing. ``rdp``
adds Rényi curves (`privacy.renyi`) and is what papers report; ``pld`` composes distributions of the privacy loss with
Google's dp-accounting, rounded up, and is tighter. Neighbours differ in one record, added or removed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args

import numpy as np

from understudy.errors import UserError
from understudy.privacy.loss import CELLS, FEW, composed_epsilon, out_of_range
from understudy.privacy.promise import Accountant
from understudy.privacy.renyi import ABOVE, BELOW, ORDERS, Orders, curve_of, least

GRAIN = 1e-4  # noise is a whole number of these
MOST_NOISE = 1e5  # tried in search of a promise

# What can be counted in bounded time and without leaving the range of doubles.
LEAST_RATE = 1e-12
NOISES = (1e-12, 1e12)
MOST_STEPS = 10**12
LEAST_DELTA = 1e-100


@dataclass(frozen=True)
class Spending:
    """Releases of the sampled Gaussian mechanism, all alike."""

    rate: float  # probability of a record in a release, by Poisson draws; 1: every record in every release
    noise: float  # σ, in units of the clip; 0: no protection
    steps: int

    def __post_init__(self) -> None:
        if not LEAST_RATE <= self.rate <= 1:
            raise UserError(
                f"rate: {shown(self.rate)} is not a sampling rate; write a number from {LEAST_RATE:g} up to 1."
            )
        if self.noise != 0 and not NOISES[0] <= self.noise <= NOISES[1]:
            raise UserError(
                f"noise: {shown(self.noise)} cannot be counted; write 0 for none, or a number from {NOISES[0]:g} "
                f"to {NOISES[1]:g}."
            )
        if not 0 <= self.steps <= MOST_STEPS:
            raise UserError(
                f"steps: {shown(self.steps)} is not a countable number of steps; write 0 up to {MOST_STEPS:g}."
            )


def shown(number: float) -> str:
    """For a sentence, however many digits it has."""
    try:
        return f"{number:g}"
    except OverflowError:
        return "a number of hundreds of digits"


@dataclass(frozen=True)
class Accounted:
    """ε, with everything needed to check it."""

    epsilon: float
    delta: float
    accountant: Accountant
    order: float | None  # the Rényi order that gives ε; None for pld
    note: str = ""  # what a reader should know about the bound

    def as_dict(self) -> dict[str, Any]:
        """For JSON; infinity, which it lacks, becomes None."""
        return {**asdict(self), "epsilon": self.epsilon if math.isfinite(self.epsilon) else None}


def accountant_named(word: str) -> Accountant:
    if word not in get_args(Accountant):
        raise UserError(f"accountant: {word!r} does not exist; write {' or '.join(get_args(Accountant))}.")
    return cast(Accountant, word)


def epsilon(spent: Sequence[Spending], delta: float, accountant: Accountant = "rdp") -> float:
    """ε of all the spendings composed; infinite if one has no noise."""
    return account(spent, delta, accountant).epsilon


def account(spent: Sequence[Spending], delta: float, accountant: Accountant = "rdp", cells: int = CELLS) -> Accounted:
    """The same, with the order and a note; ``cells`` is the resolution of pld's grid."""
    if not LEAST_DELTA <= delta < 1:
        raise UserError(
            f"delta: {shown(delta)} is not a failure probability; write at least {LEAST_DELTA:g}, and less than 1/n."
        )
    at_work = _alike_together(spent)
    if not at_work:
        return Accounted(0.0, delta, accountant, None)
    if any(some.noise == 0 for some in at_work):
        return Accounted(math.inf, delta, accountant, None, "a release without noise protects nobody")
    by_renyi = _by_renyi(at_work, delta)
    return by_renyi if accountant == "rdp" else _by_loss(at_work, delta, by_renyi, cells)


def noise_for(
    epsilon: float,
    delta: float,
    rate: float,
    steps: int,
    accountant: Accountant = "rdp",
    beside: Sequence[Spending] = (),
) -> float:
    """The least noise, rounded up to four decimal places, with which this many steps fit ε.

    What is ``beside`` must fit into the same ε.
    """
    if not 0 < epsilon < math.inf:
        raise UserError(f"epsilon: {epsilon:g} is not a budget; write a number above 0.")

    def fits(grains: int, how: Accountant = accountant, cells: int = CELLS) -> bool:
        return account([*beside, Spending(rate, grains * GRAIN, steps)], delta, how, cells).epsilon <= epsilon

    most = round(MOST_NOISE / GRAIN)
    if not fits(most):
        raise _out_of_reach(epsilon, delta, Spending(rate, MOST_NOISE, steps), accountant, beside)
    if not steps:
        return 0.0
    found = _least(lambda grains: fits(grains, "rdp"), most, near=round(1 / GRAIN))
    if accountant == "pld":
        found = _least(lambda grains: fits(grains, cells=FEW), most, near=found)
        found = _least(fits, most, near=found, stride=1)
    return round(found * GRAIN, 4)


def _least(holds: Callable[[int], bool], most: int, near: int, stride: int | None = None) -> int:
    """The least number from 1 up at which it holds; it holds for all above, and certainly at ``most``."""
    below, above = 0, most
    stride, guess = stride or max(1, near // 16), near
    while below < guess < above:  # growing strides, until the answer lies between two guesses
        if holds(guess):
            above, guess = guess, guess - stride
        else:
            below, guess = guess, guess + stride
        stride *= 2
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def _out_of_reach(
    epsilon: float, delta: float, most: Spending, accountant: Accountant, beside: Sequence[Spending]
) -> UserError:
    already = account(beside, delta, accountant).epsilon
    if already > epsilon:
        return UserError(f"epsilon: {epsilon:g} is already exceeded by the {already:.4g} spent; ask for more.")
    reachable = account([*beside, most], delta, accountant).epsilon
    return UserError(
        f"epsilon: {epsilon:g} at delta {delta:g} is out of reach even with noise of {most.noise:g} times the clip; "
        f"ask for at least {reachable * 1.01:.3g}, or take fewer steps, a smaller rate or a larger delta."
    )


def _alike_together(spent: Sequence[Spending]) -> list[Spending]:
    steps: dict[tuple[float, float], int] = {}
    for some in spent:
        steps[some.rate, some.noise] = steps.get((some.rate, some.noise), 0) + some.steps
    return [Spending(rate, noise, count) for (rate, noise), count in sorted(steps.items()) if count]


def _by_renyi(spent: Sequence[Spending], delta: float) -> Accounted:
    found, order = least(_curve(spent, ORDERS), ORDERS, delta)
    if ORDERS[0] < order < ORDERS[-1]:
        return Accounted(found, delta, "rdp", order)
    beyond, which = (BELOW, "below") if order == ORDERS[0] else (ABOVE, "above")
    tighter, further = least(_curve(spent, beyond), beyond, delta)
    if tighter < found:
        return Accounted(
            tighter, delta, "rdp", further, f"orders {which} the usual grid were used, {further:g} the best"
        )
    return Accounted(found, delta, "rdp", order, f"the best order, {order:g}, is an end of the grid")


def _curve(spent: Sequence[Spending], orders: tuple[float, ...]) -> Orders:
    total = np.zeros(len(orders))
    for some in spent:
        total = total + some.steps * curve_of(some.rate, some.noise, orders)
    return total


def _by_loss(spent: Sequence[Spending], delta: float, by_renyi: Accounted, cells: int) -> Accounted:
    releases = [(some.rate, some.noise, some.steps) for some in spent]
    if why := out_of_range(releases, by_renyi.epsilon):
        return Accounted(by_renyi.epsilon, delta, "pld", by_renyi.order, f"the Rényi bound, since {why}")
    found = composed_epsilon(releases, delta, by_renyi.epsilon, cells)
    if found <= by_renyi.epsilon:
        return Accounted(found, delta, "pld", None)
    return Accounted(
        by_renyi.epsilon, delta, "pld", by_renyi.order, "the Rényi bound, here tighter than the rounded loss"
    )
