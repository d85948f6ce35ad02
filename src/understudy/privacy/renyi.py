"""The Rényi curve of the sampled Gaussian mechanism, and its conversion to (ε, δ).

Mironov, Talwar and Zhang, Rényi Differential Privacy of the Sampled Gaussian Mechanism. With Poisson rate q and noise
σ times the clip, one release costs ρ(α) = ln A(α) / (α−1), where A(α) is the mean over z ~ N(0, σ²) of
((1−q) + q·exp((2z−1)/2σ²))^α. For whole α that is a sum of α+1 terms; for others the mean is taken by the trapezoidal
rule, which for such a smooth curve is accurate to the last digits. The same A bounds adding and removing a record.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Orders = npt.NDArray[np.float64]

ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(12, 64))
BELOW = tuple(1 + hundredth / 100 for hundredth in range(1, 10))  # used if the best order is the lowest
ABOVE = tuple(dict.fromkeys(math.ceil(64 * 2 ** (step / 6)) for step in range(49)))  # up to 16384
LITTLE = 0.05  # noise below which no ε is worth a precise computation; a simple bound is enough


def least(curve: Orders, orders: Sequence[float], delta: float) -> tuple[float, float]:
    """ε and the order that gives it: ρ + ln((α−1)/α) − (ln δ + ln α)/(α−1), the least over α."""
    alpha = np.asarray(orders, dtype=np.float64)
    found = curve + np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1)
    best = int(np.argmin(found))
    return max(0.0, float(found[best])), float(alpha[best])


@lru_cache(maxsize=4096)
def _of_one_release(rate: float, noise: float, orders: tuple[float, ...]) -> Orders:
    curve = np.array([_cost(rate, noise, alpha) for alpha in orders])
    curve.setflags(write=False)
    return curve


def curve_of(rate: float, noise: float, orders: tuple[float, ...]) -> Orders:
    """ρ of one release at every order."""
    if noise == 0:
        return np.full(len(orders), math.inf)
    if rate == 1:
        return np.asarray(orders) / (2 * noise**2)
    return _of_one_release(rate, noise, orders)


def _cost(rate: float, noise: float, alpha: float) -> float:
    if noise < LITTLE:  # ((1−q) + q·r)^α is at most (1−q) + q·r^α
        bound = np.logaddexp(math.log1p(-rate), math.log(rate) + alpha * (alpha - 1) / (2 * noise**2))
        return float(bound) / (alpha - 1)
    terms = _binomial_terms if float(alpha).is_integer() else _quadrature_terms
    return max(0.0, _log_of_sum(terms(rate, noise, alpha)) / (alpha - 1))


def _binomial_terms(rate: float, noise: float, alpha: float) -> Orders:
    from scipy.special import gammaln

    i = np.arange(int(alpha) + 1, dtype=np.float64)
    ways = gammaln(alpha + 1) - gammaln(i + 1) - gammaln(alpha - i + 1)
    terms: Orders = ways + (alpha - i) * math.log1p(-rate) + i * math.log(rate) + i * (i - 1) / (2 * noise**2)
    return terms


def _quadrature_terms(rate: float, noise: float, alpha: float) -> Orders:
    # The integrand has a hump at 0 and one at α, each as wide as the noise, and its nearest singular points lie
    # πσ² off the real line: steps of σ/8 and of σ²/4 leave an error far below rounding.
    step = min(noise / 8, noise**2 / 4)
    z = np.arange(-12 * noise, alpha + 12 * noise, step)
    ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * z - 1) / (2 * noise**2))
    terms: Orders = alpha * ratio - z**2 / (2 * noise**2) + math.log(step / (noise * math.sqrt(2 * math.pi)))
    return terms


def _log_of_sum(terms: Orders) -> float:
    largest = float(terms.max())
    return largest + math.log(float(np.exp(terms - largest).sum()))
