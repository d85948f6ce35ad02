"""Frozen weights are constants of a network: only the rest moves and travels, and the saved model is whole."""

import copy
from typing import Any

import pytest
import torch
from own_networks import ResNetStyle, Tutorial
from torch import Tensor, nn
from torch.nn import functional as F

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.models.fitness import fitted
from understudy.models.frozen import freeze
from understudy.models.network import Network
from understudy.privacy.gradients import clipped_gradient_sum
from understudy.randomness import generator

PROBLEM = Problem(shape=(1, 8, 8), classes=3)
X = torch.randn(6, 1, 8, 8, generator=generator("x"))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def frozen(module: nn.Module, *patterns: str, **more: Any) -> Network:
    def build() -> nn.Module:
        network = fitted(copy.deepcopy(module), PROBLEM)
        freeze(network, patterns)
        return network

    return Network(build, PROBLEM, **more)


def test_only_what_is_trained_is_in_the_vector() -> None:
    # Tutorial: conv1 4·9 + 4, fc1 36·12 + 12, fc2 12·8 + 8, fc3 8·3 + 3.
    assert frozen(Tutorial()).size == 40 + 444 + 104 + 27
    assert frozen(Tutorial(), "conv1", "fc1").size == 104 + 27
    assert frozen(Tutorial(), "*.weight").size == 4 + 12 + 8 + 3
    assert frozen(Tutorial(), "fc?.bias", "conv*").size == 432 + 96 + 24
    net = frozen(Tutorial(), "conv1", "fc1")
    assert (net.parameters, net.body.stop, net.head.start) == (131, 104, 104)


def test_a_module_that_came_with_frozen_weights_keeps_them() -> None:
    module = Tutorial()
    module.fc1.requires_grad_(False)
    assert frozen(module).size == 40 + 104 + 27


def test_training_leaves_frozen_weights_alone_and_the_saved_model_is_whole() -> None:
    module = Tutorial()
    net = frozen(module, "conv1", "fc1")
    trained = train(net, net.initial(), Feed(Examples(X, Y), torch.arange(6)[None]), Descent(Local(lr=0.5)))
    saved, before = net.named(trained.model), module.state_dict()
    assert set(saved) == set(before)
    same = {name for name, value in saved.items() if torch.equal(value, before[name])}
    assert same == {"conv1.weight", "conv1.bias", "fc1.weight", "fc1.bias"}
    assert torch.equal(net.vector_of(saved), trained.model)


def test_a_step_is_the_one_that_torch_takes_over_the_trainable_part() -> None:
    module = Tutorial()
    net = frozen(module, "conv1", "fc1")
    moved = train(net, net.initial(), Feed(Examples(X, Y), torch.arange(6)[None]), Descent(Local(lr=0.5))).model
    F.cross_entropy(module(X), Y).backward()  # type: ignore[no-untyped-call]
    parts = [p.detach() - 0.5 * p.grad for p in (*module.fc2.parameters(), *module.fc3.parameters())]  # type: ignore[operator]
    assert torch.allclose(moved, torch.cat([part.flatten() for part in parts]), atol=1e-6)


def test_features_and_logits_are_those_of_the_whole_network() -> None:
    module = Tutorial()
    net = frozen(module, "conv1", "fc1")
    other = net.initial() + 0.1
    module.load_state_dict(net.named(other))
    with torch.no_grad():
        assert torch.allclose(net.at(other, X)[1], module(X), atol=1e-6)
        features = net.twin(other)(X)[0]
        assert torch.allclose(module.fc3(features), module(X), atol=1e-6)
        assert torch.allclose(net.read(features, other[net.head]), module(X), atol=1e-6)


def test_a_frozen_batch_norm_keeps_its_statistics_and_treats_each_record_alone() -> None:
    body = ("conv1", "bn1", "layer1")
    net, whole = frozen(ResNetStyle(), *body), frozen(ResNetStyle())
    assert whole.needs_company
    assert not net.needs_company
    assert (net.size, net.size - net.parameters) == (51, 0)
    net.module.train()
    together, alone = net(X)[1], torch.cat([net(x[None])[1] for x in X])
    assert torch.allclose(together, alone, atol=1e-6)
    saved = net.named(net.initial())
    assert torch.equal(saved["bn1.running_mean"], torch.zeros(4))
    total = clipped_gradient_sum(net, X, Y, clip=0.1)
    assert total.shape == (51,)
    assert total.norm() <= 0.6 + 1e-6
    half = frozen(ResNetStyle(), "bn1.weight")
    assert half.needs_company  # its bias still moves: it goes on as usual


class Adapted(nn.Module):
    """A Linear layer that stays, and a change of low rank that is learnt."""

    def __init__(self, inner: nn.Linear, rank: int):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x) + self.up(self.down(x))
        return found


def test_adapters_travel_and_what_they_adapt_does_not() -> None:
    module = Tutorial()
    module.fc1 = Adapted(module.fc1, 2)  # type: ignore[assignment]
    net = frozen(module, "conv1", "fc2")
    assert net.size == 2 * 36 + 12 * 2 + 27
    found = clipped_gradient_sum(net, X, Y, clip=1e9)
    net.module.zero_grad()
    F.cross_entropy(net.at(net.vector, X)[1], Y, reduction="sum").backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(found, torch.cat([p.grad.flatten() for p in net.trained.values()]), atol=1e-5)  # type: ignore[union-attr]


def test_networks_of_one_config_have_the_same_constants_and_others_another_digest() -> None:
    def net(seed: int, *patterns: str) -> Network:
        def build() -> nn.Module:
            network = fitted(Tutorial(), PROBLEM)
            freeze(network, patterns)
            return network

        return Network(build, PROBLEM, seed=seed)

    assert net(0).frozen_digest is None
    assert net(0, "conv1").frozen_digest == net(0, "conv1").frozen_digest
    assert len({net(0, "conv1").frozen_digest, net(1, "conv1").frozen_digest, net(0, "fc1").frozen_digest}) == 3
    one = net(0, "conv1")
    assert torch.equal(one.twin(one.initial())(X)[1], one(X)[1])


def test_patterns_that_fit_nothing_or_everything_are_refused() -> None:
    with pytest.raises(
        UserError, match="no parameter's name fits 'body'; the network's parts are conv1, fc1, fc2, fc3"
    ):
        frozen(Tutorial(), "body")
    with pytest.raises(UserError, match="leaves nothing to train"):
        frozen(Tutorial(), "*")
