"""Divergences by hand: between class distributions, and between coins, one a label."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data.problem import Problem
from understudy.synthesis.divergence import jensen_shannon, kullback_leibler, log_chances

CLASSES = Problem(shape=(1,), classes=2)
LABELS = Problem(shape=(1,), classes=2, multilabel=True)


def classes(*p: float) -> torch.Tensor:
    return torch.tensor([p]).log()


def coins(*p: float) -> torch.Tensor:
    """The logits ln(p/(1−p)) of labels with these chances."""
    return log_chances(LABELS, torch.logit(torch.tensor([p])))


# ---- one label


def test_the_divergence_of_two_opposite_leanings_by_hand() -> None:
    # p = (¾, ¼), q = (¼, ¾), m = (½, ½): both halves are ¾·ln(3/2) + ¼·ln(1/2) = 0.1308.
    found = jensen_shannon(classes(0.75, 0.25), classes(0.25, 0.75))
    assert found.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))


def test_the_divergence_of_a_leaning_and_none_by_hand() -> None:
    # p = (¾, ¼), q = (½, ½), m = (5/8, 3/8).
    to_p = 0.75 * math.log(0.75 / 0.625) + 0.25 * math.log(0.25 / 0.375)
    to_q = 0.5 * math.log(0.5 / 0.625) + 0.5 * math.log(0.5 / 0.375)
    assert jensen_shannon(classes(0.75, 0.25), classes(0.5, 0.5)).item() == pytest.approx((to_p + to_q) / 2)


def test_the_released_form_has_the_arguments_the_other_way_round() -> None:
    # The same two: ½·KL(m‖p) + ½·KL(m‖q).
    to_p = 0.625 * math.log(0.625 / 0.75) + 0.375 * math.log(0.375 / 0.25)
    to_q = 0.625 * math.log(0.625 / 0.5) + 0.375 * math.log(0.375 / 0.5)
    found = jensen_shannon(classes(0.75, 0.25), classes(0.5, 0.5), "release")
    assert found.item() == pytest.approx((to_p + to_q) / 2, rel=1e-5)


def test_kl_by_hand() -> None:
    # KL((¾, ¼) ‖ (½, ½)) = ¾·ln(3/2) + ¼·ln(1/2)
    found = kullback_leibler(classes(0.75, 0.25), classes(0.5, 0.5))
    assert found.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))


def test_certain_networks_that_contradict_each_other_are_ln_2_apart() -> None:
    far = torch.tensor([[200.0, -200.0]])
    there, back = log_chances(CLASSES, far), log_chances(CLASSES, -far)
    assert jensen_shannon(there, back).item() == pytest.approx(math.log(2))
    assert jensen_shannon(there, there).item() == 0


def test_only_the_first_outputs_are_classes() -> None:
    assert torch.equal(
        log_chances(CLASSES, torch.tensor([[1.0, 2.0, 90.0]])), log_chances(CLASSES, torch.tensor([[1.0, 2.0]]))
    )


# ---- several labels


def test_the_kl_of_two_labels_by_hand() -> None:
    # The first label: ¾ against ½, 0.1308 as above. The second: ¼ against ¾,
    # ¼·ln(1/3) + ¾·ln 3 = ½·ln 3 = 0.5493. Together their sum.
    first = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    found = kullback_leibler(coins(0.75, 0.25), coins(0.5, 0.75))
    assert found.item() == pytest.approx(first + 0.5 * math.log(3), rel=1e-5)


def test_the_js_of_two_labels_by_hand() -> None:
    # The first: ¾ and ¼, m = ½, 0.1308. The second: ½ and ½, no difference. The mean of both.
    found = jensen_shannon(coins(0.75, 0.5), coins(0.25, 0.5))
    assert found.item() == pytest.approx((0.75 * math.log(1.5) + 0.25 * math.log(0.5)) / 2, rel=1e-5)


def test_the_released_js_of_two_labels_by_hand() -> None:
    # The first: m = ½, and KL(½‖¾) = KL(½‖¼) = ½·ln(½/¾) + ½·ln(½/¼) = ½·ln(4/3). The second gives 0.
    found = jensen_shannon(coins(0.75, 0.5), coins(0.25, 0.5), "release")
    assert found.item() == pytest.approx(0.5 * math.log(4 / 3) / 2, rel=1e-5)


def test_coins_that_are_certain_stay_finite_and_so_do_their_slopes() -> None:
    here = torch.tensor([[500.0, -500.0]], requires_grad=True)
    there = log_chances(LABELS, torch.tensor([[-500.0, -500.0]]))
    # 500 nats for the label that is contradicted; ln 2 for half of the labels.
    assert kullback_leibler(there, log_chances(LABELS, here)).item() == pytest.approx(500)
    apart = jensen_shannon(log_chances(LABELS, here), there)
    assert apart.item() == pytest.approx(math.log(2) / 2)
    (kl_slope,) = torch.autograd.grad(kullback_leibler(there, log_chances(LABELS, here)), here)
    (js_slope,) = torch.autograd.grad(apart, here)
    assert kl_slope.tolist() == [[1, 0]]  # σ(500) − 0
    assert torch.isfinite(js_slope).all()


# ---- both

logits = st.lists(st.floats(-80, 80, width=32), min_size=4, max_size=4)


@settings(max_examples=40, deadline=None)
@given(logits, logits, st.booleans())
def test_the_divergence_lies_between_zero_and_ln_2_and_is_symmetric(a: list[float], b: list[float], many: bool) -> None:
    problem = Problem(shape=(1,), classes=4, multilabel=many)
    p, q = (log_chances(problem, torch.tensor([side])) for side in (a, b))
    found = jensen_shannon(p, q).item()
    assert -1e-6 <= found <= math.log(2) + 1e-6
    assert found == pytest.approx(jensen_shannon(q, p).item(), abs=1e-6)
    assert kullback_leibler(p, q).item() >= -1e-4
