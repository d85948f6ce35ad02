"""ε of the sampled Gaussian mechanism: published numbers, and laws that hold for all of them."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import UserError
from understudy.privacy.accounting import Spending, account, epsilon, noise_for
from understudy.privacy.renyi import ABOVE, ORDERS, _binomial_terms, _log_of_sum, _quadrature_terms, curve_of

RATES = st.floats(0.001, 0.5)
NOISES = st.floats(0.6, 8.0)
STEPS = st.integers(1, 3000)
DELTAS = st.sampled_from([1e-3, 1e-5, 1e-7])
Q = 256 / 10000


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "printed"),
    [
        (Q, 1.0, 200, "2.787"),  # FedLAP-DP, one round
        (Q, 1.0, 3000, "10.183"),  # and fifteen
        (Q, 1.0, 195, "2.761"),  # its baselines, one round
        (256 / 3375, 1.906, 6591, "21.6"),
        (1 / 45, 1.906, 22500, "9.99"),
        (1.0, 10.0, 400, "10.7"),  # whole-class means, twenty a round for twenty rounds
        (1.0, 20.0, 400, "4.7"),
    ],
)
def test_renyi_gives_the_papers_numbers(rate: float, noise: float, steps: int, printed: str) -> None:
    digits = len(printed.partition(".")[2])
    assert f"{epsilon([Spending(rate, noise, steps)], 1e-5):.{digits}f}" == printed


def test_a_noisy_histogram_beside_training() -> None:
    # One Gaussian release with σ = 10 adds α/200 to the curve.
    assert epsilon([Spending(Q, 1.0, 200), Spending(1.0, 10.0, 1)], 1e-5) == pytest.approx(2.816, abs=5e-4)


@pytest.mark.parametrize(("steps", "expected"), [(200, 2.38), (3000, 9.38)])
def test_loss_distributions_are_tighter(steps: int, expected: float) -> None:
    assert epsilon([Spending(Q, 1.0, steps)], 1e-5, "pld") == pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize(("noise", "steps"), [(2.0, 1), (20.0, 100), (9.0, 400), (3.0, 7)])
def test_gaussian_releases_of_everything_have_a_closed_form(noise: float, steps: int) -> None:
    # T of them are one with σ' = σ/√T, for which δ(ε) = Φ(1/2σ' − εσ') − e^ε·Φ(−1/2σ' − εσ') at sensitivity 1
    # (Balle and Wang, Improving the Gaussian Mechanism).
    def normal(t: float) -> float:
        return math.erfc(-t / math.sqrt(2)) / 2

    found, sigma = epsilon([Spending(1.0, noise, steps)], 1e-5, "pld"), noise / math.sqrt(steps)
    delta = normal(1 / (2 * sigma) - sigma * found) - math.exp(found) * normal(-1 / (2 * sigma) - sigma * found)
    assert delta == pytest.approx(1e-5, rel=5e-3)
    assert delta <= 1e-5, "never too small an ε"


def test_the_curve_of_an_unsampled_release_is_a_line() -> None:
    assert curve_of(1.0, 2.0, (1.5, 8)).tolist() == pytest.approx([1.5 / 8, 1.0])


def test_order_two_by_hand() -> None:
    # A(2) = (1−q)² + 2q(1−q) + q²·e^{1/σ²} = 1 + q²(e^{1/σ²} − 1); q = 1/2, σ = 1: 1 + (e−1)/4.
    assert curve_of(0.5, 1.0, (2,))[0] == pytest.approx(math.log(1 + (math.e - 1) / 4))


@settings(max_examples=25, deadline=None)
@given(RATES, NOISES, st.integers(2, 12))
def test_sum_and_integral_agree_at_whole_orders(rate: float, noise: float, alpha: int) -> None:
    by_sum, by_integral = (_log_of_sum(terms(rate, noise, alpha)) for terms in (_binomial_terms, _quadrature_terms))
    assert by_integral == pytest.approx(by_sum, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 0.5), (0.0256, 1.0), (0.2, 1.906), (0.7, 4.0)])
def test_the_curve_is_that_of_opacus(rate: float, noise: float) -> None:
    analysis = pytest.importorskip("opacus.accountants.analysis.rdp")
    theirs = analysis.compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=list(ORDERS))
    assert np.allclose(curve_of(rate, noise, ORDERS), theirs, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03, 0.05])
def test_the_plain_bound_for_little_noise_is_no_smaller(noise: float) -> None:
    exact = [_log_of_sum(_binomial_terms(0.1, noise, alpha)) / (alpha - 1) for alpha in (2, 5, 20)]
    assert bool((curve_of(0.1, noise, (2, 5, 20)) >= np.array(exact) * (1 - 1e-12)).all())


@settings(max_examples=25, deadline=None)
@given(RATES, NOISES, STEPS, DELTAS)
def test_epsilon_grows_with_steps_rate_and_less_noise(rate: float, noise: float, steps: int, delta: float) -> None:
    here = epsilon([Spending(rate, noise, steps)], delta)
    assert here <= epsilon([Spending(rate, noise, 2 * steps)], delta)
    assert here <= epsilon([Spending(1.5 * rate, noise, steps)], delta)
    assert here <= epsilon([Spending(rate, 0.8 * noise, steps)], delta)
    assert here <= epsilon([Spending(rate, noise, steps)], delta / 10)


@settings(max_examples=25, deadline=None)
@given(RATES, NOISES, STEPS, STEPS, DELTAS)
def test_composing_equals_adding(rate: float, noise: float, first: int, second: int, delta: float) -> None:
    in_two = [Spending(rate, noise, first), Spending(0.01, 2.0, 10), Spending(rate, noise, second)]
    in_one = [Spending(rate, noise, first + second), Spending(0.01, 2.0, 10)]
    assert epsilon(in_two, delta) == epsilon(in_one, delta)
    curves = first * curve_of(rate, noise, ORDERS) + second * curve_of(rate, noise, ORDERS)
    assert np.allclose(curves, (first + second) * curve_of(rate, noise, ORDERS))


@settings(max_examples=5, deadline=None)
@given(RATES, NOISES, st.integers(1, 500), DELTAS)
def test_pld_is_never_above_rdp(rate: float, noise: float, steps: int, delta: float) -> None:
    spent = [Spending(rate, noise, steps)]
    assert epsilon(spent, delta, "pld") <= epsilon(spent, delta)


def test_pld_composes_unlike_releases() -> None:
    spent = [Spending(Q, 1.0, 200), Spending(1.0, 10.0, 1), Spending(0.1, 3.0, 20)]
    assert epsilon(spent[:2], 1e-5, "pld") < epsilon(spent, 1e-5, "pld") < epsilon(spent, 1e-5)
    assert epsilon(spent, 1e-5, "pld") == epsilon(spent[::-1], 1e-5, "pld")


def test_nothing_spent_costs_nothing_and_no_noise_costs_everything() -> None:
    assert epsilon([], 1e-5) == 0
    assert epsilon([Spending(0.1, 0.0, 0)], 1e-5) == 0
    for accountant in ("rdp", "pld"):
        assert epsilon([Spending(0.1, 1.0, 5), Spending(0.1, 0.0, 1)], 1e-5, accountant) == math.inf


def test_a_best_order_beyond_the_grid_is_named() -> None:
    much = account([Spending(0.01, 50.0, 100)], 1e-5)
    assert much.order in ABOVE
    assert "above the usual grid" in much.note
    # Up to order 63 alone, −(ln δ + ln α)/(α−1) + ln(62/63) = 0.103 would be the least that could be claimed.
    assert much.epsilon < 0.1
    little = account([Spending(0.5, 0.3, 5000)], 1e-5)
    assert "below the usual grid" in little.note
    assert account([Spending(Q, 1.0, 200)], 1e-5).note == ""


@pytest.mark.parametrize(("rate", "noise"), [(0.02, 1.0), (0.3, 2.0), (0.9, 1.5)])
@pytest.mark.parametrize("alpha", [1.5, 3.0, 10.0])
def test_half_the_noise_bounds_a_replaced_record(rate: float, noise: float, alpha: float) -> None:
    # Worst pair: the record's vector is +1 in one set and −1 in the other. Its Rényi divergence, by a fine sum.
    step = noise / 50
    z = np.arange(-3 * alpha - 12 * noise, 3 * alpha + 12 * noise, step)
    away, plus, minus = (-((z - centre) ** 2) / (2 * noise**2) for centre in (0, 1, -1))
    one = np.logaddexp(math.log(1 - rate) + away, math.log(rate) + plus)
    other = np.logaddexp(math.log(1 - rate) + away, math.log(rate) + minus)
    terms = alpha * one + (1 - alpha) * other + math.log(step / (noise * math.sqrt(2 * math.pi)))
    assert _log_of_sum(terms) / (alpha - 1) <= curve_of(rate, noise / 2, (alpha,))[0]


@settings(max_examples=12, deadline=None)
@given(st.floats(0.3, 20), RATES, STEPS)
def test_noise_inverts_epsilon(wanted: float, rate: float, steps: int) -> None:
    noise = noise_for(wanted, 1e-5, rate, steps)
    assert epsilon([Spending(rate, noise, steps)], 1e-5) <= wanted
    assert epsilon([Spending(rate, noise - 1e-4, steps)], 1e-5) > wanted


def test_the_papers_noise_is_found_again() -> None:
    assert noise_for(2.787, 1e-5, Q, 200) == 1.0


def test_pld_needs_less_noise_for_the_same_promise() -> None:
    noise = noise_for(2.0, 1e-5, 1.0, 1, "pld")
    assert noise < noise_for(2.0, 1e-5, 1.0, 1)
    assert epsilon([Spending(1.0, noise, 1)], 1e-5, "pld") <= 2.0
    assert epsilon([Spending(1.0, noise - 1e-4, 1)], 1e-5, "pld") > 2.0


def test_noise_leaves_room_for_what_is_beside() -> None:
    beside = [Spending(Q, 1.0, 200)]
    noise = noise_for(5.0, 1e-5, 0.01, 100, beside=beside)
    assert noise > noise_for(5.0, 1e-5, 0.01, 100)
    assert epsilon([*beside, Spending(0.01, noise, 100)], 1e-5) <= 5.0


def test_an_epsilon_out_of_reach_says_what_would_work() -> None:
    with pytest.raises(UserError, match=r"out of reach .* ask for at least 5\.\d+e-05, or take fewer steps"):
        noise_for(1e-6, 1e-5, 1.0, 10)
    with pytest.raises(UserError, match=r"already exceeded by the .* spent"):
        noise_for(1.0, 1e-5, 0.1, 10, beside=[Spending(0.1, 0.5, 100)])


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.01, math.nan])
def test_a_rate_outside_its_range_is_refused(rate: float) -> None:
    with pytest.raises(UserError, match=r"^rate: "):
        Spending(rate, 1.0, 1)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "field"),
    [
        (0.1, 1e-300, 1, "noise"),
        (0.1, math.inf, 1, "noise"),
        (0.1, 10**400, 1, "noise"),
        (0.1, 1.0, 10**400, "steps"),
        (1e-300, 1.0, 1, "rate"),
    ],
)
def test_numbers_that_cannot_be_counted_are_refused_by_name(rate: float, noise: float, steps: int, field: str) -> None:
    with pytest.raises(UserError, match=f"^{field}: .*; write "):
        Spending(rate, noise, steps)


@pytest.mark.parametrize(
    ("spent", "why"),
    [
        ([Spending(0.1, 1e-6, 10)], "noise below"),
        ([Spending(0.001, 10.0, 10**7)], "steps take too long"),
        ([Spending(0.1, 1 + at / 100, 1) for at in range(17)], "kinds of releases"),
        ([Spending(1.0, 0.06, 1000)], "ε above"),
        ([Spending(0.5, 1e9, 200_000)], "noise below 0.05 or above 100000"),
    ],
)
def test_what_takes_too_long_to_compose_gets_the_renyi_bound_and_a_note(spent: list[Spending], why: str) -> None:
    began = time.monotonic()
    claim = account(spent, 1e-5, "pld")
    assert time.monotonic() - began < 20
    assert claim.epsilon == epsilon(spent, 1e-5, "rdp")
    assert why in claim.note


def test_where_losses_reach_far_beyond_epsilon_they_are_still_composed_soon() -> None:
    """At δ = 0.5, ε is 0 however wide 200 000 releases spread: a grid as fine as one of them would take gigabytes."""
    began = time.monotonic()
    assert account([Spending(0.5, 1e5, 200_000)], 0.5, "pld").epsilon == 0
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("noise", [1e-12, 1e-6, 0.05, 1e5, 1e12])
@pytest.mark.parametrize("rate", [1e-12, 0.5, 1.0])
def test_at_the_ends_of_what_is_counted_the_bound_is_a_number(noise: float, rate: float) -> None:
    assert math.isfinite(epsilon([Spending(rate, noise, 10**12)], 1e-100))


def test_other_impossible_numbers_are_refused_by_name() -> None:
    for delta in (0.0, 1.0, -1e-5, math.nan):
        with pytest.raises(UserError, match=r"^delta: "):
            epsilon([Spending(0.1, 1.0, 1)], delta)
    with pytest.raises(UserError, match=r"^noise: "):
        Spending(0.1, -1.0, 1)
    with pytest.raises(UserError, match=r"^steps: "):
        Spending(0.1, 1.0, -1)
    with pytest.raises(UserError, match=r"^epsilon: "):
        noise_for(0.0, 1e-5, 0.1, 10)
