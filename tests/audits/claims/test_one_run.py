"""One run with many canaries: numbers by hand, another library's, and simulations of mechanisms that are known."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from understudy.audits.claims.claim import Claim, Numbers, PlainClaim
from understudy.audits.claims.one_run import (
    Guesses,
    audit_one_run,
    cap,
    chance,
    contradicts,
    epsilon_lower,
    guess,
)
from understudy.audits.claims.verdict import epsilon_shown, upper_bound
from understudy.errors import UserError
from understudy.privacy.accounting import Spending


@dataclass(frozen=True)
class ExactGaussian:
    mu: float
    delta: float = 1e-5

    def least_misses(self, false_alarms: Numbers) -> Numbers:
        return np.asarray(norm.cdf(norm.isf(false_alarms) - self.mu))

    @property
    def epsilon(self) -> float:
        def excess(e: float) -> float:
            mu = self.mu
            return float(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)) - self.delta

        return float(brentq(excess, 0, 100, xtol=1e-9))


@pytest.mark.parametrize(("canaries", "printed"), [(100, "3.5"), (1000, "5.8"), (10_000, "8.1")])
def test_the_cap_at_95_percent(canaries: int, printed: str) -> None:
    assert f"{cap(canaries, 0.05, 0.0):.1f}" == printed
    assert cap(canaries, 0.05, 1e-5) < cap(canaries, 0.05, 0.0)
    assert cap(canaries, 0.05, 0.0, made=canaries // 5) < cap(canaries, 0.05, 0.0)


def test_a_chance_by_hand() -> None:
    # Both of two guesses right at ε = 0: 1/4. One fewer has 1/2, up to two fewer 3/4: the larger of 1/2 and 3/8 counts.
    assert chance(Guesses(2, 2, 2), 0.0, 0.0) == pytest.approx(0.25)
    assert chance(Guesses(2, 2, 2), 0.0, 0.01) == pytest.approx(0.25 + 2 * 2 * 0.01 * 0.5)
    assert chance(Guesses(50, 2, 2), 0.0, 0.01) == pytest.approx(0.25 + 2 * 50 * 0.01 * 0.5)
    assert chance(Guesses(2, 2, 2), math.log(3), 0.0) == pytest.approx(9 / 16)
    assert chance(Guesses(9, 4, 0), 1.0, 0.1) == 1


@pytest.mark.parametrize(("odds", "likely"), [(1, 1 / 2), (3, 3 / 4)])
def test_one_guess_against_a_curve_is_as_likely_as_it_is(odds: float, likely: float) -> None:
    claim = PlainClaim(math.log(odds), 0.0)
    assert contradicts(Guesses(1, 1, 1), claim, likely + 0.01)
    assert not contradicts(Guesses(1, 1, 1), claim, likely - 0.01)


@pytest.mark.parametrize(
    ("canaries", "made", "right", "level", "delta", "plain", "gaussian"),
    [
        (1000, 200, 180, 0.05, 1e-5, 1.796285070718516, 2.9012429233094306),
        (1000, 500, 350, 0.05, 1e-5, 0.6827257501590491, 1.1937441434159344),
        (500, 100, 98, 0.01, 1e-4, 2.199520810709001, 3.230441360781863),
        (2000, 400, 400, 0.01, 1e-5, 4.324048572554059, 6.87907780024735),
        (2000, 65, 60, 0.01, 1e-6, 1.4496550870935314, 2.0399620954123554),
    ],
)
def test_jax_privacy_shows_the_same(
    canaries: int, made: int, right: int, level: float, delta: float, plain: float, gaussian: float
) -> None:
    # jax-privacy 2.0.0: CanaryScoreAuditor(held_in, held_out) with half of the canaries each, 1 for those guessed in,
    # 0 for the others; .epsilon_one_run and .epsilon_one_run_fdp(level, delta, threshold_strategy=Explicit(0.5)).
    guesses = Guesses(canaries, made, right)
    assert epsilon_lower(guesses, level, delta) == pytest.approx(plain, abs=1e-5)
    refuted, held = ExactGaussian(0.01, delta), ExactGaussian(5.0, delta)
    for _ in range(25):
        middle = ExactGaussian((refuted.mu + held.mu) / 2, delta)
        refuted, held = (middle, held) if contradicts(guesses, middle, level) else (refuted, middle)
    assert refuted.epsilon == pytest.approx(gaussian, abs=1e-4)


@pytest.mark.parametrize(
    ("alarms", "misses", "level", "delta", "shown"),
    [
        ((0, 500), (0, 500), 0.05, 0.0, 4.905594210033932),
        ((3, 100), (50, 200), 0.01, 1e-5, 1.838507377223291),
        ((120, 300), (1, 100), 0.05, 1e-2, 2.279439309591817),
    ],
)
def test_jax_privacy_shows_the_same_for_two_arms(
    alarms: tuple[int, int], misses: tuple[int, int], level: float, delta: float, shown: float
) -> None:
    # jax-privacy 2.0.0: .epsilon_clopper_pearson(level, delta, one_sided=False, threshold_strategy=Explicit(0.5))
    bounds = np.array([float(upper_bound(*alarms, level / 2)), float(upper_bound(*misses, level / 2))])
    assert float(epsilon_shown(bounds, delta)) == pytest.approx(shown, abs=1e-9)


def randomised_response(rng: np.random.Generator, canaries: int, epsilon: float) -> tuple[Numbers, np.ndarray]:
    """ε-private by itself for every canary: the coin, told truly with probability e^ε/(1 + e^ε)."""
    coins = rng.random(canaries) < 0.5
    truly = rng.random(canaries) < expit(epsilon)
    return (coins == truly).astype(float), coins


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_bounds_lie_below_the_truth_of_randomised_response(epsilon: float) -> None:
    rng = np.random.default_rng(1)
    claim = PlainClaim(epsilon, 0.0)
    found = [audit_one_run(*randomised_response(rng, 500, epsilon), claim, [300], rng, 0.05) for _ in range(100)]
    shown = np.array([one.epsilon_lower for one in found])
    print(f"ε = {epsilon}, shown {np.median(shown):.2f} (median), {shown.max():.2f} (largest)")
    assert (shown <= epsilon).sum() >= 95
    assert np.median(shown) > 0.4 * epsilon
    assert sum(one.refuted for one in found) <= 5


def test_an_exact_gaussian_is_not_refuted_and_one_with_half_the_noise_is() -> None:
    rng = np.random.default_rng(2)
    claim = Claim((Spending(1.0, 1.0, 1),), 1e-5)

    def refuted(noise: float) -> bool:
        coins = rng.random(1000) < 0.5
        return audit_one_run(coins + rng.normal(scale=noise, size=1000), coins, claim, [100, 200], rng, 0.05).refuted

    assert sum(refuted(1.0) for _ in range(25)) <= 2
    assert sum(refuted(0.5) for _ in range(5)) == 5


def test_the_curve_shows_more_than_epsilon() -> None:
    claim = ExactGaussian(1.0)
    guesses = Guesses(1000, 200, 195)
    assert contradicts(guesses, claim, 0.05)
    assert epsilon_lower(guesses, 0.05, claim.delta) < claim.epsilon


def test_numbers_of_guesses_share_the_level() -> None:
    rng = np.random.default_rng(3)
    coins = rng.random(200) < 0.5
    claim = PlainClaim(1.0, 1e-6)
    alone = audit_one_run(coins.astype(float), coins, claim, [100], rng, 0.05)
    shared = audit_one_run(coins.astype(float), coins, claim, [100, 50, 20], rng, 0.05)
    assert alone.guesses == shared.guesses == Guesses(200, 100, 100)
    assert alone.epsilon_lower == alone.cap == pytest.approx(cap(200, 0.05, 1e-6, made=100))
    assert shared.epsilon_lower == shared.cap == pytest.approx(cap(200, 0.05 / 3, 1e-6, made=100))
    assert shared.cap < alone.cap
    assert (alone.refuted, alone.within_reach) == (True, True)
    assert not audit_one_run(coins.astype(float), coins, PlainClaim(4.5, 1e-6), [100], rng, 0.05).within_reach


def test_the_highest_are_guessed_in_and_the_lowest_out() -> None:
    rng = np.random.default_rng(4)
    scores = np.array([5.0, 4.0, 3.0, 2.0, 1.0, np.nan])
    assert guess(scores, np.array([1, 1, 0, 1, 0, 0], bool), 4, rng) == Guesses(6, 4, 4)
    assert guess(scores, np.array([0, 0, 0, 1, 1, 1], bool), 4, rng) == Guesses(6, 4, 0)
    assert guess(scores, np.array([1, 0, 1, 1, 1, 1], bool), 1, rng) == Guesses(6, 1, 1)
    assert guess(scores, np.array([1, 0, 0, 0, 0, 0], bool), 2, rng).right == 2, "NaN is lowest"


def test_equal_scores_tell_nothing_even_where_coins_are_in_order() -> None:
    rng = np.random.default_rng(5)
    coins = np.arange(1000) >= 500
    for scores in (np.zeros(1000), np.full(1000, np.nan), np.full(1000, np.inf)):
        assert 220 < guess(scores, coins, 500, rng).right < 280


def test_what_cannot_be_guessed() -> None:
    rng = np.random.default_rng(6)
    with pytest.raises(UserError, match="one coin per score"):
        guess(np.zeros(3), np.zeros(4, bool), 2, rng)
    with pytest.raises(UserError, match="one coin per score"):
        guess(np.zeros(3), np.zeros(3, bool), 4, rng)
    with pytest.raises(UserError, match="impossible"):
        Guesses(3, 2, 3)
    with pytest.raises(UserError, match="at least one number"):
        audit_one_run(np.zeros(3), np.zeros(3, bool), PlainClaim(1.0, 0.0), [], rng)
