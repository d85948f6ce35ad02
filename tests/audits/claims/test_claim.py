"""The curve of a claim: closed forms where there are any, never above them, and what is left where nothing composes."""

import numpy as np
import pytest
from scipy.stats import norm

from understudy.audits.claims.claim import Claim, Numbers, PlainClaim
from understudy.privacy.accounting import Spending, epsilon

ALPHAS = np.concatenate([[0.0], np.geomspace(1e-6, 0.5, 60), 1 - np.geomspace(0.49, 1e-6, 60), [1.0]])


def gaussian(mu: float) -> Numbers:
    return np.asarray(norm.cdf(norm.isf(ALPHAS) - mu))


def convex_below(points: Numbers) -> Numbers:
    """The largest convex curve below these (α, β), by its supporting lines."""
    slopes = np.exp(np.linspace(-14, 14, 1401))[:, None]
    least = (points[:, 1] + slopes * points[:, 0]).min(axis=1)
    return np.asarray((least[:, None] - slopes * ALPHAS).max(axis=0))


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (20.0, 100), (0.5, 1), (30.0, 4)])
def test_gaussian_releases_of_everything_have_a_closed_form(noise: float, steps: int) -> None:
    found = Claim((Spending(1.0, noise, steps),), 1e-5).least_misses(ALPHAS)
    exact = gaussian(steps**0.5 / noise)
    assert (found <= exact).all(), "rounding would refute an exact mechanism"
    assert found == pytest.approx(exact, abs=2e-4)
    assert found[ALPHAS < 1e-4] == pytest.approx(exact[ALPHAS < 1e-4], rel=2e-3)


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 1.0), (0.3, 0.5)])
def test_one_sampled_release_for_both_orders_of_the_arms(rate: float, noise: float) -> None:
    # Without: N(0, σ²). With: the same, moved by 1 with probability q. The likelihood ratio rises with what came out.
    cuts = np.linspace(-12, 14, 4001)
    alphas = norm.sf(cuts / noise)
    betas = (1 - rate) * norm.cdf(cuts / noise) + rate * norm.cdf((cuts - 1) / noise)
    both_orders = np.concatenate([np.stack([alphas, betas], 1), np.stack([betas, alphas], 1)])
    found = Claim((Spending(rate, noise, 1),), 1e-5).least_misses(ALPHAS)
    exact = convex_below(both_orders)
    assert found == pytest.approx(exact, abs=3e-4)
    assert (found <= np.interp(ALPHAS, alphas[::-1], betas[::-1]) + 1e-9).all(), "with against without"
    assert (found <= np.interp(ALPHAS, betas, alphas) + 1e-9).all(), "without against with"


def test_unlike_releases_compose() -> None:
    found = Claim((Spending(1.0, 2.0, 1), Spending(1.0, 5.0, 3), Spending(1.0, 9.0, 0)), 1e-5).least_misses(ALPHAS)
    assert found == pytest.approx(gaussian((1 / 4 + 3 / 25) ** 0.5), abs=2e-4)


def test_epsilon_is_that_of_loss_distributions_and_lies_on_the_curve() -> None:
    claim = Claim((Spending(0.05, 1.0, 50),), 1e-5)
    assert claim.epsilon == epsilon(claim.spendings, 1e-5, "pld") < epsilon(claim.spendings, 1e-5, "rdp")
    assert (claim.least_misses(ALPHAS) >= PlainClaim(claim.epsilon * 1.02, 1e-5).least_misses(ALPHAS) - 1e-6).all()
    assert claim.note == ""


def test_what_cannot_be_composed_has_the_renyi_bound_and_a_note() -> None:
    claim = Claim((Spending(1.0, 2e5, 10**9),), 1e-5)  # μ = √T/σ = 0.158, by the closed form
    found, exact = claim.least_misses(ALPHAS), gaussian(10**4.5 / 2e5)
    assert "Rényi bound, since noise below" in claim.note
    assert (found <= exact).all()
    assert np.abs(found - exact).max() < 0.12
    assert (found >= PlainClaim(claim.epsilon, 1e-5).least_misses(ALPHAS)).all(), "several δ, not one"


def test_no_noise_claims_nothing_and_no_release_claims_everything() -> None:
    assert Claim((Spending(1.0, 0.0, 1), Spending(1.0, 5.0, 1)), 1e-5).least_misses(ALPHAS) == pytest.approx(0 * ALPHAS)
    assert Claim((Spending(1.0, 0.0, 0),), 1e-5).least_misses(ALPHAS) == pytest.approx(1 - ALPHAS)
    assert Claim((), 1e-5).least_misses(ALPHAS) == pytest.approx(1 - ALPHAS)


def test_a_plain_claim_by_hand() -> None:
    # e^ε = 3, δ = 0.1: 0.9 − 3·0.1 = 0.6 at α = 0.1, where the other bound is (0.9 − 0.1)/3; at 0.6 it is the larger.
    claim = PlainClaim(np.log(3), 0.1)
    assert claim.least_misses(np.array([0.0, 0.1, 0.6, 0.95])) == pytest.approx([0.9, 0.6, 0.1, 0.0])
