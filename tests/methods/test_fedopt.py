"""FedAdagrad, FedAdam and FedYogi by hand, and beside a slow version."""

import math
from typing import Any

import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, settings_of, sigmoid

from understudy.federation import registry
from understudy.federation.method import Method
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import AveragingSettings

ONE_STEP = Local(epochs=1, batch=10, lr=0.1)
ALL = ("fedadagrad", "fedadam", "fedyogi")


def method(name: str, local: Local = ONE_STEP, **words: Any) -> Method:
    return registry.entry(name, "method").build(settings_of(name, local=local, **words))


def second(name: str, v: float, square: float, beta2: float) -> float:
    if name == "fedadagrad":
        return v + square
    if name == "fedadam":
        return beta2 * v + (1 - beta2) * square
    return v - (1 - beta2) * square * math.copysign(1, v - square)


@pytest.mark.parametrize(
    ("name", "v"),
    [
        ("fedadagrad", 0.0026),  # 0.0001 + 0.0025
        ("fedadam", 0.0007),  # ¾·0.0001 + ¼·0.0025
        ("fedyogi", 0.000725),  # 0.0001 + ¼·0.0025, as Δ² is above v
    ],
)
def test_two_rounds_by_hand(name: str, v: float) -> None:
    # η = 0.2, β₁ = ½, β₂ = ¾, τ = 0.01. Round 1, w = 0: the client steps by 0.1·0.5, so Δ = 0.05 and Δ² = 0.0025.
    # m = ½·0.05 = 0.025, v from τ² = 0.0001 as above, w = 0.2 · 0.025 / (√v + 0.01).
    more: dict[str, Any] = {} if name == "fedadagrad" else {"beta2": 0.75}
    chosen = method(name, server_lr=0.2, beta1=0.5, tau=0.01, **more)
    stage = Stage(bound(chosen, coin()), {"a": records([1], [0])})
    state = stage.play(1)
    w, m = 0.005 / (math.sqrt(v) + 0.01), 0.025
    assert [state[part].item() for part in ("model", "mean", "square")] == pytest.approx([w, m, v])
    # Round 2: Δ = 0.1·(1 − σ(w)), m = ½·0.025 + ½Δ.
    change = 0.1 * (1 - sigmoid(w))
    m, v = 0.0125 + change / 2, second(name, v, change**2, 0.75)
    stage.begin(2)
    state = stage.method.round(stage, state)
    assert state["model"].item() == pytest.approx(w + 0.2 * m / (math.sqrt(v) + 0.01))
    assert state["square"].item() == pytest.approx(v)


def test_yogi_lowers_what_is_above_the_square_by_no_more_than_the_square() -> None:
    # τ = 0.1: v = 0.01 is above Δ² = 0.0025, so v ← 0.01 − 0.01·0.0025. Adam would have 0.99·0.01 + 0.01·0.0025.
    state = Stage(bound(method("fedyogi", tau=0.1), coin()), {"a": records([1], [0])}).play(1)
    assert state["square"].item() == pytest.approx(0.009975)
    state = Stage(bound(method("fedadam", tau=0.1), coin()), {"a": records([1], [0])}).play(1)
    assert state["square"].item() == pytest.approx(0.009925)


@pytest.mark.parametrize("name", ALL)
def test_three_rounds_equal_a_slow_version_number_by_number(name: str) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    stage = Stage(
        bound(method(name, Local(epochs=2, batch=4, lr=0.2)), batchnorm_net()), sites, [["a", "b"], ["b", "c"], ["a"]]
    )
    parameters = stage.method.net.parameters
    w = stage.method.net.initial()[:parameters].tolist()
    m, v, beta1 = [0.0] * parameters, [1e-6] * parameters, 0.0 if name == "fedadagrad" else 0.9
    state = stage.method.start(stage)
    for round in (1, 2, 3):
        stage.begin(round)
        state = stage.method.round(stage, state)
        said = [reply for at, _, reply in stage.replies if at == round]
        for i in range(parameters):
            change = sum(float(reply["change"][i]) for reply in said) / sum(float(reply["weight"]) for reply in said)
            m[i] = beta1 * m[i] + (1 - beta1) * change
            v[i] = second(name, v[i], change**2, 0.99)
            w[i] += 0.1 * m[i] / (math.sqrt(v[i]) + 1e-3)
        assert state["model"][:parameters].tolist() == pytest.approx(w, abs=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_running_statistics_are_averaged_as_ever(name: str) -> None:
    sites, local = {"a": cloud("a", 7), "b": cloud("b", 12)}, Local(epochs=1, batch=4, lr=0.2)
    mine = play(method(name, local), batchnorm_net(), sites, 1)["model"]
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 1)["model"]
    parameters = batchnorm_net().parameters
    assert torch.equal(mine[parameters:], plain[parameters:])
    assert not torch.equal(mine[:parameters], plain[:parameters])


@pytest.mark.parametrize("name", ALL)
def test_where_nobody_has_a_record_nothing_moves(name: str) -> None:
    state = play(method(name), coin(), {"a": records([1], [0]).none()}, 1)
    assert [state[part].item() for part in ("model", "mean", "square")] == pytest.approx([0, 0, 1e-6])


def test_the_defaults_are_the_papers() -> None:
    for name in ("fedadam", "fedyogi"):
        chosen = settings_of(name)
        assert (chosen.beta1, chosen.beta2, chosen.tau) == (0.9, 0.99, 1e-3)
    assert (settings_of("fedadagrad").beta1, settings_of("fedadagrad").tau) == (0.0, 1e-3)
