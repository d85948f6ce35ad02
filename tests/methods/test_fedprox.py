"""FedProx by hand, beside a slow version, and at its edges."""

from typing import Any

import numpy as np
import numpy_rules as slow
import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, settings_of, sigmoid, softmax_net

from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedprox import PRESETS, Proximal, ProximalSettings, fedprox
from understudy.methods.shared.averaging import AveragingSettings

TWO_STEPS = Local(epochs=2, batch=10, lr=0.1)
SITES = {"a": records([1], [0])}  # slope σ(w) − 1


def settings(mu: float, local: Local = TWO_STEPS) -> Any:
    return settings_of("fedprox", mu=mu, local=local)


def test_two_steps_by_hand() -> None:
    # μ = 0.5 from w = 0: the first step feels no pull and goes to 0.05; the second one is
    # −0.1·(σ(0.05) − 1 + 0.5·(0.05 − 0)).
    after = play(fedprox(settings(0.5)), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx(0.05 - 0.1 * (sigmoid(0.05) - 1 + 0.5 * 0.05))


def test_the_spring_holds_on_to_the_model_of_the_round() -> None:
    # Round 2 starts at w, and so does the spring: the first step of it feels no pull either.
    w = 0.05 - 0.1 * (sigmoid(0.05) - 1 + 0.5 * 0.05)
    near = w - 0.1 * (sigmoid(w) - 1)
    after = play(fedprox(settings(0.5)), coin(), SITES, 2)
    assert after["model"].item() == pytest.approx(near - 0.1 * (sigmoid(near) - 1 + 0.5 * (near - w)))


def test_the_closed_form_is_the_gradient_of_half_mu_times_the_squared_distance() -> None:
    w = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    anchor = torch.tensor([0.0, 1.0, 0.5])
    loss = 0.3 / 2 * (w - anchor).norm() ** 2
    (by_autograd,) = torch.autograd.grad(loss, w)
    assert torch.allclose(Proximal(0.3).gradient({"anchor": anchor}, w.detach()), by_autograd)


def test_a_gradient_that_is_clipped_leaves_the_spring_alone() -> None:
    # The slope at 0.05 is shortened to 0.1, the spring's 0.5·0.05 is added behind: so it acts under privacy too.
    # First step: 0.1·0.1 = 0.01. Second: 0.1·(0.1 − 0.5·0.01).
    local = Local(epochs=2, batch=10, lr=0.1, clip=0.1)
    after = play(fedprox(settings(0.5, local)), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx(0.01 + 0.1 * (0.1 - 0.5 * 0.01))


def test_three_rounds_equal_a_slow_version_in_numpy() -> None:
    net, local = softmax_net(), Local(epochs=3, batch=4, lr=0.2, momentum=0.5)
    by_hand = slow.fedprox(slow.SITES, net.initial().double().numpy(), slow.COHORTS, local, mu=0.7)
    fast = play(fedprox(settings(0.7, local)), net, slow.SITES, 3, slow.COHORTS)
    np.testing.assert_allclose(fast["model"].numpy(), by_hand, atol=1e-5)


def test_without_the_pull_it_is_fedavg_to_the_last_bit() -> None:
    local = Local(epochs=2, batch=4, lr=0.2, momentum=0.9, weight_decay=0.01)
    mine = play(fedprox(settings(0.0, local)), batchnorm_net(), slow.SITES, 3, slow.COHORTS)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), slow.SITES, 3, slow.COHORTS)
    assert torch.equal(mine["model"], plain["model"])


def test_a_stronger_spring_keeps_the_model_nearer() -> None:
    start = softmax_net().initial()
    local = Local(epochs=5, batch=4, lr=0.2)
    moved = [
        float((play(fedprox(settings(mu, local)), softmax_net(), slow.SITES, 1)["model"] - start).norm())
        for mu in (0.0, 0.1, 1.0)
    ]
    assert moved[0] > moved[1] > moved[2]


def test_the_spring_never_touches_running_statistics() -> None:
    # It holds trainable numbers only; and in one step, while it is slack, everything is as without it.
    net, local = batchnorm_net(), Local(epochs=1, batch=20, lr=0.2)
    held = play(fedprox(settings(1e3, local)), net, slow.SITES, 1)
    free = play(fedprox(settings(0.0, local)), batchnorm_net(), slow.SITES, 1)
    assert torch.equal(held["model"], free["model"])
    client = Stage(bound(fedprox(settings(1.0)), net), slow.SITES).client("a")
    kit = Proximal(1.0).begin(client, Message(), net)
    assert kit is not None
    assert kit["anchor"].shape == (net.parameters,)


def test_nothing_more_crosses_the_wire_than_with_fedavg() -> None:
    stage = Stage(bound(fedprox(settings(1.0)), softmax_net()), {"a": cloud("a", 5)})
    stage.play(1)
    assert {part: t.numel() for part, t in stage.replies[0][2].items()} == {"change": 12, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[0][2].items()} == {"model": 12}


def test_the_published_forms_are_presets_of_this_one() -> None:
    # FedLAP: 0.1·‖θ − w‖² is μ/2·‖θ − w‖² with μ = 0.2.
    assert PRESETS["fedlap"] == {"mu": 2 * 0.1}
    assert sorted(value["mu"] for name, value in PRESETS.items() if name.startswith("feddm")) == [0.01, 0.1, 1.0]
    assert ProximalSettings().mu == 0.01
