"""Gradient matching: distances by hand, slopes against finite differences, and the image steps."""

import math

import pytest
import torch
from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.dsa import ALL, Draw, apply, draw
from understudy.models.classifier import Classifier
from understudy.models.convnet import ConvNetSettings, convnet
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.gradient_matching import (
    Criterion,
    MovingImages,
    Target,
    calibrated,
    image_gradient,
    match_gradient,
)
from understudy.synthesis.pullback import weight_gradient


def two_by_two() -> Network:
    """Flat vector: the weight's rows, then the bias."""
    return Network(lambda: Classifier(nn.Flatten(), nn.Linear(2, 2)), Problem(shape=(2,), classes=2))


# The real gradient has rows (3, 4) and (0, 2) and the bias (1, 0); the made one rows (4, 3) and (1, 0), bias (1, 1).
# Cosines of the rows: (12 + 12)/25 = 0.96 and 0; of the biases: 1/√2.
REAL = torch.tensor([3.0, 4.0, 0.0, 2.0, 1.0, 0.0])
MADE = torch.tensor([4.0, 3.0, 1.0, 0.0, 1.0, 1.0])
# Differences 1, −1, 1, −2, 0, 1: squares add up to 1 + 1 + 1 + 4 + 0 + 1 = 8.
SQUARES = 8.0


def test_the_mean_over_rows_by_hand() -> None:
    # The weight: ((1 − 0.96) + (1 − 0))/2 = 0.52; the bias, a single row: 1 − 1/√2.
    expected = 0.52 + 1 - 1 / math.sqrt(2)
    net = two_by_two()
    assert float(Target(net, REAL, Criterion()).distance(MADE)) == pytest.approx(expected)
    with_mse = Target(net, REAL, Criterion(mse=0.1))
    assert float(with_mse.distance(MADE)) == pytest.approx(expected + 0.1 * SQUARES)


def test_the_sum_over_rows_by_hand() -> None:
    # (1 − 0.96) + (1 − 0) = 1.04; biases are left out of the angles, though not of the squares.
    net = two_by_two()
    assert float(Target(net, REAL, Criterion(rows="sum")).distance(MADE)) == pytest.approx(1.04)
    with_mse = Target(net, REAL, Criterion(rows="sum", mse=0.1))
    assert float(with_mse.distance(MADE)) == pytest.approx(1.04 + 0.1 * SQUARES)


def test_squares_alone_by_hand() -> None:
    target = Target(two_by_two(), REAL, Criterion(cosine=False, mse=0.5))
    assert float(target.distance(MADE)) == pytest.approx(0.5 * SQUARES)
    assert target.slope(MADE).tolist() == pytest.approx([1, -1, 1, -2, 0, 1])  # 2 · ½ · difference


def test_the_slope_of_a_row_by_hand() -> None:
    # −∂cos/∂a = −(b̂ − cos·â)/‖a‖ with a = (4, 3), b = (3, 4): −((0.6, 0.8) − 0.96·(0.8, 0.6))/5
    # = −(−0.168, 0.224)/5 = (0.0336, −0.0448). In the mean form half of it, since there are two rows.
    net = two_by_two()
    assert Target(net, REAL, Criterion(rows="sum")).slope(MADE)[:2].tolist() == pytest.approx([0.0336, -0.0448])
    assert Target(net, REAL, Criterion()).slope(MADE)[:2].tolist() == pytest.approx([0.0168, -0.0224])


def test_small_rows_are_shortened_by_what_is_added_to_their_length() -> None:
    # Real rows (1e-3, 0) and made rows (1e-3, 0). Sum: 1e-6/(1e-6 + 1e-6) = ½ for each of two rows. Mean:
    # (1e-3/(1e-3 + 1e-8))² = 1 − 2e-5, nearly; no bias: 1 for its row.
    tiny = torch.tensor([1e-3, 0, 1e-3, 0, 0, 0])
    net = two_by_two()
    assert float(Target(net, tiny, Criterion(rows="sum")).distance(tiny)) == pytest.approx(1.0)
    assert float(Target(net, tiny.double(), Criterion()).distance(tiny.double())) == pytest.approx(1 + 2e-5, abs=1e-9)


@pytest.mark.parametrize("rows", ["mean", "sum"])
@pytest.mark.parametrize("mse", [0.0, 0.1])
def test_the_slope_in_closed_form_is_that_of_the_distance(rows: str, mse: float) -> None:
    net = two_by_two()
    target = Target(net, REAL.double(), Criterion(rows=rows, mse=mse))  # type: ignore[arg-type]
    made = MADE.double().requires_grad_()
    (by_torch,) = torch.autograd.grad(target.distance(made), made)
    assert torch.allclose(target.slope(made.detach()), by_torch, atol=1e-12)
    assert torch.autograd.gradcheck(target.distance, [made])


