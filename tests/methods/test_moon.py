"""MOON by hand, beside a slow version, and where its anchors come from."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy_terms import average, by_differences, cross_entropy, features, layered_net
from softmax_by_numpy import Vector
from stage import (
    SEED,
    Body,
    Stage,
    batchnorm_net,
    bound,
    cloud,
    image_net,
    pictures,
    play,
    records,
    settings_of,
    sigmoid,
)
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.augmentation import changed, draw_changes
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.fedavg import fedavg
from understudy.methods.moon import PREVIOUS, moon
from understudy.methods.shared import precompute
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.mlp import MlpSettings
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.randomness import generator


def settings(local: Local, mu: float = 1.0, projection: int | None = None, **more: object) -> Any:
    return settings_of("moon", local=local, mu=mu, projection=projection, **more)


class _Beside1(nn.Module):
    """x ↦ (w·x, 1), from w = 0."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.w * x, torch.ones_like(x)], 1)


class _FirstAgainstZero(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([z[:, :1], 0 * z[:, :1]], 1)


def tilted_coin() -> Network:
    """Class 0 has probability σ(w·x), and z = (w·x, 1)."""
    return Network(lambda: Body(_Beside1(), _FirstAgainstZero()), Problem(shape=(1,), classes=2))


def cosine(w: float, v: float) -> float:
    return (w * v + 1) / (math.hypot(w, 1) * math.hypot(v, 1))


def cosine_slope(w: float, v: float) -> float:
    """∂ cos((w, 1), (v, 1)) / ∂w = (v − w) / ((w² + 1)^{3/2} (v² + 1)^{1/2})."""
    return (v - w) / (math.hypot(w, 1) ** 3 * math.hypot(v, 1))


def test_two_rounds_by_hand() -> None:
    # One record each: a has x=1 of class 0, b has x=1 of class 1. Round 1 has no contrast: a steps from 0 by
    # −0.1·(½ − 1) to 0.05 and b by −0.1·½ to −0.05; their mean is 0. In round 2 each is pushed away from where it
    # was: the slope of μ·log(1 + e^s), s = (cos to previous − cos to global)/τ, is μ·σ(s)·s'.
    mu, tau, ends = 2.0, 0.5, []
    for previous, target in ((0.05, 1.0), (-0.05, 0.0)):
        w = 0.0
        for _ in range(2):
            s = (cosine(w, previous) - cosine(w, 0)) / tau
            contrast = mu * sigmoid(s) * (cosine_slope(w, previous) - cosine_slope(w, 0)) / tau
            w -= 0.1 * (sigmoid(w) - target + contrast)
        ends.append(w)
    sites = {"a": records([1], [0]), "b": records([1], [1])}
    stage = Stage(bound(moon(settings(Local(epochs=1, batch=1, lr=0.1), mu)), tilted_coin()), sites)
    state = stage.play(1)
    assert state["model"].tolist() == pytest.approx([0.0], abs=1e-7)
    assert stage.memories["a"][PREVIOUS].tolist() == pytest.approx([0.05])
    again = Stage(bound(moon(settings(Local(epochs=2, batch=1, lr=0.1), mu)), tilted_coin()), sites)
    again.memories = stage.memories
    again.begin(2)
    again.method.round(again, state)
    assert [again.memories[name][PREVIOUS].item() for name in sites] == pytest.approx(ends)


def slow_moon(sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], chosen: Any) -> Vector:
    previous: dict[str, Vector] = {}
    local: Local = chosen.local

    def cosines(z: Vector, v: Vector) -> Vector:
        lengths = np.linalg.norm(z, axis=1) * np.linalg.norm(v, axis=1)
        found: Vector = (z * v).sum(1) / lengths
        return found

    def step(name: str, w: Vector, y: Vector, x: Vector, targets: Vector) -> Vector:
        def loss(v: Vector) -> float:
            plain = cross_entropy(v, x, targets)
            if name not in previous:
                return plain
            near = np.exp(cosines(features(v, x), features(w, x)) / chosen.temperature)
            away = np.exp(cosines(features(v, x), features(previous[name], x)) / chosen.temperature)
            return plain + float(chosen.mu * -np.log(near / (near + away)).mean())

        return y - local.lr * by_differences(loss, y)

    return average(sites, w, cohorts, local, step, after=previous.__setitem__)


@pytest.mark.parametrize("kept", ["found once", "found batch by batch"])
def test_three_rounds_equal_a_slow_version_in_numpy(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kept == "found batch by batch":
        monkeypatch.setattr(precompute, "MOST", 0)
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "b"]]
    chosen, net = settings(Local(epochs=2, batch=4, lr=0.2), mu=1.5), layered_net()
    slow = slow_moon(sites, net.initial().double().numpy(), cohorts, chosen)
    fast = play(moon(chosen), net, sites, 3, cohorts)
    np.testing.assert_allclose(fast["model"].numpy(), slow, atol=1e-5)


@pytest.mark.parametrize(("mu", "rounds"), [(0.0, 3), (1.0, 1)], ids=["without weight", "in the first round"])
def test_it_is_fedavg_to_the_last_bit(mu: float, rounds: int) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    local = Local(epochs=2, batch=4, lr=0.2, momentum=0.9, weight_decay=0.01)
    contrasted = play(moon(settings(local, mu)), batchnorm_net(), sites, rounds)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, rounds)
    assert torch.equal(contrasted["model"], plain["model"])


