"""Layer by layer or through torch's graph: the same gradient and the same pullback."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from understudy.data.problem import Problem
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.randomness import generator
from understudy.synthesis import pullback
from understudy.synthesis.pullback import chain_of, layer_by_layer, through_the_graph, weight_gradient

IMAGES = Problem(shape=(2, 9, 7), classes=4)


def published(name: str, problem: Problem, **settings: object) -> Callable[[], nn.Module]:
    chosen = entry(name)
    return lambda: chosen.build(problem, chosen.settings(**settings))


def double(build: Callable[[], nn.Module], problem: Problem) -> Network:
    net = Network(build, problem, seed=5)
    net.module.double()
    net.grad = net.grad.double()
    return net


def strange() -> nn.Module:
    """Strides, overlapping windows, nested chains, and a norm in front of everything: 4×5×4 numbers are left."""
    first = nn.Sequential(nn.GroupNorm(2, 2), nn.Conv2d(2, 4, 3, stride=2, padding=(2, 1)), nn.ReLU())
    second = nn.Sequential(nn.Conv2d(4, 4, 2, dilation=2, groups=2), nn.AvgPool2d(2, stride=1, padding=1))
    return Classifier(nn.Sequential(first, second, nn.Flatten(), nn.Linear(4 * 5 * 3, 6), nn.ReLU()), nn.Linear(6, 4))


CHAINS = {
    "convnet": (published("convnet", IMAGES, width=3, depth=2), IMAGES),
    "mlp": (published("mlp", IMAGES), IMAGES),
    "softmax on features": (published("softmax", Problem((5,), 3)), Problem((5,), 3)),
    "several labels": (published("convnet", IMAGES, width=3, depth=1), Problem((2, 9, 7), 4, multilabel=True)),
    "strange": (strange, IMAGES),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_layer_by_layer_is_what_the_graph_gives(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    build, problem = CHAINS[name]
    net = double(build, problem)
    x = torch.randn(5, *problem.shape, generator=generator("x"), dtype=torch.float64)
    y = torch.arange(5) % problem.classes
    if problem.multilabel:
        y = torch.randint(2, (5, problem.classes), generator=generator("y"))
    monkeypatch.setattr(pullback, "NUMBERS_AT_ONCE", at_once * x[0].numel())
    chain = chain_of(net)
    assert chain is not None
    (ours, pull), (theirs, pull_by_graph) = layer_by_layer(net, chain, x, y), through_the_graph(net, x, y)
    assert torch.allclose(ours, theirs, atol=1e-12)
    along = torch.randn(len(ours), generator=generator("v"), dtype=torch.float64)
    assert torch.allclose(pull(along), pull_by_graph(along), atol=1e-12)
    assert not x.requires_grad
    assert not any(p.grad is not None and p.grad.any() for p in net.module.parameters())


OTHERS = {
    "a pool of largest": lambda: Classifier(nn.Sequential(nn.MaxPool2d(2), nn.Flatten()), nn.Linear(24, 4)),
    "groups of channels": lambda: Classifier(nn.Sequential(nn.GroupNorm(1, 2), nn.Flatten()), nn.Linear(126, 4)),
    "no bias": lambda: Classifier(nn.Flatten(), nn.Linear(126, 4, bias=False)),
    "padding with copies": lambda: Classifier(
        nn.Sequential(nn.Conv2d(2, 2, 3, padding=1, padding_mode="replicate"), nn.Flatten()), nn.Linear(126, 4)
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_a_chain_of_known_layers_goes_through_the_graph(name: str) -> None:
    net = double(OTHERS[name], IMAGES)
    assert chain_of(net) is None
    x = torch.randn(3, 2, 9, 7, generator=generator("x"), dtype=torch.float64)
    gradient, pull = weight_gradient(net, x, torch.tensor([0, 1, 3]))
    assert gradient.shape == net.grad.shape
    assert pull(gradient).shape == x.shape


def test_a_frozen_weight_is_left_to_the_graph() -> None:
    def build() -> nn.Module:
        module = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(126, 5), nn.ReLU()), nn.Linear(5, 4))
        module.head.weight.requires_grad_(False)
        return module

    net = double(build, IMAGES)
    assert chain_of(net) is None
    x = torch.randn(3, 2, 9, 7, generator=generator("x"), dtype=torch.float64)
    gradient, _ = weight_gradient(net, x, torch.tensor([0, 1, 3]))
    assert gradient.shape == net.grad.shape