@pytest.mark.parametrize("rows", ["mean", "sum"])
def test_rounding_error_has_no_direction(rows: str) -> None:
    # A bias gradient of 1e-9 beside weights of about 5 is what is left of a sum that is 0.
    noisy = torch.tensor([4.0, 3.0, 1.0, 0.0, 1e-9, -1e-9])
    net = two_by_two()
    target = Target(net, REAL, Criterion(rows=rows))  # type: ignore[arg-type]
    assert target.slope(noisy)[4:].tolist() == [0, 0]
    exact = torch.tensor([4.0, 3.0, 1.0, 0.0, 0.0, 0.0])
    assert target.distance(noisy) == target.distance(exact)
    assert torch.isfinite(target.slope(torch.zeros(6))).all()


def test_a_criterion_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="cosine"):
        Criterion(cosine=False)


# ---- slopes in the images


def narrow_convnet() -> Network:
    """In float64: the network's own tensors are no longer windows then, but the matching does not mind."""
    problem = Problem(shape=(2, 6, 6), classes=3)
    settings = ConvNetSettings(width=3, depth=2)
    net = Network(lambda: convnet(problem, settings), problem, seed=3)
    net.module.double()
    net.grad = net.grad.double()
    return net


X = torch.randn(3, 2, 6, 6, generator=generator("x"), dtype=torch.float64)
Y = torch.tensor([0, 2, 1])


@pytest.mark.parametrize("criterion", [Criterion(mse=0.1), Criterion(rows="sum"), Criterion(cosine=False, mse=1.0)])
@pytest.mark.parametrize("chosen", [None, draw(ALL, generator("siamese"))], ids=["as it is", "augmented"])
def test_the_slope_in_the_images_against_finite_differences(criterion: Criterion, chosen: Draw | None) -> None:
    net = narrow_convnet()
    real, _ = weight_gradient(net, X.flip(0) * 0.5, Y)
    target = Target(net, real, criterion)

    def loss(x: Tensor) -> float:
        return float(target.distance(weight_gradient(net, x if chosen is None else apply(chosen, x), Y)[0]))

    found = image_gradient(net, X, Y, target, chosen)
    for at in ((0, 0, 0, 0), (1, 1, 3, 2), (2, 0, 5, 4)):
        step = torch.zeros_like(X)
        step[at] = 1e-6
        slope = (loss(X + step) - loss(X - step)) / 2e-6
        assert float(found[at]) == pytest.approx(slope, rel=1e-4, abs=1e-8)


# ---- image steps


def test_two_steps_with_momentum_that_outlives_a_batch() -> None:
    # x₁ = x₀ − 0.1·g₀; with momentum ½, x₂ = x₁ − 0.1·(½·g₀ + g₁).
    net = narrow_convnet()
    target = Target(net, weight_gradient(net, X.flip(0) * 0.5, Y)[0], Criterion(mse=0.1))
    g0 = image_gradient(net, X, Y, target)
    x1 = X - 0.1 * g0
    x2 = x1 - 0.1 * (0.5 * g0 + image_gradient(net, x1, Y, target))
    together, apart = (MovingImages(X, Y, lr=0.1, momentum=0.5) for _ in range(2))
    match_gradient(net, together, target, steps=2)
    match_gradient(net, apart, target, steps=1)
    assert torch.allclose(apart.x, x1, atol=1e-12)
    match_gradient(net, apart, target, steps=1)
    assert torch.allclose(together.x, x2, atol=1e-12)
    assert torch.equal(together.x, apart.x)


def test_images_left_out_are_moved_by_their_momentum_alone() -> None:
    net = narrow_convnet()
    target = Target(net, weight_gradient(net, X.flip(0) * 0.5, Y)[0], Criterion())
    images = MovingImages(X, Y, lr=0.1, momentum=0.5)
    match_gradient(net, images, target, steps=1, rows=torch.tensor([0, 2]))
    assert torch.equal(images.x[1], X[1])
    before = images.x.clone()
    match_gradient(net, images, target, steps=1, rows=torch.tensor([1]))
    assert torch.allclose(images.x[0] - before[0], 0.5 * (before[0] - X[0]), atol=1e-12)


def test_matching_brings_gradients_together_and_leaves_the_network_alone() -> None:
    net = narrow_convnet()
    net.module.train()
    before = [p.detach().clone() for p in net.module.parameters()]
    target = Target(net, weight_gradient(net, X.flip(0) * 0.5, Y)[0], Criterion(mse=0.1))
    images = MovingImages(X, Y, lr=0.05, momentum=0.5)
    first = float(target.distance(weight_gradient(net, images.x, Y)[0]))
    match_gradient(net, images, target, steps=60)
    assert float(target.distance(weight_gradient(net, images.x, Y)[0])) < 0.5 * first
    assert all(torch.equal(p.detach(), was) for p, was in zip(net.module.parameters(), before, strict=True))
    assert net.module.training


def test_calibration_gives_each_tensor_the_real_length() -> None:
    # The weight: √(9 + 16 + 4) = √29 real, √26 made; the bias: 1 real, √2 made.
    found = calibrated(two_by_two(), MADE, REAL)
    assert torch.allclose(found[:4], MADE[:4] * math.sqrt(29 / 26))
    assert torch.allclose(found[4:], MADE[4:] / math.sqrt(2))
    assert torch.equal(calibrated(two_by_two(), torch.zeros(6), REAL), torch.zeros(6))