def test_anchors_are_those_of_networks_at_rest() -> None:
    # With dropout and BatchNorm the anchors are the same whether found once or batch by batch, up to rounding;
    # in training mode they would hang on the batch and on the draw.
    def build() -> nn.Module:
        body = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5))
        return Body(body, nn.Linear(6, 3))

    sites, models = {"a": cloud("a", 7), "b": cloud("b", 12)}, []
    for most in (2**26, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(precompute, "MOST", most)
            net = Network(build, Problem(shape=(3,), classes=3))
            models.append(play(moon(settings(Local(epochs=2, batch=4, lr=0.1))), net, sites, 3)["model"])
    assert torch.allclose(models[0], models[1], atol=1e-5)


def test_the_contrast_leaves_running_statistics_to_the_records() -> None:
    # One step a round: the statistics of round 2 come from the forward pass at the broadcast model alone.
    sites, net = {"a": cloud("a", 7), "b": cloud("b", 12)}, batchnorm_net()
    local = Local(epochs=1, batch=20, lr=0.2)
    stage = Stage(bound(moon(settings(local, 5.0)), net), sites)
    state = stage.play(1)
    stage.begin(2)
    contrasted = stage.method.round(stage, state)["model"]
    plain = Stage(bound(fedavg(AveragingSettings(local=local)), net), sites)
    plain.begin(2)
    even = plain.method.round(plain, state)["model"]
    assert torch.equal(contrasted[net.buffers], even[net.buffers])
    assert not torch.allclose(contrasted[net.trainable], even[net.trainable])


def test_augmented_records_are_seen_as_they_are_by_all_three_models() -> None:
    # Only sound if the anchors are found for the augmented batch: then a model that has not moved has cosine 1 to the
    # broadcast one, and the loss of the first step is μ·log(1 + e^{(cos to previous − 1)/τ}).
    sites = {"a": pictures([0, 1, 2, 0, 1, 1])}
    local = Local(epochs=2, batch=4, lr=0.1, augment=("flip", "crop"))
    stage = Stage(bound(moon(settings(local)), image_net()), sites)
    state = stage.play(1)
    client, net = stage.client("a", 2), stage.method.net
    net.load(state["model"])
    (term,) = stage.method.terms  # type: ignore[attr-defined]
    kit = term.begin(client, state, net)
    assert set(kit) == {"global", "previous"}
    changes = draw_changes(4, local.augment, generator(SEED, "views"))
    x = changed(sites["a"].x[:4], local.augment, changes)
    net.module.eval()
    batch = Batch(x, sites["a"].y[:4], 0, None, *net(x))
    z, z_previous = batch.features, net.twin(kit["previous"])(x)[0]
    expected = torch.log1p(torch.exp((torch.cosine_similarity(z, z_previous) - 1) / 0.5))
    assert torch.allclose(term.loss(kit, net, net.vector, batch), expected, atol=1e-6)


def test_features_of_nothing_have_a_finite_slope() -> None:
    # Dead ReLUs: z = 0 has cosine 0 to everything.
    def build() -> nn.Module:
        layer = nn.Linear(3, 4)
        nn.init.constant_(layer.bias, -100.0)
        return Body(nn.Sequential(layer, nn.ReLU()), nn.Linear(4, 3))

    net = Network(build, Problem(shape=(3,), classes=3))
    after = play(moon(settings(Local(epochs=2, batch=4, lr=0.1))), net, {"a": cloud("a", 7)}, 2)
    assert bool(torch.isfinite(after["model"]).all())


# ---- the projection


def test_the_projection_feeds_a_classifier_of_its_own_and_is_part_of_the_model() -> None:
    # MLP of 4 hidden units on 3 inputs: 16. Projection 4 → 4 → 5: 20 + 25. Classifier 5 → 3: 18. The old head is gone.
    problem, chosen = Problem(shape=(3,), classes=3), entry("mlp")
    method = moon(settings(Local(epochs=1, batch=4), projection=5))
    net = Network(lambda: method.adapt_network(chosen.build(problem, MlpSettings(hidden=(4,))), problem), problem)
    assert net.parameters == 16 + 20 + 25 + 18
    assert net.head.stop - net.head.start == 18
    z, logits = net(cloud("a", 7).x)
    assert z.shape == (7, 5)
    assert torch.equal(logits, net.module.head(z))  # type: ignore[operator]
    assert bool((z < 0).any())  # no ReLU after the projection
    stage = Stage(bound(method, net), {"a": cloud("a", 7), "b": cloud("b", 5)})
    first, second = stage.play(1), stage.play(2)
    assert len(stage.replies[0][2]["change"]) == net.parameters
    assert not torch.equal(first["model"], second["model"])


def test_without_a_projection_the_network_stays_as_it_is() -> None:
    module = nn.Linear(3, 3)
    assert moon(settings(Local())).adapt_network(module, Problem(shape=(3,), classes=3)) is module


def test_a_client_without_records_has_no_last_model() -> None:
    own = cloud("a", 7)
    stage = Stage(bound(moon(settings(Local(epochs=1, batch=4))), layered_net()), {"a": own, "empty": own.none()})
    stage.play(2)
    assert PREVIOUS in stage.memories["a"]
    assert PREVIOUS not in stage.memories["empty"]


def test_a_message_is_fedavgs() -> None:
    stage = Stage(bound(moon(settings(Local(epochs=1, batch=4))), layered_net()), {"a": cloud("a", 5)})
    stage.play(2)
    assert {part: t.numel() for part, t in stage.replies[1][2].items()} == {"change": 31, "weight": 1}
    assert set(stage.briefs[1][2]) == {"model"}
