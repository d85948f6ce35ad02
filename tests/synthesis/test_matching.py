"""Distribution matching: the gradient by hand, the ball, and classes in groups."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.ball import into_ball
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.randomness import generator
from understudy.synthesis.matching import (
    ImageSteps,
    Neighbourhood,
    RealClasses,
    embedding,
    match_distributions,
    matching_gradient,
    point_on_sphere,
    real_batch,
)

W = torch.tensor([[1.0, 2.0], [0.0, 1.0]])


def linear_net() -> Network:
    """Features are the two pixels themselves, logits W times them: v(x) = [x; Wx] and J = [I; W]."""

    def build() -> nn.Module:
        head = nn.Linear(2, 2, bias=False)
        head.weight.data = W.clone()
        return Classifier(nn.Flatten(), head)

    return Network(build, Problem(shape=(2,), classes=2))


def curved_net() -> Network:
    def build() -> nn.Module:
        return Classifier(nn.Sequential(nn.Flatten(), nn.Linear(9, 5), nn.Tanh()), nn.Linear(5, 3))

    return Network(build, Problem(shape=(1, 3, 3), classes=3))


def some(name: str, labels: list[int]) -> Examples:
    x = torch.randint(256, (len(labels), 1, 3, 3), generator=generator(name), dtype=torch.uint8)
    return Examples(x, torch.tensor(labels))


# ---- the gradient


def test_the_gradient_of_a_linear_network_by_hand() -> None:
    # Images (1,0) and (0,1): mean (½, ½), v̄_S = (½, ½, 1½, ½). Real (1,1) and (3,1): mean (2, 1), v̄ = (2, 1, 4, 1).
    # v̄_S − v̄ = (−1½, −½, −2½, −½); Jᵀ of it = (−1½, −½) + Wᵀ(−2½, −½) = (−1½, −½) + (−2½, −5½) = (−4, −6);
    # times 2, a half of it for each of the two images: (−4, −6).
    net = linear_net()
    wanted = embedding(net, torch.tensor([[1.0, 1.0], [3.0, 1.0]])).mean(0, keepdim=True)
    assert wanted.tolist() == [[2, 1, 4, 1]]
    with net.frozen():
        found = matching_gradient(net, torch.eye(2), wanted, ipc=2)
    assert found.tolist() == [[-4, -6], [-4, -6]]


def whole_loss(net: Network, x: Tensor, real: Tensor) -> Tensor:
    """L_c as the paper writes it, features and logits apart."""
    (h, z), (h_real, z_real) = net(x), net(real)
    return (h_real.mean(0) - h.mean(0)).square().sum() + (z_real.mean(0) - z.mean(0)).square().sum()


def test_the_gradient_from_means_is_that_of_the_whole_loss() -> None:
    net, real = curved_net(), some("real", [0] * 7)
    x = torch.randn(3, 1, 3, 3, generator=generator("x")).requires_grad_()
    with net.frozen():
        (whole,) = torch.autograd.grad(whole_loss(net, x, real.x), x)
        wanted = embedding(net, real.x).mean(0, keepdim=True)
        assert torch.allclose(matching_gradient(net, x.detach(), wanted, ipc=3), whole, atol=1e-7)


def test_classes_in_one_pass_do_not_touch_each_other() -> None:
    net = curved_net()
    x = torch.randn(6, 1, 3, 3, generator=generator("x"))
    wanted = torch.randn(3, 8, generator=generator("wanted"))
    with net.frozen():
        together = matching_gradient(net, x, wanted, ipc=2)
        apart = [matching_gradient(net, x[2 * c : 2 * c + 2], wanted[c : c + 1], ipc=2) for c in range(3)]
    assert torch.allclose(together, torch.cat(apart), atol=1e-7)


def matched(classes_at_once: int | None) -> Tensor:
    net, real = curved_net(), some("real", [0, 2, 1, 1, 2, 0, 1, 0, 2, 1])
    start = net.problem.scale(some("start", [0, 0, 1, 1, 2, 2]).x)
    return match_distributions(
        net,
        start,
        RealClasses(real, [0, 1, 2]),
        4,
        Neighbourhood(net.initial(), 0.5, 5, generator("matching")),
        ImageSteps(lr=1.0, momentum=0.5, classes_at_once=classes_at_once),
    )


@pytest.mark.parametrize("group", [2, 3, None])
def test_however_classes_are_grouped_the_images_are_the_same(group: int | None) -> None:
    assert torch.allclose(matched(group), matched(1), atol=1e-6)


def test_two_steps_with_momentum_by_hand() -> None:
    # A radius too small to be seen in float32 leaves the network linear and fixed. With the real mean r and all
    # records in the batch, the slope for each of two images with mean s is Jᵀ(v(s) − v(r)) = (I + WᵀW)(s − r).
    # x₁ = x₀ − η·g₀, x₂ = x₁ − η·(½·g₀ + g₁).
    net, real = linear_net(), Examples(torch.tensor([[1.0, 1.0], [3.0, 1.0]]), torch.tensor([1, 1]))
    start = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    found = match_distributions(
        net,
        start,
        RealClasses(real, [1]),
        2,
        Neighbourhood(net.initial(), 1e-12, 2, generator("hand")),
        ImageSteps(lr=0.01, momentum=0.5),
    )
    a, r = np.eye(2) + W.numpy().T @ W.numpy(), np.array([2.0, 1.0])
    g0 = a @ (start.numpy().mean(0) - r)
    x1 = start.numpy() - 0.01 * g0
    x2 = x1 - 0.01 * (0.5 * g0 + a @ (x1.mean(0) - r))
    np.testing.assert_allclose(found.numpy(), x2, atol=1e-6)
    assert start.tolist() == [[1, 0], [0, 1]]  # not written to


def test_matching_brings_the_means_together() -> None:
    net, real = curved_net(), some("real", [0, 2, 1, 1, 2, 0, 1, 0, 2, 1])
    start = torch.randn(3, 1, 3, 3, generator=generator("noise"))
    after = match_distributions(
        net,
        start,
        RealClasses(real, [0, 1, 2]),
        4,
        Neighbourhood(net.initial(), 0.1, 200, generator("matching")),
        ImageSteps(lr=0.2, momentum=0.5),
    )
    net.load(net.initial())
    with net.scoring():
        for c in range(3):
            far, near = (whole_loss(net, x[c : c + 1], real.x[real.y == c]) for x in (start, after))
            assert near < 0.1 * far


# ---- the ball


def test_for_the_convnet_a_drawn_network_lies_on_the_sphere() -> None:
    problem, chosen = Problem(shape=(3, 32, 32), classes=10), entry("convnet")
    net = Network(lambda: chosen.build(problem, chosen.settings()), problem)
    assert net.parameters == 320_010
    for draw in range(3):
        away = point_on_sphere(net.parameters, 5.0, generator("sphere", draw)).double()
        assert away.norm().item() == pytest.approx(5, abs=1e-4)


def test_every_step_has_a_network_of_its_own_on_the_sphere_with_the_models_statistics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build() -> nn.Module:
        body = nn.Sequential(nn.Flatten(), nn.Linear(9, 5), nn.BatchNorm1d(5), nn.Tanh())
        return Classifier(body, nn.Linear(5, 3))

    net = Network(build, Problem(shape=(1, 3, 3), classes=3))
    w, real, used = net.initial(), some("real", [0, 1, 2, 0, 1, 2]), []
    through, start = net.at, torch.zeros(3, 1, 3, 3)

    def watched(at: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        used.append(at.detach().clone())
        return through(at, x)

    monkeypatch.setattr(net, "at", watched)
    around, steps = Neighbourhood(w, 0.5, 4, generator("near")), ImageSteps(lr=0.1, momentum=0.5)
    match_distributions(net, start, RealClasses(real, [0, 1, 2]), 2, around, steps)
    assert len({tuple(near.tolist()) for near in used}) == 4
    for near in used:
        assert (near - w)[net.trainable].norm().item() == pytest.approx(0.5, abs=1e-5)
        assert torch.equal(near[net.buffers], w[net.buffers])


def test_a_short_draw_is_not_stretched() -> None:
    # One parameter: |u| is below 5 in all but one of a million draws.
    u = torch.randn(1, generator=generator("short"))
    assert torch.equal(point_on_sphere(1, 5.0, generator("short")), u)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3), st.floats(0.125, 10, width=32))
def test_into_the_ball_and_no_further(point: list[float], radius: float) -> None:
    centre, before = torch.tensor([1.0, -2.0, 0.5]), torch.tensor(point)
    w = before.clone()
    into_ball(w, centre, radius)
    if (before - centre).norm() <= radius:
        assert torch.equal(w, before)
    else:
        assert (w - centre).norm().item() == pytest.approx(radius, rel=1e-4)
        away, was = w - centre, before - centre
        assert torch.dot(away, was) / (away.norm() * was.norm()) > 0.999  # straight back


# ---- the real batch


def test_a_large_class_is_drawn_from_without_replacement() -> None:
    members, drawn = torch.tensor([3, 5, 8, 13, 21]), set()
    for draw in range(10):
        batch = real_batch(members, 4, generator(draw)).tolist()
        assert len(set(batch)) == 4
        assert set(batch) <= set(members.tolist())
        drawn |= set(batch)
    assert drawn == set(members.tolist())  # all of them, in turn


def test_a_small_class_is_taken_whole_and_some_of_it_again() -> None:
    members = torch.tensor([3, 5, 8])
    for draw in range(10):
        batch = real_batch(members, 7, generator(draw)).tolist()
        assert batch[:3] == [3, 5, 8]
        assert set(batch[3:]) <= {3, 5, 8}
        assert len(batch) == 7
