"""FedAvgM by hand, beside a slow version, and its damped variants."""

import numpy as np
import numpy_rules as slow
import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, sigmoid, softmax_net

from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedavgm import PRESETS, FedAvgMSettings, fedavgm
from understudy.methods.shared.averaging import AveragingSettings

ONE_STEP = Local(epochs=1, batch=10, lr=0.1)
SITES = {"a": records([1], [0])}  # slope σ(w) − 1


def settings(local: Local = ONE_STEP, **more: object) -> FedAvgMSettings:
    return FedAvgMSettings.model_validate({"local": local, **more})


@pytest.mark.parametrize("damping", ["none", "moon", "fedcog"])
def test_two_rounds_by_hand(damping: str) -> None:
    # β = 0.5, η_g = 2. Round 1, w = 0: the client steps by 0.1·0.5 to w̄ = 0.05, so w − w̄ = −0.05.
    #   none, fedcog: v = −0.05, w = 0 + 2·0.05 = 0.1      moon: v = ½·(−0.05), w = 0.05
    # Round 2: w − w̄ = 0.1·(σ(w) − 1).
    #   none: v = ½v + (w − w̄), w ← w − 2v      moon: v = ½v + ½(w − w̄)      fedcog: w ← w − 2v/1.5
    stage = Stage(bound(fedavgm(settings(server_momentum=0.5, server_lr=2.0, damping=damping)), coin()), SITES)
    state = stage.play(1)
    v, w = (-0.025, 0.05) if damping == "moon" else (-0.05, 0.1)
    assert state["model"].item() == pytest.approx(w)
    assert state["momentum"].item() == pytest.approx(v)
    back = 0.1 * (sigmoid(w) - 1)
    v = 0.5 * v + (0.5 * back if damping == "moon" else back)
    w = w - 2 * (v / 1.5 if damping == "fedcog" else v)
    stage.begin(2)
    state = stage.method.round(stage, state)
    assert state["model"].item() == pytest.approx(w)
    assert state["momentum"].item() == pytest.approx(v)


@pytest.mark.parametrize("damping", ["none", "moon", "fedcog"])
def test_three_rounds_equal_a_slow_version_in_numpy(damping: str) -> None:
    net, local = softmax_net(), Local(epochs=2, batch=4, lr=0.2)
    w, v = slow.fedavgm(slow.SITES, net.initial().double().numpy(), slow.COHORTS, local, 0.8, 0.7, damping)
    method = fedavgm(settings(local, server_momentum=0.8, server_lr=0.7, damping=damping))
    fast = play(method, net, slow.SITES, 3, slow.COHORTS)
    np.testing.assert_allclose(fast["model"].numpy(), w, atol=1e-6)
    np.testing.assert_allclose(fast["momentum"].numpy(), v, atol=1e-6)


@pytest.mark.parametrize("damping", ["none", "moon", "fedcog"])
def test_without_momentum_it_is_fedavg_to_the_last_bit(damping: str) -> None:
    local = Local(epochs=2, batch=4, lr=0.2, momentum=0.9, weight_decay=0.01)
    method = fedavgm(settings(local, server_momentum=0.0, damping=damping))
    mine = play(method, batchnorm_net(), slow.SITES, 3, slow.COHORTS)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), slow.SITES, 3, slow.COHORTS)
    assert torch.equal(mine["model"], plain["model"])


def test_momentum_never_touches_running_statistics() -> None:
    # Whatever v is, the statistics are the mean of what the clients saw at the broadcast model.
    sites, net = {"a": cloud("a", 7), "b": cloud("b", 12)}, batchnorm_net()
    method = bound(fedavgm(settings(Local(epochs=1, batch=20, lr=0.2))), net)
    stage = Stage(method, sites)
    opening = method.start(stage)
    assert opening["momentum"].shape == (net.parameters,)
    stage.begin(1)
    pushed = method.round(stage, opening.but(momentum=torch.full((net.parameters,), 5.0)))
    plain = play(fedavg(AveragingSettings(local=Local(epochs=1, batch=20, lr=0.2))), batchnorm_net(), sites, 1)
    assert torch.equal(pushed["model"][net.buffers], plain["model"][net.buffers])
    assert not torch.allclose(pushed["model"][net.trainable], plain["model"][net.trainable])


def test_a_round_in_which_nobody_has_a_record_keeps_model_and_momentum() -> None:
    stage = Stage(bound(fedavgm(settings()), coin()), {**SITES, "empty": SITES["a"].none()}, [["a"], ["empty"]])
    state = stage.play(1)
    stage.begin(2)
    assert dict(stage.method.round(stage, state)) == dict(state)


def test_nothing_more_crosses_the_wire_than_with_fedavg() -> None:
    stage = Stage(bound(fedavgm(settings()), softmax_net()), {"a": cloud("a", 5)})
    stage.play(2)
    assert {part: t.numel() for part, t in stage.replies[1][2].items()} == {"change": 12, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[1][2].items()} == {"model": 12}


def test_published_values_are_presets() -> None:
    assert FedAvgMSettings.model_validate(PRESETS["fedcog-paper"]).server_momentum == 0.1
    script = FedAvgMSettings.model_validate(PRESETS["fedcog-script"])
    assert (script.server_momentum, script.damping) == (0.9, "fedcog")
