"""FedSAM by hand, beside a slow version; and what its second pass must leave alone."""

import numpy as np
import pytest
import torch
from numpy_terms import average, by_differences, cross_entropy, layered_net
from softmax_by_numpy import Vector
from stage import batchnorm_net, cloud, coin, image_net, pictures, play, records, sigmoid

from understudy.learning.local import Local
from understudy.learning.loop import Step, plain
from understudy.methods.fedavg import fedavg
from understudy.methods.fedsam import FedSamSettings, fedsam, sharp
from understudy.methods.shared.averaging import AveragingSettings


def settings(rho: float, local: Local, **more: object) -> FedSamSettings:
    return FedSamSettings.model_validate({"rho": rho, "local": local, **more})


def test_two_steps_by_hand() -> None:
    # One record x=1 of class 0: the slope is σ(w) − 1 < 0 everywhere, so ε = −ρ. At w = 0 the step goes along
    # σ(−0.3) − 1, and from there along σ(w − 0.3) − 1.
    first = 0 - 0.1 * (sigmoid(-0.3) - 1)
    second = first - 0.1 * (sigmoid(first - 0.3) - 1)
    after = play(fedsam(settings(0.3, Local(epochs=2, batch=10, lr=0.1))), coin(), {"a": records([1], [0])}, 1)
    assert after["model"].item() == pytest.approx(second)


def test_three_rounds_equal_a_slow_version_in_numpy() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "b"]]
    local, net = Local(epochs=2, batch=4, lr=0.2, weight_decay=0.01), layered_net()

    def step(_name: str, _w: Vector, y: Vector, x: Vector, targets: Vector) -> Vector:
        g = by_differences(lambda v: cross_entropy(v, x, targets), y)
        worst = y + 0.5 * g / np.linalg.norm(g)
        return y - local.lr * (by_differences(lambda v: cross_entropy(v, x, targets), worst) + 0.01 * y)

    slow = average(sites, net.initial().double().numpy(), cohorts, local, step)
    fast = play(fedsam(settings(0.5, local)), net, sites, 3, cohorts)
    np.testing.assert_allclose(fast["model"].numpy(), slow, atol=1e-5)


def test_without_a_radius_it_is_fedavg_to_the_last_bit() -> None:
    # Both passes are made: weights come back exactly, running statistics move once.
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    local = Local(epochs=2, batch=4, lr=0.2, momentum=0.9, weight_decay=0.01, clip=1.0)
    still = play(fedsam(settings(0.0, local)), batchnorm_net(), sites, 3)
    assert torch.equal(still["model"], play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 3)["model"])


def test_without_a_radius_dropout_and_augmentation_are_fedavgs_to_the_last_bit() -> None:
    sites = {"a": pictures([0, 1, 2, 0, 1]), "b": pictures([1, 2] * 4, name="others")}
    local = Local(epochs=2, batch=4, lr=0.2, augment=("flip", "crop"))
    still = play(fedsam(settings(0.0, local)), image_net(dropout=0.5), sites, 2)
    even = play(fedavg(AveragingSettings(local=local)), image_net(dropout=0.5), sites, 2)
    assert torch.equal(still["model"], even["model"])


def test_running_statistics_follow_the_pass_at_the_model_once_a_step() -> None:
    # One step from the same model: its statistics are FedAvg's, though the weights go elsewhere.
    sites, local, net = {"a": cloud("a", 7)}, Local(epochs=1, batch=10, lr=0.2), batchnorm_net()
    climbed = play(fedsam(settings(0.5, local)), net, sites, 1)["model"]
    even = play(fedavg(AveragingSettings(local=local)), net, sites, 1)["model"]
    assert torch.equal(climbed[net.buffers], even[net.buffers])
    assert not torch.allclose(climbed[net.trainable], even[net.trainable])


def test_where_there_is_no_slope_the_model_stays() -> None:
    # Two records that pull at w = 0 with −0.5 and +0.5.
    after = play(fedsam(settings(0.5, Local(epochs=1, batch=10))), coin(), {"a": records([1, 1], [0, 1])}, 1)
    assert after["model"].tolist() == [0.0]


def test_it_has_twice_the_effort() -> None:
    local = Local(epochs=2, batch=5)
    assert fedsam(settings(0.5, local)).effort(10, 10) == 2 * fedavg(AveragingSettings(local=local)).effort(10, 10)


def test_the_slope_leaves_the_model_where_it_was() -> None:
    net, own = layered_net(), cloud("a", 6)
    before = net.vector.clone()
    forward = Step(net, own.x, own.y, 0, None, torch.arange(6))
    sharp(0.5)(net, forward, ())
    at_the_edge = net.grad.clone()
    assert torch.equal(net.vector, before)
    plain(net, forward, ())
    assert not torch.allclose(net.grad, at_the_edge)
