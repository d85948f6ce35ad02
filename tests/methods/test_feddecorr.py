"""FedDecorr by hand, beside a slow version, and at its edges."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_terms import average, by_differences, cross_entropy, features, layered_net
from softmax_by_numpy import Vector
from stage import Body, Stage, batchnorm_net, bound, cloud, coin, play, records, settings_of
from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.feddecorr import Decorrelation, feddecorr, repetition
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.network import Network
from understudy.randomness import generator


def chosen(beta: float, local: Local) -> Any:
    return settings_of("feddecorr", beta=beta, local=local)


class _Lean(nn.Module):
    """(x₁, x₂) ↦ (x₁, x₂ + w·x₁), from w = 1."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x[:, 0], x[:, 1] + self.w * x[:, 0]], 1)


class _Undecided(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 0


def test_one_step_by_hand() -> None:
    # x₁ = (−1, 0, 1) and x₂ = (1, −2, 1) have mean 0 and x₁·x₂ = 0. The second feature x₂ + w·x₁ has the variance
    # (6 + 2w²)/2 = 3 + w², the first has 1, so K₁₂ = 2w/√(3 + w²) and the term is K₁₂²/3 = (4/3)·w²/(3 + w²).
    # Its slope 8w/(3 + w²)² is 0.5 at w = 1; the head says ½ to everything, so the data have none.
    net = Network(lambda: Body(_Lean(), _Undecided()), Problem(shape=(2,), classes=2))
    sites = {"a": records([[-1, 1], [0, -2], [1, 1]], [0, 1, 0])}
    after = play(feddecorr(chosen(0.4, Local(epochs=1, batch=3, lr=0.1))), net, sites, 1)
    assert after["model"].item() == pytest.approx(1 - 0.1 * 0.4 * 0.5)
    x = net.at(torch.tensor([1.0]), sites["a"].x)[0]
    assert repetition(x).item() == pytest.approx(1 / 3)  # (4/3)·1/4


def slow_repetition(found: Vector) -> float:
    """Entry by entry, as the formula is printed."""
    n, d = found.shape
    x = (found - found.mean(0)) / np.sqrt(found.var(0, ddof=1) + 1e-8)
    k = x.T @ x
    return float(np.mean([k[i, j] ** 2 for i in range(d) for j in range(d) if i != j]) / n)


def test_three_rounds_equal_a_slow_version_in_numpy() -> None:
    # Batches of 6 have more records than features, c's of 3 have fewer, and the last ones of 1 are left out.
    sites = {"a": cloud("a", 7), "b": cloud("b", 13), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "b"]]
    local, net = Local(epochs=2, batch=6, lr=0.1), layered_net()

    def step(_name: str, _w: Vector, y: Vector, x: Vector, targets: Vector) -> Vector:
        def loss(v: Vector) -> float:
            return cross_entropy(v, x, targets) + (0.7 * slow_repetition(features(v, x)) if len(x) > 1 else 0)

        return y - local.lr * by_differences(loss, y)

    slow = average(sites, net.initial().double().numpy(), cohorts, local, step)
    fast = play(feddecorr(chosen(0.7, local)), net, sites, 3, cohorts)
    np.testing.assert_allclose(fast["model"].numpy(), slow, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(2, 12), d=st.integers(2, 12), seed=st.integers(0, 99))
def test_the_short_way_equals_the_long_one_for_any_shape(n: int, d: int, seed: int) -> None:
    found = torch.randn(n, d, generator=generator("features", seed))
    assert repetition(found).item() == pytest.approx(slow_repetition(found.double().numpy()), rel=1e-3, abs=1e-5)


def test_a_dimension_that_never_moves_costs_nothing_and_has_a_finite_slope() -> None:
    found = torch.randn(5, 4, generator=generator("features"))
    found[:, 2] = 0.25
    found.requires_grad_()
    repetition(found).backward()  # type: ignore[no-untyped-call]
    assert found.grad is not None
    assert bool(torch.isfinite(found.grad).all())
    assert repetition(found).item() == pytest.approx(slow_repetition(found.detach().double().numpy()), rel=1e-4)


def test_without_weight_it_is_fedavg_to_the_last_bit() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    local = Local(epochs=2, batch=4, lr=0.2, momentum=0.9)
    without = play(feddecorr(chosen(0.0, local)), batchnorm_net(), sites, 3)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 3)
    assert torch.equal(without["model"], plain["model"])


@pytest.mark.parametrize("why", ["batches of one", "one feature"])
def test_where_nothing_can_repeat_it_is_fedavg_to_the_last_bit(why: str) -> None:
    net, own = (layered_net(), cloud("a", 7)) if why == "batches of one" else (coin(), cloud("a", 7, features=1))
    own = type(own)(own.x, own.y.clamp(max=1))
    local = Local(epochs=2, batch=1 if why == "batches of one" else 4, lr=0.2)
    alone = play(feddecorr(chosen(0.5, local)), net, {"a": own}, 1)
    assert torch.equal(alone["model"], play(fedavg(AveragingSettings(local=local)), net, {"a": own}, 1)["model"])


def test_it_is_one_number_a_batch_and_sends_the_model_only() -> None:
    assert not Decorrelation.per_record
    stage = Stage(bound(feddecorr(chosen(0.1, Local(epochs=1, batch=4))), layered_net()), {"a": cloud("a", 5)})
    stage.play(1)
    assert {part: t.numel() for part, t in stage.replies[0][2].items()} == {"change": 31, "weight": 1}
    assert set(stage.briefs[0][2]) == {"model"}
