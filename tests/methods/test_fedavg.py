"""FedAvg by hand, beside a slow version, and at its edges."""

import numpy as np
import pytest
import torch
from softmax_by_numpy import Numbers, Vector
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, sigmoid, softmax_net

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Term

ONE_STEP = Local(epochs=1, batch=10, lr=0.1)
# At w = 0 either class has probability ½. One record x=1 of class 0: slope (½−1)·1 = −0.5, so a steps to +0.05.
# Three records x=2 of class 1: slope ½·2 = 1, so b steps to −0.1.
SITES = {"a": records([1], [0]), "b": records([2, 2, 2], [1, 1, 1])}


def test_one_round_by_hand_weighted_by_records() -> None:
    # (1·0.05 + 3·(−0.1)) / 4 = −0.0625
    after = play(fedavg(AveragingSettings(local=ONE_STEP)), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx(-0.0625)


def test_one_round_by_hand_with_equal_weights() -> None:
    # (0.05 − 0.1) / 2 = −0.025
    after = play(fedavg(AveragingSettings(local=ONE_STEP, weights="uniform")), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx(-0.025)


def test_the_second_round_starts_where_the_first_ended() -> None:
    # At w = −0.0625 the slopes are σ(w)−1 and 2·σ(2w); the mean of the two steps is weighted 1 to 3.
    w = -0.0625
    expected = w - 0.1 * (1 * (sigmoid(w) - 1) + 3 * 2 * sigmoid(2 * w)) / 4
    after = play(fedavg(AveragingSettings(local=ONE_STEP)), coin(), SITES, 2)
    assert after["model"].item() == pytest.approx(expected)


def test_the_rate_follows_its_schedule_from_the_first_round_on() -> None:
    # Halved every round: the first step has 0.1, from 0 to 0.1 · 0.5; the second 0.05, where the slope is σ(0.05) − 1.
    local = Local(epochs=1, batch=10, lr=0.1, schedule="exponential", decay=0.5)
    after = play(fedavg(AveragingSettings(local=local)), coin(), {"a": SITES["a"]}, 2)
    assert after["model"].item() == pytest.approx(0.05 - 0.05 * (sigmoid(0.05) - 1))


def test_one_client_alone_is_plain_training() -> None:
    # Two steps from 0: w₁ = 0.05, w₂ = w₁ − 0.1·(σ(w₁) − 1).
    method = fedavg(AveragingSettings(local=Local(epochs=2, batch=10, lr=0.1)))
    after = play(method, coin(), {"a": SITES["a"]}, 1)
    assert after["model"].item() == pytest.approx(0.05 - 0.1 * (sigmoid(0.05) - 1))


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_an_empty_client_contributes_nothing(weights: str) -> None:
    method = fedavg(AveragingSettings.model_validate({"local": ONE_STEP, "weights": weights}))
    without = play(method, coin(), SITES, 2)
    with_it = play(method, coin(), {**SITES, "empty": SITES["a"].none()}, 2)
    assert torch.equal(without["model"], with_it["model"])


def test_a_round_in_which_nobody_has_a_record_changes_nothing() -> None:
    after = play(fedavg(AveragingSettings()), coin(), {"empty": SITES["a"].none()}, 1)
    assert after["model"].tolist() == [0.0]


def test_who_is_not_asked_has_no_say() -> None:
    after = play(fedavg(AveragingSettings(local=ONE_STEP)), coin(), SITES, 1, cohorts=[["a"]])
    assert after["model"].item() == pytest.approx(0.05)


def test_a_message_is_the_model_and_one_number() -> None:
    stage = Stage(bound(fedavg(AveragingSettings(local=ONE_STEP)), softmax_net()), {"a": cloud("a", 5)})
    stage.play(1)
    sizes = {part: tensor.numel() * tensor.element_size() for part, tensor in stage.replies[0][2].items()}
    assert sizes == {"change": 4 * 12, "weight": 4}
    assert {part: len(tensor) for part, tensor in stage.briefs[0][2].items()} == {"model": 12}


def slow_fedavg(sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], local: Local, weights: str) -> Vector:
    """SGD as its authors write it: v ← βv + (g + λw), w ← w − ηv, v = 0 at the start of every round."""
    for round, cohort in enumerate(cohorts, start=1):
        models, sizes = [], []
        for name in cohort:
            own = Numbers.of(sites[name], classes=3)
            y, v = w.copy(), np.zeros_like(w)
            for rows in own.batches(name, round, local.epochs or 0, local.batch):
                v = local.momentum * v + own.gradient(y, rows) + local.weight_decay * y
                y = y - local.lr * v
            models.append(y)
            sizes.append(len(own.y) if weights == "size" else 1)
        w = np.average(models, axis=0, weights=sizes)
    return w


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_three_rounds_equal_a_slow_version_in_numpy(weights: str) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "b", "c"]]
    local = Local(epochs=3, batch=4, lr=0.2, momentum=0.9, weight_decay=0.01)
    net = softmax_net()
    slow = slow_fedavg(sites, net.initial().double().numpy(), cohorts, local, weights)
    method = fedavg(AveragingSettings.model_validate({"local": local, "weights": weights}))
    fast = play(method, net, sites, 3, cohorts)
    np.testing.assert_allclose(fast["model"].numpy(), slow, atol=1e-5)


# ---- buffers


def test_running_statistics_are_averaged_with_the_weights_of_the_clients() -> None:
    # A step of 4 records and one of 8: running mean and variance are (4·theirs + 8·theirs) / 12, and one batch moves
    # BatchNorm's from 0 and 1 by a tenth of the way to its mean and unbiased variance, at the first weights.
    sites = {"a": cloud("a", 4), "b": cloud("b", 8)}
    method, net = fedavg(AveragingSettings(local=ONE_STEP)), batchnorm_net()
    first = net.named(net.initial())
    seen = [own.x @ first["body.0.weight"].T + first["body.0.bias"] for own in sites.values()]
    theirs = [torch.cat([0.1 * into.mean(0), 0.9 + 0.1 * into.var(0)]) for into in seen]
    together = play(method, net, sites, 1)["model"][net.buffers]
    assert torch.allclose(together, (4 * theirs[0] + 8 * theirs[1]) / 12, atol=1e-6)


def test_local_running_statistics_stay_at_home() -> None:
    sites = {"a": cloud("a", 4), "b": cloud("b", 8)}
    net = batchnorm_net()
    method = fedavg(AveragingSettings(local=ONE_STEP, buffers="local"))
    stage = Stage(bound(method, net), sites)
    state = stage.play(2)
    assert all("buffers" not in reply for _, _, reply in stage.replies)
    assert all(len(brief["model"]) == net.parameters for _, _, brief in stage.briefs)
    assert torch.equal(state["model"][net.buffers], net.initial()[net.buffers])
    kept = stage.memories["a"]["buffers"]
    assert not torch.allclose(kept, stage.memories["b"]["buffers"])
    at_home = method.personal(stage.client("a"), state["model"][net.trainable])
    assert torch.equal(at_home, torch.cat([state["model"][net.trainable], kept]))


def test_running_statistics_can_be_forbidden() -> None:
    method = fedavg(AveragingSettings(buffers="forbid"))
    method.bind(softmax_net(), 1)
    with pytest.raises(UserError, match="running statistics"):
        method.bind(batchnorm_net(), 1)


def test_a_method_of_ones_own_stays_itself_when_a_term_joins() -> None:
    class Mine(Averaging):
        pass

    assert isinstance(Mine(AveragingSettings()).and_term(Term()), Mine)
