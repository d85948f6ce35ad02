"""Inversion: the divergence by hand, and what the images do under both terms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from understudy.data.problem import Problem
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.inversion import invert, jensen_shannon


def logits_of(*p: float) -> torch.Tensor:
    return torch.tensor([p]).log()


def test_the_divergence_of_two_opposite_leanings_by_hand() -> None:
    # p = (¾, ¼), q = (¼, ¾), m = (½, ½): both halves are ¾·ln(3/2) + ¼·ln(1/2) = 0.1308.
    found = jensen_shannon(logits_of(0.75, 0.25), logits_of(0.25, 0.75))
    assert found.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))


def test_the_divergence_of_a_leaning_and_none_by_hand() -> None:
    # p = (¾, ¼), q = (½, ½), m = (5/8, 3/8).
    to_p = 0.75 * math.log(0.75 / 0.625) + 0.25 * math.log(0.25 / 0.375)
    to_q = 0.5 * math.log(0.5 / 0.625) + 0.5 * math.log(0.5 / 0.375)
    assert jensen_shannon(logits_of(0.75, 0.25), logits_of(0.5, 0.5)).item() == pytest.approx((to_p + to_q) / 2)


def test_the_released_form_has_the_arguments_the_other_way_round() -> None:
    # The same two: ½·KL(m‖p) + ½·KL(m‖q).
    to_p = 0.625 * math.log(0.625 / 0.75) + 0.375 * math.log(0.375 / 0.25)
    to_q = 0.625 * math.log(0.625 / 0.5) + 0.375 * math.log(0.375 / 0.5)
    found = jensen_shannon(logits_of(0.75, 0.25), logits_of(0.5, 0.5), "release")
    assert found.item() == pytest.approx((to_p + to_q) / 2, rel=1e-5)


def test_certain_networks_that_contradict_each_other_are_ln_2_apart() -> None:
    far = torch.tensor([[200.0, -200.0]])
    assert jensen_shannon(far, -far).item() == pytest.approx(math.log(2))
    assert jensen_shannon(far, far).item() == 0


logits = st.lists(st.floats(-50, 50, width=32), min_size=4, max_size=4)


@settings(max_examples=50, deadline=None)
@given(logits, logits)
def test_the_divergence_lies_between_zero_and_ln_2_and_is_symmetric(a: list[float], b: list[float]) -> None:
    p, q = torch.tensor([a]), torch.tensor([b])
    found = jensen_shannon(p, q).item()
    assert -1e-6 <= found <= math.log(2) + 1e-6
    assert found == pytest.approx(jensen_shannon(q, p).item(), abs=1e-6)


def small_net(channels: int = 1, seed: int = 0) -> Network:
    size = channels * 9

    def build() -> nn.Module:
        body = nn.Sequential(nn.Flatten(), nn.Linear(size, 8), nn.Tanh(), nn.Dropout(0.5))
        return Classifier(body, nn.Linear(8, 3))

    return Network(build, Problem(shape=(channels, 3, 3), classes=3), seed=seed)


LABELS = torch.tensor([0, 0, 1, 2])


def inverted(
    net: Network, previous: Network | None = None, *, steps: int = 40, disagreement: float = 0.1
) -> torch.Tensor:
    return invert(net, LABELS, generator("x"), previous=previous, steps=steps, lr=0.1, disagreement=disagreement)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_have_the_channels_of_the_problem_and_start_as_noise(channels: int) -> None:
    x = inverted(small_net(channels), steps=0)
    assert x.shape == (4, channels, 3, 3)
    assert torch.equal(x, torch.randn(4, channels, 3, 3, generator=generator("x")))


def test_the_first_step_of_adam_by_hand() -> None:
    # After one step both moments are corrected to g and g²: x₁ = x₀ − η·g/(|g| + 1e-8), a step of η along each sign.
    net = small_net()
    x = inverted(net, steps=0).requires_grad_()
    with net.frozen():
        loss = nn.functional.cross_entropy(net(x)[1], LABELS)
        (g,) = torch.autograd.grad(loss, x)
    expected = x.detach() - 0.1 * g / (g.abs() + 1e-8)
    assert torch.allclose(inverted(net, steps=1), expected, atol=1e-4)


def test_the_network_takes_the_images_for_the_classes_that_were_asked() -> None:
    net = small_net()
    before, after = (nn.functional.cross_entropy(net.logits(inverted(net, steps=s)), LABELS) for s in (0, 40))
    assert after < 0.5 * before


def test_networks_disagree_more_where_disagreement_counts() -> None:
    net, other = small_net(), small_net(seed=1)
    apart = [
        jensen_shannon(net.logits(x), other.logits(x)).mean()
        for x in (inverted(net, other, disagreement=0.0), inverted(net, other, disagreement=10.0))
    ]
    assert apart[1] > 1.5 * apart[0]


def test_without_a_previous_network_disagreement_has_no_effect() -> None:
    net = small_net()
    assert torch.equal(inverted(net, disagreement=0.0), inverted(net, disagreement=10.0))


def test_both_networks_are_left_as_they_were() -> None:
    net, other = small_net(), small_net(seed=1)
    net.module.train()
    inverted(net, other)
    for one, fresh in ((net, small_net()), (other, small_net(seed=1))):
        assert torch.equal(one.vector, fresh.initial())
        assert not one.grad.any()
        assert one.module.training
        assert all(p.requires_grad for p in one.module.parameters())
