"""FedExP by hand, beside a slow version, and its three flags."""

import numpy as np
import numpy_rules as slow
import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, softmax_net

from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedexp import PRESETS, FedExPSettings, fedexp
from understudy.methods.shared.averaging import AveragingSettings

ONE_STEP = Local(epochs=1, batch=10, lr=0.1)
# At w = 0 a steps by +0.05; b, a record x=4 of class 1, by −0.1·4·½ = −0.2. Three records of b's kind weigh 3 of 4.
SITES = {"a": records([1], [0]), "b": records([4, 4, 4], [1, 1, 1])}
OPPOSED = {"a": records([1], [0]), "b": records([1.2], [1])}  # +0.05 and −0.06


def settings(local: Local = ONE_STEP, **more: object) -> FedExPSettings:
    return FedExPSettings.model_validate({"local": local, **more})


def test_changes_that_point_apart_are_gone_further_by_hand() -> None:
    # Mean (0.05 − 0.06)/2 = −0.005; mean square (0.0025 + 0.0036)/2 = 0.00305.
    # η_g = 0.00305 / (2·(0.000025 + 0.001)) = 1.4878…, with ε = 0.001.
    after = play(fedexp(settings()), coin(), OPPOSED, 1)
    assert after["model"].item() == pytest.approx(-0.005 * 0.00305 / (2 * (0.000025 + 0.001)))


def test_the_number_of_participants_may_multiply_epsilon_by_hand() -> None:
    # Two clients: ε|S| = 0.0004 with ε = 0.0002; who has no record is none of them.
    sites = {**OPPOSED, "empty": OPPOSED["a"].none()}
    after = play(fedexp(settings(epsilon=0.0002, epsilon_times_clients=True)), coin(), sites, 1)
    assert after["model"].item() == pytest.approx(-0.005 * 0.00305 / (2 * (0.000025 + 0.0004)))


def test_weights_are_in_mean_and_square_alike() -> None:
    # Mean (0.05 − 3·0.2)/4 = −0.1375; mean square (0.0025 + 3·0.04)/4 = 0.030625; 0.030625/(2·0.0189…) < 1: η_g = 1.
    assert play(fedexp(settings(epsilon=0)), coin(), SITES, 1)["model"].item() == pytest.approx(-0.1375)
    stage = Stage(bound(fedexp(settings()), coin()), SITES)
    stage.play(1)
    sent = {name: reply["squares"].tolist() for _, name, reply in stage.replies}
    assert sent["a"] == pytest.approx([1 * 0.0025, 1])
    assert sent["b"] == pytest.approx([3 * 0.04, 1])


@pytest.mark.parametrize("times_clients", [False, True])
@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_three_rounds_equal_a_slow_version_in_numpy(times_clients: bool, falls: bool, average: bool) -> None:
    local = Local(epochs=2, batch=4, lr=0.2, schedule="exponential", decay=0.5)
    net, epsilon = softmax_net(), 1e-4
    iterates = slow.fedexp(
        slow.SITES, net.initial().double().numpy(), slow.COHORTS, local, epsilon, times_clients, falls
    )
    flags = {"epsilon_times_clients": times_clients, "epsilon_falls": falls, "average_last_two": average}
    method = fedexp(settings(local, epsilon=epsilon, **flags))
    fast = play(method, net, slow.SITES, 3, slow.COHORTS)
    np.testing.assert_allclose(fast["model"].numpy(), iterates[-1], atol=1e-5)
    wanted = (iterates[-1] + iterates[-2]) / 2 if average else iterates[-1]
    np.testing.assert_allclose(method.result(fast).numpy(), wanted, atol=1e-5)


def test_epsilon_falls_with_the_square_of_the_rate() -> None:
    # The rate is halved each round: ε, ε/4, ε/16.
    local = Local(epochs=1, lr=0.2, schedule="exponential", decay=0.5)
    stage = Stage(bound(fedexp(settings(local, epsilon=0.16, epsilon_falls=True)), coin()), OPPOSED)
    state = stage.method.start(stage)
    seen = []
    for round in (1, 2, 3):
        stage.begin(round)
        state = stage.method.round(stage, state)
        seen.append(state["epsilon"].item())
    assert seen == pytest.approx([0.16, 0.04, 0.01])


def test_the_mean_of_two_iterates_is_scored_and_training_goes_on_from_the_last() -> None:
    both = [bound(fedexp(settings(average_last_two=on)), softmax_net()) for on in (True, False)]
    stages = [Stage(method, slow.SITES) for method in both]
    states = [stage.method.start(stage) for stage in stages]
    assert torch.equal(both[0].result(states[0]), softmax_net().initial())
    lasts = []
    for round in (1, 2, 3):
        for stage in stages:
            stage.begin(round)
        states = [stage.method.round(stage, state) for stage, state in zip(stages, states, strict=True)]
        assert torch.equal(states[0]["model"], states[1]["model"])
        lasts.append(states[1]["model"])
        wanted = lasts[-1] if round == 1 else (lasts[-1] + lasts[-2]) / 2  # the initial model is no iterate
        assert torch.equal(both[0].result(states[0]), wanted)
        assert torch.equal(both[1].result(states[1]), lasts[-1])


def test_one_client_is_fedavg_to_the_last_bit() -> None:
    # ‖Δ‖² / (2(‖Δ‖² + ε)) is never above ½.
    local = Local(epochs=2, batch=4, lr=0.2, momentum=0.9)
    cohorts = [["a"], ["b"], ["c"]]
    mine = play(fedexp(settings(local, epsilon=0)), batchnorm_net(), slow.SITES, 3, cohorts)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), slow.SITES, 3, cohorts)
    assert torch.equal(mine["model"], plain["model"])


def test_without_epsilon_a_mean_of_nothing_goes_nowhere() -> None:
    # Equal and opposite changes: 0/0 would be no number, and no step is right.
    sites = {"a": records([1], [0]), "b": records([1], [1])}
    assert play(fedexp(settings(epsilon=0)), coin(), sites, 1)["model"].tolist() == [0.0]


@pytest.mark.parametrize("average", [False, True])
def test_running_statistics_are_neither_extrapolated_nor_mixed(average: bool) -> None:
    # In round 1 the clients see the initial model either way: their statistics are FedAvg's, not 1.5 times as far.
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    net, local = batchnorm_net(), Local(epochs=1, batch=20, lr=0.2)
    method = fedexp(settings(local, epsilon=0, average_last_two=average))
    state = play(method, net, sites, 1)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 1)["model"]
    assert torch.equal(method.result(state)[net.buffers], plain[net.buffers])
    later = play(method, net, sites, 2)
    assert torch.equal(method.result(later)[net.buffers], later["model"][net.buffers])


def test_a_message_is_the_model_and_two_numbers_more_than_fedavgs() -> None:
    stage = Stage(bound(fedexp(settings()), softmax_net()), {"a": cloud("a", 5)})
    stage.play(1)
    assert {part: t.numel() for part, t in stage.replies[0][2].items()} == {"change": 12, "squares": 2, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[0][2].items()} == {"model": 12}


def test_the_authors_code_is_a_preset() -> None:
    chosen = FedExPSettings.model_validate(PRESETS["authors"])
    assert chosen.epsilon_times_clients
    assert chosen.epsilon_falls
    assert chosen.average_last_two
    assert chosen.local.rate(2, 10) == pytest.approx(0.998 * chosen.local.lr)
