"""Fedssyn's convex checks: simulations by hand, and what is read off them."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from understudy.errors import UserError
from understudy.papers.fedssyn.shuffled_softmax import (
    APART,
    SoftmaxLine,
    SoftmaxPlan,
    after_last,
    best_run,
    gained,
    softmax_findings,
    training,
    workers,
)
from understudy.papers.fedssyn.shuffled_squares import fewest, fitted_coefficient
from understudy.papers.fedssyn.squares_findings import (
    NOISY_ROUNDS,
    ROUNDS,
    at_sigma2,
    at_zeta2,
    share,
    squares_findings,
)
from understudy.papers.theory.least_squares import (
    Squares,
    clients_without_noise,
    drawn,
    floor_without_noise,
    rounds_to,
    with_noise,
    without_noise,
)
from understudy.papers.theory.softmax import (
    Shards,
    federated,
    gradient,
    loss,
    rows_alike,
    rows_by_class,
    shuffled_rows,
)
from understudy.randomness import generator, numpy_generator

# Two clients of one record each in one dimension: ½(w − 1)² and ½(2w − 2·4)².
PAIR = Squares(np.array([[1.0], [2.0]]), np.array([[[1.0]], [[8.0]]]))


def test_least_squares_by_hand() -> None:
    # w* = mean(ab)/mean(a²) = (1 + 16)/2 / (5/2) = 3.4. Gradients there: 1·(3.4 − 1) = 2.4 and 2·(6.8 − 8) = −2.4,
    # so ζ² = 5.76 and σ² = 0. f(1) − f* = 5/4·2.4² = 7.2.
    assert PAIR.optimum == pytest.approx([3.4])
    assert PAIR.at_optimum() == pytest.approx((5.76, 0))
    assert float(PAIR.excess(np.array([1.0]))) == pytest.approx(7.2)


def test_local_steps_of_full_gradients_by_hand() -> None:
    # From w = 1 with rate 0.1, two steps: client 1 stays at 1; client 2 has curvature 4 and goes 1 − 0.4·(1 − 4) = 2.2,
    # then 2.2 − 0.4·(2.2 − 4) = 2.92. Mean 1.96, excess 5/4·1.44² = 2.592.
    assert float(without_noise(PAIR, np.array([0.1]), 1, steps=2)[0, 0]) == pytest.approx(2.592)
    # At rest (1 − 0.9²)(w − 1) + (1 − 0.6²)(w − 4) = 0: w = (0.19 + 2.56)/0.83.
    resting = (0.19 * 1 + 0.64 * 4) / 0.83
    assert floor_without_noise(PAIR, 0.1, steps=2) == pytest.approx(1.25 * (resting - 3.4) ** 2)


def test_closed_form_and_steps_agree_where_a_client_has_one_record() -> None:
    base = drawn(4.0, 1.0, 0, clients=3)
    one = Squares(base.a[:, :1], base.b[:, :1])
    stepped = with_noise([one], np.array([0.01]), 3, 1, numpy_generator(0))
    assert stepped.mean[:, 0, :, 0] == pytest.approx(without_noise(one, np.array([0.01]), 3))
    assert stepped.clients[:, 0, :, 0] == pytest.approx(clients_without_noise(one, np.array([0.01]), 3))


def test_the_clients_models_are_measured_before_they_are_averaged() -> None:
    # As above after round 1: client 1 at 1, client 2 at 2.92, x* = 3.4, so ((1 − 3.4)² + (2.92 − 3.4)²)/2 = 2.9952;
    # their mean, 1.96, is only 1.44² = 2.0736 away. Round 2 begins at 1.96: client 1 goes to 1 + 0.81·0.96 = 1.7776,
    # client 2 to 4 − 0.36·2.04 = 3.2656.
    after_two = ((1.7776 - 3.4) ** 2 + (3.2656 - 3.4) ** 2) / 2
    found = clients_without_noise(PAIR, np.array([0.1]), 2, steps=2)
    assert found[:, 0].tolist() == pytest.approx([2.9952, after_two])


def test_the_largest_curvature_of_a_client() -> None:
    # Records 1 has a = 1 and 3, so (1 + 9)/2 = 5; client 2 has a = 2 twice, so 4.
    assert Squares(np.array([[1.0, 3.0], [2.0, 2.0]]), np.zeros((2, 2, 1))).smoothness == 5


def test_a_line_through_the_rounds_to_several_accuracies() -> None:
    # R = 3/√ε + 7 at ε = 1, 1/4 and 1/16: 10, 13 and 19 rounds.
    assert fitted_coefficient([1, 1 / 4, 1 / 16], [10, 13, 19]) == pytest.approx(3)


def test_the_best_rate_counts() -> None:
    assert fewest(np.array([[3.0, 3.0], [3.0, 1.0], [0.5, 0.5]]), 1.0) == 2
    with pytest.raises(UserError, match=r"no rate reached 0.1 in 3 rounds"):
        fewest(np.array([[3.0], [1.0], [0.5]]), 0.1)


def test_what_least_squares_found_is_a_share_of_what_it_is_without_shuffling() -> None:
    def drift(p: float, rounds: float) -> dict[str, Any]:
        parts = {"coefficient": [2 * rounds, rounds], "zeta": [1.0, 1.0], "slope": [1.0, 1.0], "of_mean": [4.0, 4.0]}
        return {"knob": 1.0, "p": p, "rounds": [rounds, 2 * rounds], **parts}

    def floor(draw: int, p: float, clients: float) -> dict[str, Any]:
        return {"draw": draw, "p": p, "knob": 0.0, "measured": 1.1, "predicted": 1.0, "clients": clients}

    noise = [{"knobs": [0.0, 1000.0], "p": p, "rounds": [n], "sigma2": [1.0]} for p, n in ((0.0, 10.0), (0.9, 15.0))]
    floors = [floor(0, 0.0, 4.0), floor(0, 1.0, 1.0), floor(1, 0.0, 4.0), floor(1, 1.0, 2.0)]
    found = squares_findings(floors, [drift(0.0, 40.0), drift(0.5, 10.0)], noise)
    assert found.values[at_zeta2(ROUNDS, 1.0), share(0.5)] == [0.25, 0.25]
    assert found.values[at_sigma2(0.0), share(1.0)] == [0.25, 0.5]
    assert found.values[at_zeta2(NOISY_ROUNDS, 0.0), share(0.9)] == [1.5]
    assert share(0.0) not in {column for _, column in found.values}
    assert "to within 10 %" in found.notes[-1]


def test_single_records_leave_the_floor_of_the_theory() -> None:
    # Curvature 1 everywhere: the mean iterate is w ← (1 − η)w + η·(mean of n records), so that ‖w − w*‖² comes to
    # η²σ²/n / (1 − (1 − η)²) and the excess, half of it, to ησ²/(2n(2 − η)), which is ησ²/4n for a small rate.
    clients, rate = 4, 0.1
    problem = Squares(np.ones((clients, 50)), numpy_generator("floor").normal(size=(clients, 50, 25)))
    _, sigma2 = problem.at_optimum()
    late = with_noise([problem], np.array([rate]), 60, 100, numpy_generator(0), start=0.0).mean[30:]
    assert late.mean() == pytest.approx(rate * sigma2 / (2 * clients * (2 - rate)), rel=0.03)
    assert late.mean() == pytest.approx(rate * sigma2 / (4 * clients), rel=0.1)


def test_shuffling_keeps_the_common_loss_and_makes_clients_alike() -> None:
    base = drawn(100.0, 0.0, 1)
    half = base.shuffled(0.5, numpy_generator(1))
    assert half.optimum == pytest.approx(base.optimum)
    assert half.at_optimum()[0] == pytest.approx(0.25 * base.at_optimum()[0], rel=0.1)
    assert base.shuffled(0.0, numpy_generator(1)).at_optimum() == base.at_optimum()


def test_rounds_to_a_goal() -> None:
    assert rounds_to(np.array([[3.0, 3.0], [1.0, 3.0], [0.5, 3.0]]), 1.0).tolist() == [2, np.inf]


def test_softmax_gradients_are_those_of_autograd() -> None:
    rng = generator("test")
    y = torch.nn.functional.one_hot(torch.randint(10, (10, 3), generator=rng), 10).float()
    sites = Shards(torch.rand(10, 3, 4, generator=rng), y)
    w = torch.randn(4, 1, 10, generator=rng, requires_grad=True)
    (wanted,) = torch.autograd.grad(loss(sites, w).sum(), w)
    with torch.no_grad():
        found = gradient(sites, w.expand(10, -1, -1, -1)).mean(0)
        assert torch.allclose(found, wanted, atol=1e-6)
        # One step without noise is gradient descent on the common loss.
        nought = torch.zeros(4, 1, 10)
        half = Shards(sites.x[:5], sites.y[:5])
        stepped = federated(sites, half, 1, torch.zeros(1), torch.tensor([0.5]), 1, rng)
        after = nought - 0.5 * gradient(sites, nought.expand(10, -1, -1, -1)).mean(0)
    assert torch.allclose(stepped.train[0], loss(sites, after))
    assert torch.allclose(stepped.test[0], loss(half, after))


@pytest.mark.parametrize("pixels", [4, 16])
def test_noise_of_a_gradient_is_ten_sigma2_long(pixels: int) -> None:
    # Labels that are every class alike leave no gradient at w = 0, so that a step is −η times the mean noise of ten
    # workers. Where all pixels are 1, a logit is the sum of its coordinates: N(0, v) with v = η²σ²/10 if each of the
    # pixels·10 coordinates has σ²/pixels, which makes ‖noise‖² = 10σ². The loss of small logits is
    # ln 10 + ½·(their variance over the classes), on average 0.9v/2 more than ln 10.
    sites = Shards(torch.ones(10, 1, pixels), torch.full((10, 1, 10), 0.1))
    sigma2 = torch.tensor([0.0, 5.0, 10.0]).repeat_interleave(4000)
    rates = torch.full((12_000,), 0.1)
    (found,) = federated(sites, sites, 1, sigma2, rates, 1, generator("noise", pixels)).train.double()
    none, five, ten = (found - math.log(10)).view(3, 4000)
    assert none.abs().max() < 1e-6
    # χ² of nine: a mean of 4000 is within 3 % (four standard errors).
    assert float(five.mean()) == pytest.approx(0.45 * 0.01 * 5 / 10, rel=0.03)
    assert float(ten.mean()) == pytest.approx(0.45 * 0.01 * 10 / 10, rel=0.03)


def test_rates_are_tuned_by_the_mean_of_the_last_five_rounds() -> None:
    # Over the last five rounds the first run has (1+1+1+1+2)/5 = 1.2; the second (2+2+2+2+1)/5 = 1.8, but ends lower;
    # what was before does not count, nor does the third run, which is not asked for.
    curves = torch.tensor([[9.0, 1, 1, 1, 1, 2], [0.0, 2, 2, 2, 2, 1], [0.0, 0, 0, 0, 0, 0]]).T
    assert best_run(curves, [0, 1]) == 0


def test_records_of_one_class_each_and_what_shuffling_moves() -> None:
    y = torch.arange(10).repeat(6)
    rows = rows_by_class(y, 4, seed=0)
    assert y[rows].tolist() == [[label] * 4 for label in range(10)]
    half = shuffled_rows(rows, 0.5, seed=0)
    assert torch.equal(half[:, 2:], rows[:, 2:])
    assert not torch.equal(half, rows)
    for dealt in (half, rows_alike(rows, seed=0)):
        assert sorted(dealt.flatten().tolist()) == sorted(rows.flatten().tolist())
    assert torch.equal(shuffled_rows(rows, 0.0, seed=0), rows)


def test_gains_of_softmax_are_ratios_of_mean_losses_over_rounds() -> None:
    plan = SoftmaxPlan("digits", 1, 2, (0, 1), {APART: (0.0, 0.1)})
    lines = [
        SoftmaxLine(APART, p, steps, noise, [0.1], [[6.0 / scale, 2.0], [2.0 / scale, 0.0]], [1.0, 1.0 - p])
        for p, scale in ((0.0, 1), (0.1, 2))
        for steps in (1, 5)
        for noise in (0.0, 30.0)
    ]
    found = softmax_findings(plan, lines)
    assert found.values[workers(APART, 0.1), training(5, True)] == [2.5, 0.5]
    assert found.values[gained(APART, 0.1), training(1, False)] == [1.6, 2.0]
    assert found.values[after_last(workers(APART, 0.1)), training(5, True)] == [2.0, 0.0]
    assert "0.950 at p = 0.1 (0.810)" in found.notes[0]
