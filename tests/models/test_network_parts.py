"""The parts of a network: heads read alone, outputs beyond the classes, parts that stand still, other seeds."""

import torch
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator

PROBLEM = Problem(shape=(4,), classes=3)
X = torch.randn(6, 4, generator=generator("x"))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def network(outputs: int = 3) -> Network:
    def build() -> nn.Module:
        body = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh())
        return Classifier(body, nn.Linear(5, outputs))

    return Network(build, PROBLEM)


def test_a_network_predicts_with_its_classes_and_trains_with_all_its_outputs() -> None:
    net = network(outputs=6)
    with net.scoring():
        everything = net(X)[1]
    assert everything.shape == (6, 6)
    assert torch.equal(net.logits(X), everything[:, :3])


def test_pixels_are_scaled_by_their_channels_mean_and_deviation() -> None:
    # Of a channel with mean 0.5 and deviation 0.25, 255 is (1 − 0.5)/0.25 = 2 and 0 is −2; with 0.2 and 0.4: 2 and −½.
    problem = Problem(shape=(2, 1, 1), classes=2, mean=(0.5, 0.2), std=(0.25, 0.4))
    net = Network(lambda: Classifier(nn.Flatten(), nn.Linear(2, 2)), problem)
    pixels = torch.tensor([[255, 255], [0, 0]], dtype=torch.uint8).view(2, 2, 1, 1)
    wanted = torch.tensor([[2.0, 2.0], [-2.0, -0.5]])
    assert torch.allclose(net(pixels)[0], wanted, atol=1e-6)
    assert torch.allclose(problem.scale(pixels).flatten(1), wanted, atol=1e-6)
    assert torch.equal(problem.unscale(wanted.view(2, 2, 1, 1)), pixels)
    assert torch.equal(net(wanted.view(2, 2, 1, 1))[0], wanted), "floats are taken as they are"


def test_a_head_can_be_read_alone_and_another_one_in_its_place() -> None:
    net = network()
    with net.scoring():
        features, logits = net(X)
        assert torch.equal(net.read(features), logits)
        other = net.initial() + 0.1
        features, logits = net.at(other, X)
        assert torch.equal(net.read(features, other[net.head]), logits)


def test_matrices_are_told_from_biases_and_the_factors_of_norms() -> None:
    # Linear 4 → 5: 20 + 5; the norm 5 + 5; the head 5 → 3: 15 + 3.
    assert network().matrices.tolist() == [1.0] * 20 + [0.0] * 15 + [1.0] * 15 + [0.0] * 3


def test_decay_on_weights_leaves_biases_alone() -> None:
    # One step with decay and one without differ by rate · decay · w, where w is a matrix.
    net, w = network(), network().initial()
    plan = torch.arange(6).view(1, 6)
    plain = train(net, w, Feed(Examples(X, Y), plan), Descent(Local(steps=1), 0.1)).model
    local = Local(steps=1, weight_decay=0.5, decay_on="weights")
    decayed = train(net, w, Feed(Examples(X, Y), plan), Descent(local, 0.1)).model
    expected = 0.1 * 0.5 * w[net.trainable] * net.matrices
    assert torch.allclose((plain - decayed)[net.trainable], expected, atol=1e-7)


def test_momentum_can_go_on_from_one_training_to_the_next() -> None:
    net, w, both = network(), network().initial(), Examples(X, Y)
    local = Local(steps=4, batch=3, lr=0.1, momentum=0.9)
    plan = torch.arange(6).view(2, 3).repeat(2, 1)
    straight = train(net, w, Feed(both, plan), Descent(local, 0.1)).model
    going_on = Descent(local, 0.1, speed=torch.zeros(net.parameters))
    half = train(net, w, Feed(both, plan[:2]), going_on).model
    assert torch.equal(train(net, half, Feed(both, plan[2:]), going_on).model, straight)


def test_a_part_that_stands_still_gets_no_gradient() -> None:
    net = network()

    def gradient() -> Tensor:
        net.grad.zero_()
        nn.functional.cross_entropy(net(X)[1], Y).backward()  # type: ignore[no-untyped-call]
        return net.grad.clone()

    whole = gradient()
    with net.moving(net.head):
        of_head = gradient()
    assert torch.equal(of_head[net.head], whole[net.head])
    assert not of_head[net.body].any()
    assert torch.equal(gradient(), whole)


def test_another_seed_gives_other_weights_and_the_same_seed_the_same() -> None:
    net = network()
    assert torch.equal(net.redrawn(7), net.redrawn(7))
    assert not torch.equal(net.redrawn(7)[net.trainable], net.initial()[net.trainable])
