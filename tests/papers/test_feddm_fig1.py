"""FedDM's figure 1: surrogates of losses with one weight, by hand."""

import math

import pytest
import torch

from understudy.papers.feddm import one_weight, two_clients
from understudy.papers.feddm.one_weight import GRID, LabelledNumbers, judged, off_by_means, off_by_objective, tangent
from understudy.papers.feddm.two_clients import Records, best_within, losses, surrogate
from understudy.randomness import generator

TWO = LabelledNumbers(torch.tensor([-1.0, 2.0]).double(), torch.tensor([0.0, 1.0]).double())


def test_the_loss_and_its_tangent_by_hand() -> None:
    # At w: (ln(1 + e^−w) + ln(1 + e^−2w)) / 2. At 0 that is ln 2, its slope −(½·1 + ½·2)/2 = −0.75.
    at_one = (math.log1p(math.exp(-1)) + math.log1p(math.exp(-2))) / 2
    assert float(one_weight.loss(TWO, torch.tensor(1.0).double())) == pytest.approx(at_one)
    assert tangent(TWO).tolist() == pytest.approx((math.log(2) - 0.75 * GRID).tolist())


def test_both_rules_by_hand() -> None:
    # Class means differ by 0.5 and 1 in x, and by w times as much in the logit: (0.25 + 1)(1 + w²), with w = 2 and 0.
    made = LabelledNumbers(torch.tensor([-1.5, 3.0]).double(), TWO.y)
    assert float(off_by_means(TWO, made, torch.tensor([2.0, 0.0]).double())) == pytest.approx((1.25 * 5 + 1.25) / 2)
    w = torch.tensor([1.0]).double()
    apart = float(one_weight.loss(TWO, w) - one_weight.loss(made, w))
    assert float(off_by_objective(TWO, made, w)) == pytest.approx(apart**2)


def test_labels_are_the_sign_and_one_in_ten_is_turned_round() -> None:
    some = [one_weight.drawn(seed) for seed in range(20)]
    turned = torch.cat([(one.x >= 0).double() != one.y for one in some]).double().mean()
    assert float(turned) == pytest.approx(0.1, abs=0.03)  # of 2000: four standard errors


def test_matching_makes_the_class_means_agree() -> None:
    real = one_weight.drawn(0)
    made = one_weight.learnt(real, off_by_means, 1, 300, 0)
    for label in (0, 1):
        assert float(made.x[made.y == label].mean()) == pytest.approx(float(real.x[real.y == label].mean()), abs=1e-6)


def test_a_perfect_stand_in_has_no_gap_and_gains_everything_and_the_start_gains_nothing() -> None:
    true = (GRID - 1).square()
    assert list(judged(true, true).values()) == pytest.approx([0, 0, 100])
    # Lowest at 0, where the search began; off by 2w − 1 everywhere, which is 11 at w = −5.
    _, largest, gained = judged(true, GRID.square()).values()
    assert [largest, gained] == pytest.approx([11, 0])


def test_a_surrogate_of_as_many_records_as_there_are_is_the_loss_itself() -> None:
    client = Records(torch.tensor([-1.0, -0.8, 0.9, 1.1]).double(), torch.tensor([0.0, 0, 1, 1]).double())
    made = surrogate(client, 0.5, 0.2, generator("test"), steps=3, lr=0.1)
    w = torch.linspace(-1, 2, 7).double()
    assert torch.allclose(losses(made, w), losses(client, w))
    # Class 1 lies right of nought, so larger weights are better as long as they stay within the ball.
    assert best_within([client], 0.5, 0.2) == pytest.approx(0.7)


def test_the_server_with_surrogates_ends_lower_than_the_average() -> None:
    found = two_clients.two_clients(steps=60, rounds=1).numbers["losses"]
    assert found[two_clients.SUMMED][-1] < found[two_clients.AVERAGED][-1]
