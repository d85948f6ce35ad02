"""FedDyn by hand, beside a slow version, and what must hold of its duals."""

import math

import numpy as np
import numpy_rules as slow
import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, sigmoid, softmax_net

from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.feddyn import PRESETS, FedDynSettings, feddyn
from understudy.methods.shared.averaging import AveragingSettings

TWO_STEPS = Local(epochs=2, batch=10, lr=0.1)
SITES = {"a": records([1], [0]), "b": records([2], [1])}


def settings(local: Local = TWO_STEPS, **more: object) -> FedDynSettings:
    return FedDynSettings.model_validate({"local": local, **more})


def slope_a(w: float) -> float:
    return sigmoid(w) - 1


def slope_b(w: float) -> float:
    return 2 * sigmoid(2 * w)


def test_two_rounds_by_hand() -> None:
    # α = 0.5. Round 1 from w = 0 without duals: the first step feels no spring, the second 0.5·θ.
    a1, b1 = 0.05, -0.1
    a = a1 - 0.1 * (slope_a(a1) + 0.5 * a1)
    b = b1 - 0.1 * (slope_b(b1) + 0.5 * b1)
    g_a, g_b = -0.5 * a, -0.5 * b
    h = -0.5 / 2 * (a + b)
    mean = (a + b) / 2
    w = mean - h / 0.5  # = (a + b)/2 + (a + b)/2
    stage = Stage(bound(feddyn(settings(alpha=0.5)), coin()), SITES)
    state = stage.play(1)
    assert state["model"].item() == pytest.approx(w)
    assert stage.method.result(state).item() == pytest.approx(mean)
    assert state["h"].item() == pytest.approx(h)
    assert stage.memories["a"]["dual"].item() == pytest.approx(g_a)
    # Round 2, only a is asked, from w: slope − g_a + 0.5·(θ − w). b keeps its dual; h moves by half of a's way.
    a1 = w - 0.1 * (slope_a(w) - g_a)
    a = a1 - 0.1 * (slope_a(a1) - g_a + 0.5 * (a1 - w))
    h = h - 0.5 / 2 * (a - w)
    stage.cohorts = [[], ["a"]]
    stage.begin(2)
    state = stage.method.round(stage, state)
    assert stage.method.result(state).item() == pytest.approx(a, abs=1e-7)
    assert state["model"].item() == pytest.approx(a - h / 0.5, abs=1e-7)
    assert stage.memories["a"]["dual"].item() == pytest.approx(g_a - 0.5 * (a - w))
    assert stage.memories["b"]["dual"].item() == pytest.approx(g_b)


@pytest.mark.parametrize("scaled", [False, True])
def test_three_rounds_equal_a_slow_version_in_numpy(scaled: bool) -> None:
    net, local = softmax_net(), Local(epochs=2, batch=4, lr=0.2, momentum=0.5)
    start = net.initial().double().numpy()
    w, mean, h, duals = slow.feddyn(slow.SITES, start, slow.COHORTS, local, 0.3, scaled)
    method = feddyn(settings(local, alpha=0.3, scale_alpha=scaled))
    stage = Stage(bound(method, net, 3), slow.SITES, slow.COHORTS)
    state = stage.play(3)
    np.testing.assert_allclose(state["model"].numpy(), w, atol=1e-5)
    np.testing.assert_allclose(method.result(state).numpy(), mean, atol=1e-5)
    np.testing.assert_allclose(state["h"].numpy(), h, atol=1e-5)
    for name in "abc":
        np.testing.assert_allclose(stage.memories[name]["dual"].numpy(), duals[name], atol=1e-5)
    assert "dual" not in stage.memories["d"]  # never asked: g_d = 0


def test_the_servers_h_is_the_mean_of_all_duals() -> None:
    stage = Stage(bound(feddyn(settings(Local(epochs=2, batch=4, lr=0.1))), softmax_net()), slow.SITES, slow.COHORTS)
    state = stage.play(3)
    total = torch.stack([stage.memories[name]["dual"] for name in "abc"]).sum(0)  # d's is zero
    assert torch.allclose(state["h"], total / 4, atol=1e-7)


# Classes in the proportions 3:1 and 1:2: at x = 1 the losses have slopes σ(w) − 3/4 and σ(w) − 1/3.
MIXED = {"a": records([1, 1, 1, 1], [0, 0, 0, 1]), "b": records([1, 1, 1], [0, 1, 1])}
# The losses curve by σ(1 − σ), about 0.24, the spring by 0.25: a step at rate 2 leaves a hundredth of the way.
EXACT = Local(steps=10, batch=10, lr=2.0)


def test_an_exact_local_solve_leaves_the_gradient_in_the_dual() -> None:
    # At the minimum ∇f_k(θ_k) − g_k + α(θ_k − w) = 0, so the new dual is the gradient at θ_k.
    stage = Stage(bound(feddyn(settings(EXACT, alpha=0.25)), coin()), MIXED)
    stage.play(2)
    sent = {name: reply["change"].item() for round, name, reply in stage.replies if round == 2}
    w = {name: brief["model"].item() for round, name, brief in stage.briefs if round == 2}["a"]
    assert stage.memories["a"]["dual"].item() == pytest.approx(sigmoid(w + sent["a"]) - 3 / 4, abs=1e-5)
    assert stage.memories["b"]["dual"].item() == pytest.approx(sigmoid(w + sent["b"]) - 1 / 3, abs=1e-5)


