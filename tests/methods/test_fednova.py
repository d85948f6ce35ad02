"""FedNova by hand, beside a slow version, and where it is FedAvg."""

import numpy as np
import numpy_rules as slow
import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, sigmoid, softmax_net

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fednova import FedNovaSettings, effective_steps, fednova
from understudy.methods.shared.averaging import AveragingSettings

# With batches of two, a takes one step and b two.
SITES = {"a": records([1], [0]), "b": records([2, 2, 2], [1, 1, 1])}
LOCAL = Local(epochs=1, batch=2, lr=0.1)


def settings(local: Local = LOCAL, **more: object) -> FedNovaSettings:
    return FedNovaSettings.model_validate({"local": local, **more})


def slope_b(w: float) -> float:
    return 2 * sigmoid(2 * w)


def test_one_round_by_hand() -> None:
    # From w = 0, a goes 0.05 in one step; b goes to −0.1 and on by −0.1·2σ(−0.2), in two.
    # Σ p a = ¼·1 + ¾·2 = 1.75; the mean of change a step is ¼·0.05/1 + ¾·b/2.
    b = -0.1 - 0.1 * slope_b(-0.1)
    after = play(fednova(settings()), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx(1.75 * (0.25 * 0.05 + 0.75 * b / 2))


def test_one_round_with_momentum_by_hand() -> None:
    # ρ = 0.5: b's first gradient enters its change with 1 + 0.5, its second with 1, so a_b = 2.5; a_a = 1.
    b = -0.1 - 0.1 * (slope_b(-0.1) + 0.5 * 1)
    after = play(fednova(settings(Local(epochs=1, batch=2, lr=0.1, momentum=0.5))), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx((0.25 * 1 + 0.75 * 2.5) * (0.25 * 0.05 + 0.75 * b / 2.5))


def test_one_round_with_a_proximal_term_by_hand() -> None:
    # μ = 2, η = 0.1: b's first step is partly taken back, so a_b = 1·(1 − 0.2) + 1 = 1.8.
    # The outer factor is Σ p τ = ¼·1 + ¾·2 all the same.
    b = -0.1 - 0.1 * (slope_b(-0.1) + 2 * -0.1)
    after = play(fednova(settings(mu=2.0)), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx(1.75 * (0.25 * 0.05 + 0.75 * b / 1.8))


def test_effective_steps_by_hand() -> None:
    assert effective_steps(3) == 3
    # ρ = 0.5: (1 + ½ + ¼) + (1 + ½) + 1 = 4.25
    assert effective_steps(3, momentum=0.5) == pytest.approx(4.25)
    # ημ = 0.2: 1, then 0.8 + 1 = 1.8, then 1.8·0.8 + 1 = 2.44
    assert effective_steps(3, rate=0.1, mu=2.0) == pytest.approx(2.44)
    assert effective_steps(1000, rate=1e-6, mu=1e-6) == pytest.approx(1000)


@pytest.mark.parametrize(
    ("local", "mu"),
    [
        ({"epochs": 2}, 0.0),
        ({"epochs": 2, "momentum": 0.9}, 0.0),
        ({"epochs": 2, "schedule": "exponential", "decay": 0.5}, 0.8),
        ({"steps": 1, "momentum": 0.5}, 0.0),
    ],
)
def test_three_rounds_equal_a_slow_version_in_numpy(local: dict[str, object], mu: float) -> None:
    chosen = settings(Local.model_validate({"batch": 4, "lr": 0.1, **local}), mu=mu)
    net = softmax_net()
    by_hand = slow.fednova(slow.SITES, net.initial().double().numpy(), slow.COHORTS, chosen.local, mu)
    fast = play(fednova(chosen), net, slow.SITES, 3, slow.COHORTS)
    np.testing.assert_allclose(fast["model"].numpy(), by_hand, atol=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    ("local", "sites"),
    [
        ({"steps": 7}, slow.SITES),  # unequal clients, and all are told to take seven steps
        ({"epochs": 3}, {"a": cloud("a", 10), "b": cloud("b", 12), "c": cloud("c", 11)}),  # three batches of four each
    ],
)
def test_with_equal_steps_it_is_fedavg_to_the_last_bit(
    local: dict[str, object], sites: dict[str, Examples], momentum: float
) -> None:
    chosen = Local.model_validate({"batch": 4, "lr": 0.1, "momentum": momentum, "weight_decay": 0.01, **local})
    mine = play(fednova(settings(chosen)), batchnorm_net(), sites, 3, slow.COHORTS)
    plain = play(fedavg(AveragingSettings(local=chosen)), batchnorm_net(), sites, 3, slow.COHORTS)
    assert torch.equal(mine["model"], plain["model"])


def test_whatever_the_common_number_of_steps_is_the_model_is_the_same() -> None:
    # τ̄ only sets the scale on the wire: in exact arithmetic it cancels.
    stages = [Stage(bound(fednova(settings()), softmax_net()), slow.SITES) for _ in range(2)]
    models = []
    for stage, common in zip(stages, (1.0, 17.3), strict=True):
        opening = stage.method.start(stage).but(common_steps=torch.tensor(common))
        stage.begin(1)
        models.append(stage.method.round(stage, opening)["model"])
    assert torch.allclose(models[0], models[1], atol=1e-6)


def test_more_steps_do_not_count_for_more() -> None:
    # Two clients with opposite slopes ∓0.5 at w = 0, one of them taking many small steps: FedAvg is dragged along,
    # FedNova stays near the middle of the two directions.
    sites = {"few": records([1], [0]), "many": records([1] * 8, [1] * 8)}
    local = Local(epochs=1, batch=1, lr=0.01)
    uniform = {"local": local, "weights": "uniform"}
    dragged = play(fedavg(AveragingSettings.model_validate(uniform)), coin(), sites, 1)["model"].item()
    even = play(fednova(FedNovaSettings.model_validate(uniform)), coin(), sites, 1)["model"].item()
    assert abs(even) < 0.02 * abs(dragged)


def test_an_empty_client_contributes_nothing() -> None:
    without = play(fednova(settings()), coin(), SITES, 2)
    with_it = play(fednova(settings()), coin(), {**SITES, "empty": SITES["a"].none()}, 2)
    assert torch.equal(without["model"], with_it["model"])


def test_a_round_in_which_nobody_has_a_record_changes_nothing() -> None:
    after = play(fednova(settings()), coin(), {"empty": SITES["a"].none()}, 1)
    assert after["model"].tolist() == [0.0]


def test_running_statistics_are_averaged_plainly() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    net, local = batchnorm_net(), Local(epochs=1, batch=4, lr=0.1)
    mine = play(fednova(settings(local)), net, sites, 1)["model"]
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 1)["model"]
    assert torch.equal(mine[net.buffers], plain[net.buffers])
    assert not torch.allclose(mine[net.trainable], plain[net.trainable])


def test_a_message_is_the_model_and_one_number_more_than_fedavgs() -> None:
    stage = Stage(bound(fednova(settings(Local(steps=2))), softmax_net()), {"a": cloud("a", 5)})
    stage.play(1)
    assert {part: t.numel() for part, t in stage.replies[0][2].items()} == {"change": 12, "steps": 1, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[0][2].items()} == {"model": 12}


def test_with_epochs_the_opening_asks_for_steps_and_the_brief_has_their_mean() -> None:
    # a takes one step and b two; the empty client is not in the mean.
    stage = Stage(bound(fednova(settings()), coin()), {**SITES, "empty": SITES["a"].none()})
    stage.play(1)
    opening = [reply for round, _, reply in stage.replies if round == 0]
    assert [reply["steps"].item() for reply in opening] == [1, 2, 0]
    assert {float(brief["common_steps"]) for round, _, brief in stage.briefs if round == 1} == {1.5}


def test_momentum_together_with_a_proximal_term_is_refused() -> None:
    with pytest.raises(UserError, match=r"method\.mu and method\.local\.momentum cannot be used together.*set one"):
        fednova(settings(Local(momentum=0.9), mu=0.1))


def test_a_spring_so_strong_that_steps_jump_over_is_refused() -> None:
    with pytest.raises(UserError, match=r"method\.mu times method\.local\.lr is 2"):
        fednova(settings(Local(lr=0.1), mu=20.0))
