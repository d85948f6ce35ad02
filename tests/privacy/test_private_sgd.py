"""Private steps for any network, beside the private gradients of classifiers and a loop of single records."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.privacy.gradients import clipped_gradient_sum
from understudy.privacy.sgd import PrivateGradients, PrivateSteps, RecordLoss, fill_gradients
from understudy.randomness import generator


def steps(clip: float = 1.0, noise: float = 0.0, expected: float = 1.0, rate: float = 0.5) -> PrivateSteps:
    sampling, noises, coins = (generator("private steps", word) for word in ("sampling", "noises", "coins"))
    return PrivateSteps(rate, 10, clip, noise, expected, sampling, noises, coins)


def fill(
    module: nn.Module, private: PrivateSteps, loss: RecordLoss, *inputs: Tensor, at_once: int | None = None
) -> None:
    """As in a step of a generator's training."""
    fill_gradients(module, PrivateGradients(module, private)(loss, *inputs, at_once=at_once))


def squared_error(call: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
    return (call(x[None])[0] - y).square().sum()


def gradient(module: nn.Module) -> Tensor:
    return torch.cat([p.grad.reshape(-1) for p in module.parameters() if p.grad is not None])


def pairs(n: int) -> tuple[Tensor, Tensor]:
    rng = generator("pairs")
    return torch.randn(n, 3, generator=rng), torch.randn(n, 2, generator=rng)


def linear() -> nn.Linear:
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(6.0).view(2, 3) / 10)
        layer.bias.zero_()
    return layer


def test_one_record_by_hand() -> None:
    # f = (w·x − y)² at w = 1, x = 3, y = 1: slope 2·(3−1)·3 = 12. Clipped to 6, over 4 expected: 1.5.
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    fill(layer, steps(clip=6, expected=4), squared_error, torch.tensor([[3.0]]), torch.tensor([[1.0]]))
    assert layer.weight.grad is not None
    assert float(layer.weight.grad) == pytest.approx(1.5)


@pytest.mark.parametrize("at_once", [None, 1, 3])
def test_the_sum_is_that_of_the_classifiers_private_gradients(at_once: int | None) -> None:
    problem, chosen = Problem((1, 8, 8), 10), entry("small-convnet")
    net = Network(lambda: chosen.build(problem, chosen.settings()), problem, seed=1)
    rng = generator("records")
    x = torch.randint(256, (7, 1, 8, 8), generator=rng, dtype=torch.uint8)
    y = torch.randint(10, (7,), generator=rng)
    norms = [float(clipped_gradient_sum(net, x[i : i + 1], y[i : i + 1], 1e9).norm()) for i in range(7)]
    clip = sorted(norms)[3]  # half of them are clipped
    expected = clipped_gradient_sum(net, x, y, clip)

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = net.module

        def forward(self, x: Tensor) -> Tensor:
            return self.module.head(self.module.features(problem.scale(x)))  # type: ignore[operator, no-any-return]

    def loss(call: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(call(x[None]), y[None])

    logits = Logits()
    fill(logits, steps(clip=clip), loss, x, y, at_once=at_once)
    torch.testing.assert_close(gradient(logits), expected, rtol=1e-4, atol=1e-5)


def test_one_record_more_moves_the_sum_by_at_most_the_clip() -> None:
    x, y = pairs(6)
    x[5] *= 1000  # the newcomer pulls hard
    found = []
    for n in (5, 6):
        layer = linear()
        fill(layer, steps(clip=0.7), squared_error, x[:n], y[:n])
        found.append(gradient(layer))
    assert float((found[1] - found[0]).norm()) == pytest.approx(0.7, rel=1e-4)


@pytest.mark.parametrize("odd", [torch.inf, torch.nan, 1e30])
def test_a_record_without_a_finite_gradient_counts_for_nothing(odd: float) -> None:
    # 1e30 overflows its norm: no share of it can be told, so it is left out as well.
    x, y = pairs(4)
    without, beside = linear(), linear()
    fill(without, steps(clip=0.7), squared_error, x, y)
    x, y = torch.cat([x, torch.full((1, 3), odd)]), torch.cat([y, torch.zeros(1, 2)])
    fill(beside, steps(clip=0.7), squared_error, x, y)
    torch.testing.assert_close(gradient(beside), gradient(without))


def test_nobody_is_noise_alone_over_the_expected_number() -> None:
    layer = nn.Linear(100, 100)
    x, y = torch.zeros(0, 100), torch.zeros(0, 100)
    fill(layer, steps(clip=2, noise=3, expected=5), squared_error, x, y)
    # Spread 3·2/5 = 1.2; 10 100 numbers estimate it within about 1.2/√20 200 = 0.0084 a standard error.
    assert float(gradient(layer).std()) == pytest.approx(1.2, abs=0.05)
    assert abs(float(gradient(layer).mean())) < 0.06


def test_noise_comes_from_its_own_stream_and_is_never_repeated() -> None:
    layer, (x, y) = linear(), pairs(3)
    of_steps, again = (PrivateGradients(layer, steps(noise=1)) for _ in range(2))
    first, second = (of_steps(squared_error, x, y) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(again(squared_error, x, y), first)


def test_frozen_parameters_get_no_gradient() -> None:
    layer = linear()
    layer.bias.requires_grad_(False)
    fill(layer, steps(clip=1e9), squared_error, *pairs(2))
    assert layer.bias.grad is None
    assert layer.weight.grad is not None


def test_who_is_sampled_moves_no_stream_but_that_of_sampling() -> None:
    private = steps()
    before = [rng.get_state() for rng in (private.sampling, private.noises, private.coins)]
    private.rows(10)
    after = [rng.get_state() for rng in (private.sampling, private.noises, private.coins)]
    assert [torch.equal(a, b) for a, b in zip(before, after, strict=True)] == [False, True, True]


def test_who_is_in_a_step_may_be_nobody() -> None:
    private = steps(rate=0.3)
    sizes = [len(private.rows(10)) for _ in range(200)]
    assert min(sizes) == 0  # 0.7¹⁰ is 3 %
    assert sum(sizes) / 200 == pytest.approx(3, abs=0.5)
    assert len(private.rows(0)) == 0


def test_batchnorm_is_refused() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with pytest.raises(UserError, match="BatchNorm mixes the records"):
        fill(net, steps(), squared_error, *pairs(2))


def test_dropout_is_refused_where_it_would_draw() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    net.training = False  # its child still draws
    with pytest.raises(UserError, match="dropout: 0"):
        fill(net, steps(), squared_error, *pairs(2))
    fill(net.eval(), steps(), squared_error, *pairs(2))
    assert torch.isfinite(gradient(net)).all()