def test_with_exact_solves_the_duals_sum_to_zero_and_the_model_is_the_common_optimum() -> None:
    # Where both slopes cancel σ(w) = (3/4 + 1/3)/2 = 13/24, so w = ln(13/11); each dual is its client's slope there.
    method = bound(feddyn(settings(EXACT, alpha=0.25)), coin(), 25)
    stage = Stage(method, MIXED)
    state = stage.play(25)
    duals = [stage.memories[name]["dual"].item() for name in "ab"]
    assert sum(duals) == pytest.approx(0, abs=1e-5)
    assert duals[0] == pytest.approx(13 / 24 - 3 / 4, abs=1e-5)
    assert method.result(state).item() == pytest.approx(math.log(13 / 11), abs=1e-5)
    assert state["model"].item() == pytest.approx(math.log(13 / 11), abs=1e-4)


def test_as_alpha_vanishes_the_first_mean_is_fedavgs_and_twice_as_far_is_broadcast() -> None:
    local = Local(epochs=2, batch=4, lr=0.2)
    method = feddyn(settings(local, alpha=1e-9))
    state = play(method, softmax_net(), slow.SITES, 1)
    uniform = AveragingSettings(local=local, weights="uniform")
    plain = play(fedavg(uniform), softmax_net(), slow.SITES, 1)["model"]
    w = softmax_net().initial()
    assert torch.allclose(method.result(state), plain, atol=1e-6)
    assert torch.allclose(state["model"], w + 2 * (plain - w), atol=1e-6)


def test_both_models_are_scored_and_the_plain_mean_is_the_runs() -> None:
    method = bound(feddyn(settings()), coin())
    stage = Stage(method, SITES)
    opening = method.start(stage)
    assert torch.equal(method.result(opening), method.further_models(opening)["corrected"])
    state = stage.play(1)
    assert torch.equal(method.further_models(state)["corrected"], state["model"])
    assert not torch.equal(method.result(state), state["model"])


def test_the_authors_alpha_is_larger_for_small_clients_by_hand() -> None:
    # One and three records, two on average: α_a = 2α, α_b = ⅔α. In round 1 the dual is −α_k·(the way gone).
    sites = {"a": SITES["a"], "b": records([2, 2, 2], [1, 1, 1])}
    stage = Stage(bound(feddyn(settings(alpha=0.3, scale_alpha=True)), coin()), sites)
    stage.play(1)
    way = {name: reply["change"].item() for round, name, reply in stage.replies if round == 1}
    assert stage.memories["a"]["dual"].item() == pytest.approx(-0.6 * way["a"])
    assert stage.memories["b"]["dual"].item() == pytest.approx(-0.2 * way["b"])
    # The second step of a felt its own spring: 0.05 − 0.1·(slope + 0.6·0.05).
    assert way["a"] == pytest.approx(0.05 - 0.1 * (slope_a(0.05) + 0.6 * 0.05))


def test_an_empty_client_keeps_no_dual_but_is_one_of_all_clients() -> None:
    sites = {**SITES, "empty": SITES["a"].none()}
    stage = Stage(bound(feddyn(settings(alpha=0.5, scale_alpha=True)), coin()), sites)
    state = stage.play(1)
    assert "dual" not in stage.memories["empty"]
    way = [reply["change"].item() for round, _, reply in stage.replies if round == 1]
    assert stage.method.result(state).item() == pytest.approx(sum(way) / 2)
    assert state["h"].item() == pytest.approx(-0.5 / 3 * sum(way))


def test_neither_duals_nor_h_touch_running_statistics() -> None:
    sites = {"a": cloud("a", 12), "b": cloud("b", 12)}
    net, local = batchnorm_net(), Local(epochs=1, batch=20, lr=0.2)
    method = bound(feddyn(settings(local)), net)
    stage = Stage(method, sites)
    opening = method.start(stage)
    stage.begin(1)
    state = method.round(stage, opening.but(h=torch.full((net.parameters,), 5.0)))
    uniform = AveragingSettings(local=local, weights="uniform")
    plain = play(fedavg(uniform), batchnorm_net(), sites, 1)["model"]
    assert torch.equal(state["model"][net.buffers], plain[net.buffers])
    assert torch.equal(method.result(state)[net.buffers], plain[net.buffers])
    assert torch.equal(method.result(state)[net.trainable], plain[net.trainable])  # one step: the spring is slack
    assert all(len(stage.memories[name]["dual"]) == net.parameters for name in sites)


def test_the_dual_stays_at_home() -> None:
    stage = Stage(bound(feddyn(settings()), softmax_net()), {"a": cloud("a", 5)})
    stage.play(2)
    assert {part: t.numel() for part, t in stage.replies[1][2].items()} == {"change": 12, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[1][2].items()} == {"model": 12}


def test_weights_by_size_are_refused() -> None:
    assert FedDynSettings().weights == "uniform"
    with pytest.raises(UserError, match=r"feddyn: method\.weights must be 'uniform'"):
        feddyn(settings(weights="size"))


def test_published_values_are_presets() -> None:
    authors = FedDynSettings.model_validate(PRESETS["authors"])
    assert (authors.alpha, authors.scale_alpha, authors.local.clip, authors.local.weight_decay) == (
        0.01,
        True,
        10,
        1e-3,
    )
    alphas = {name: FedDynSettings.model_validate(PRESETS[name]).alpha for name in PRESETS if "fedssyn" in name}
    assert alphas == {"fedssyn-cifar10": 0.001, "fedssyn-cifar10-shuffled": 0.01, "fedssyn-cifar100": 0.01}
