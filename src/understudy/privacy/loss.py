"""ε by composing distributions of the privacy loss, with Google's dp-accounting.

The loss is kept on a grid, and its mass is moved there so that the result is never too small. The grid's resolution
follows the size of the losses: thousands of steps take about a second. What would take minutes, or exceed the range
of doubles, is not composed at all (`out_of_range`).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

SampledSteps = tuple[float, float, int]  # rate, noise, steps

CELLS = 100_000  # of the grid, about this many up to the largest loss that matters
FEW = 10_000  # for a search: ten times as fast, and still never too small

NOISES = (0.05, 1e5)  # below, a release reveals nearly everything; above, losses drown in rounding error
MOST_STEPS = 200_000  # of one kind of release
MOST_KINDS = 16  # of releases: each takes up to a second
MOST_EPSILON = 10_000.0


def out_of_range(releases: Sequence[SampledSteps], roughly: float) -> str:
    """Why these cannot be composed within seconds; empty: they can."""
    if len(releases) > MOST_KINDS:
        return f"more than {MOST_KINDS} kinds of releases take too long to compose"
    if not all(NOISES[0] <= noise <= NOISES[1] for _, noise, _ in releases):
        return f"noise below {NOISES[0]:g} or above {NOISES[1]:g} is not worth composing"
    if any(steps > MOST_STEPS for _, _, steps in releases):
        return f"more than {MOST_STEPS} steps take too long to compose"
    return "" if roughly <= MOST_EPSILON else f"ε above {MOST_EPSILON:g} is not worth composing"


def composed_epsilon(releases: Sequence[SampledSteps], delta: float, roughly: float, cells: int = CELLS) -> float:
    """``roughly`` is a bound from elsewhere, which sets how far the grid must reach."""
    if not math.isfinite(roughly):
        return math.inf
    return float(_composed(releases, roughly, cells).get_epsilon_for_delta(delta))


def composed_deltas(
    releases: Sequence[SampledSteps], epsilons: Sequence[float], roughly: float, cells: int = CELLS
) -> list[float]:
    """δ at each of these ε, which ascend; for a record added or removed, whichever is worse, and never too small."""
    found = _composed(releases, roughly, cells).get_delta_for_epsilon(epsilons)
    return [min(1.0, max(0.0, float(delta))) for delta in found]


def _composed(releases: Sequence[SampledSteps], roughly: float, cells: int) -> Any:
    furthest = max(roughly, _spread(releases), *(_reach(noise) for _, noise, _ in releases))
    grid = 2.0 ** math.ceil(math.log2(furthest / cells))  # a power of two: the cache is hit more often
    together = _distribution(*releases[0], grid)
    for release in releases[1:]:
        together = together.compose(_distribution(*release, grid))
    return together


def _reach(noise: float) -> float:
    """Beyond this, the loss of one release has negligible weight."""
    return 1 / (2 * noise**2) + 8 / noise


def _spread(releases: Sequence[SampledSteps]) -> float:
    """About twice the standard deviation of all losses together: at a large δ they reach further than ε."""
    return 2 * math.sqrt(sum(steps * (rate / noise) ** 2 for rate, noise, steps in releases))


@lru_cache(maxsize=2 * MOST_KINDS)
def _distribution(rate: float, noise: float, steps: int, grid: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    if rate == 1:  # releases over all records compose to one with less noise
        return pld.from_gaussian_mechanism(noise / math.sqrt(steps), value_discretization_interval=grid)
    once = pld.from_gaussian_mechanism(noise, value_discretization_interval=grid, sampling_prob=rate)
    return once.self_compose(steps)
