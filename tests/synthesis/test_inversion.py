"""Inversion: what the images do under both terms, and what they leave alone."""

import pytest
import torch
from torch import nn

from understudy.data.problem import Problem
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.divergence import jensen_shannon, log_chances
from understudy.synthesis.inversion import Inversion, invert


def small_net(channels: int = 1, seed: int = 0, *, outputs: int = 3, multilabel: bool = False) -> Network:
    size = channels * 9

    def build() -> nn.Module:
        body = nn.Sequential(nn.Flatten(), nn.Linear(size, 8), nn.Tanh(), nn.Dropout(0.5))
        return Classifier(body, nn.Linear(8, outputs))

    return Network(build, Problem(shape=(channels, 3, 3), classes=3, multilabel=multilabel), seed=seed)


LABELS = torch.tensor([0, 0, 1, 2])


def inverted(
    net: Network, previous: Network | None = None, *, steps: int = 40, disagreement: float = 0.1
) -> torch.Tensor:
    return invert(net, LABELS, generator("x"), previous, Inversion(steps, lr=0.1, disagreement=disagreement))


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
    problem = net.problem
    apart = [
        jensen_shannon(log_chances(problem, net.logits(x)), log_chances(problem, other.logits(x))).mean()
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


def test_a_network_with_several_labels_gives_the_answers_that_were_asked_for() -> None:
    net, wanted = small_net(multilabel=True), torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 0, 0]])
    x = invert(net, wanted, generator("x"), None, Inversion(steps=150, lr=0.1, disagreement=0.0))
    assert torch.equal(net.logits(x) > 0, wanted > 0)


def test_outputs_beyond_the_classes_are_not_looked_at() -> None:
    # Two networks with six outputs, of which the last three differ by far: the images are the same.
    one, other = small_net(outputs=6), small_net(outputs=6)
    bias = other.windows["head.bias"][0]
    other.vector[bias.start + 3 : bias.stop] += 5
    assert torch.equal(inverted(one, small_net(seed=1, outputs=6)), inverted(other, small_net(seed=1, outputs=6)))
    assert torch.equal(inverted(small_net(), one, disagreement=9.0), inverted(small_net(), other, disagreement=9.0))
