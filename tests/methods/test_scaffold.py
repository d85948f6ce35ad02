"""SCAFFOLD by hand, beside a slow version, and what must hold of its control variates."""

import numpy as np
import pytest
import torch
from softmax_by_numpy import Numbers, Vector
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, sigmoid, softmax_net

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.learning.loop import full_gradient
from understudy.methods.fedavg import fedavg
from understudy.methods.scaffold import ScaffoldSettings, scaffold
from understudy.methods.shared.averaging import AveragingSettings

TWO_STEPS = Local(epochs=2, batch=10, lr=0.1)
SITES = {"a": records([1], [0]), "b": records([2], [1])}


def slope_a(w: float) -> float:
    return sigmoid(w) - 1  # one record x=1 of class 0


def slope_b(w: float) -> float:
    return 2 * sigmoid(2 * w)  # one record x=2 of class 1


def settings(option: str, local: Local = TWO_STEPS, **more: object) -> ScaffoldSettings:
    return ScaffoldSettings.model_validate({"option": option, "local": local, **more})


@pytest.mark.parametrize("option", ["I", "II"])
def test_two_rounds_by_hand(option: str) -> None:
    # Round 1, w = 0, no control: a steps by −0.1·(−0.5) to 0.05 and on, b by −0.1·1 to −0.1 and on.
    a, b = 0.05 - 0.1 * slope_a(0.05), -0.1 - 0.1 * slope_b(-0.1)
    w = (a + b) / 2
    # Option II: (0 − y) / (2·0.1), the mean of the two slopes seen. Option I: the slopes at w = 0, −0.5 and 1.
    c_a, c_b = (-a / 0.2, -b / 0.2) if option == "II" else (-0.5, 1.0)
    c = (c_a + c_b) / 2
    stage = Stage(bound(scaffold(settings(option)), coin()), SITES)
    state = stage.play(1)
    assert state["model"].item() == pytest.approx(w)
    assert state["control"].item() == pytest.approx(c)
    assert stage.memories["a"]["control"].item() == pytest.approx(c_a)
    # Round 2: each step goes along slope − c_k + c.
    a1 = w - 0.1 * (slope_a(w) - c_a + c)
    a2 = a1 - 0.1 * (slope_a(a1) - c_a + c)
    b1 = w - 0.1 * (slope_b(w) - c_b + c)
    b2 = b1 - 0.1 * (slope_b(b1) - c_b + c)
    new_a = c_a - c + (w - a2) / 0.2 if option == "II" else slope_a(w)
    new_b = c_b - c + (w - b2) / 0.2 if option == "II" else slope_b(w)
    stage.begin(2)
    state = stage.method.round(stage, state)
    assert state["model"].item() == pytest.approx((a2 + b2) / 2)
    assert stage.memories["b"]["control"].item() == pytest.approx(new_b, rel=1e-5)
    assert state["control"].item() == pytest.approx(c + ((new_a - c_a) + (new_b - c_b)) / 2, rel=1e-5)


def test_the_rates_that_were_used_divide_the_way_that_was_gone() -> None:
    # With the rate halved each round, one step in round 2 has the rate 0.05: c_a⁺ is the slope at w again.
    local = Local(epochs=1, batch=10, lr=0.1, schedule="exponential", decay=0.5)
    stage = Stage(bound(scaffold(settings("II", local)), coin(), 2), SITES)
    state = stage.play(1)
    w = state["model"].item()
    stage.begin(2)
    stage.method.round(stage, state)
    assert stage.memories["a"]["control"].item() == pytest.approx(slope_a(w), rel=1e-4)


def slow_scaffold(
    sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], chosen: ScaffoldSettings
) -> tuple[Vector, Vector, dict[str, Vector]]:
    """Algorithm 1, line by line, with n_k weights on the models and none on the control variates."""
    local, c = chosen.local, np.zeros_like(w)
    kept = {name: np.zeros_like(w) for name in sites}
    for round, cohort in enumerate(cohorts, start=1):
        changes, sizes, news = [], [], []
        for name in cohort:
            own = Numbers.of(sites[name], classes=3)
            y, steps = w.copy(), 0
            for rows in own.batches(name, round, local.epochs or 0, local.batch):
                y, steps = y - local.lr * (own.gradient(y, rows) - kept[name] + c), steps + 1
            everything = own.gradient(w, range(len(own.y)))
            new = everything if chosen.option == "I" else kept[name] - c + (w - y) / (steps * local.lr)
            changes.append(y - w)
            sizes.append(len(own.y))
            news.append(new - kept[name])
            kept[name] = new
        w = w + chosen.server_lr * np.average(changes, axis=0, weights=sizes)
        c = c + np.sum(news, axis=0) / len(sites)
    return w, c, kept


@pytest.mark.parametrize("option", ["I", "II"])
def test_three_rounds_equal_a_slow_version_in_numpy(option: str) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3), "d": cloud("d", 5)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "c"]]
    chosen = settings(option, Local(epochs=2, batch=4, lr=0.2), server_lr=0.7)
    net = softmax_net()
    w, c, kept = slow_scaffold(sites, net.initial().double().numpy(), cohorts, chosen)
    stage = Stage(bound(scaffold(chosen), net, 3), sites, cohorts)
    state = stage.play(3)
    np.testing.assert_allclose(state["model"].numpy(), w, atol=1e-5)
    np.testing.assert_allclose(state["control"].numpy(), c, atol=1e-5)
    for name in "abc":
        np.testing.assert_allclose(stage.memories[name]["control"].numpy(), kept[name], atol=1e-5)
    assert "control" not in stage.memories["d"]  # never asked: c_d = 0


@pytest.mark.parametrize("option", ["I", "II"])
def test_the_servers_control_is_the_mean_over_all_clients(option: str) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    method = scaffold(settings(option, Local(epochs=2, batch=4, lr=0.2)))
    stage = Stage(bound(method, softmax_net()), sites)
    state = stage.play(4)
    mean = torch.stack([stage.memories[name]["control"] for name in sites]).mean(0)
    assert torch.allclose(state["control"], mean, atol=1e-6)


def test_who_was_never_asked_counts_as_zero_in_the_mean() -> None:
    # N = 2 and only a is asked: c = (c_a + 0) / 2.
    stage = Stage(bound(scaffold(settings("II")), coin()), SITES, cohorts=[["a"], ["a"]])
    state = stage.play(2)
    assert state["control"].item() == pytest.approx(stage.memories["a"]["control"].item() / 2)


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_the_first_round_is_fedavg_to_the_last_bit(option: str, weights: str) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    local = Local(epochs=2, batch=4, lr=0.2, weight_decay=0.01)
    corrected = play(scaffold(settings(option, local, weights=weights)), batchnorm_net(), sites, 1)
    plain = AveragingSettings.model_validate({"local": local, "weights": weights})
    assert torch.equal(corrected["model"], play(fedavg(plain), batchnorm_net(), sites, 1)["model"])


def test_option_one_keeps_the_gradient_over_all_records_at_the_broadcast_model() -> None:
    own, net = cloud("a", 7), softmax_net()
    stage = Stage(bound(scaffold(settings("I", Local(epochs=1, batch=3, lr=0.2))), net), {"a": own})
    stage.play(1)
    assert torch.allclose(stage.memories["a"]["control"], full_gradient(net, net.initial(), own, 100), atol=1e-6)


@pytest.mark.parametrize("option", ["I", "II"])
def test_an_empty_client_leaves_the_control_alone(option: str) -> None:
    sites = {**SITES, "empty": SITES["a"].none()}
    stage = Stage(bound(scaffold(settings(option)), coin()), sites)
    state = stage.play(1)
    assert "control" not in stage.memories["empty"]
    both = stage.memories["a"]["control"] + stage.memories["b"]["control"]
    assert state["control"].item() == pytest.approx(both.item() / 3)  # all N are counted


def test_a_round_without_records_changes_nothing() -> None:
    after = play(scaffold(settings("II")), coin(), {"empty": SITES["a"].none()}, 1)
    assert after["model"].tolist() == after["control"].tolist() == [0.0]


def test_momentum_is_refused() -> None:
    with pytest.raises(UserError, match="momentum must be 0"):
        scaffold(settings("II", Local(momentum=0.9)))


def test_control_variates_never_touch_running_statistics() -> None:
    # One step: the statistics come from the forward pass at w, whatever the control does to the step after it.
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    net = batchnorm_net()
    local = Local(epochs=1, batch=20, lr=0.2)
    method = bound(scaffold(settings("II", local, server_lr=0.5)), net)
    stage = Stage(method, sites)
    opening = method.start(stage)
    assert opening["control"].shape == (net.parameters,)
    stage.begin(1)
    pulled = method.round(stage, opening.but(control=torch.full((net.parameters,), 5.0)))
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 1)
    assert torch.equal(pulled["model"][net.buffers], plain["model"][net.buffers])
    assert not torch.allclose(pulled["model"][net.trainable], plain["model"][net.trainable])
    assert all(len(stage.memories[name]["control"]) == net.parameters for name in sites)


def test_a_message_is_twice_the_model_both_ways() -> None:
    stage = Stage(bound(scaffold(settings("II")), softmax_net()), {"a": cloud("a", 5)})
    stage.play(1)
    assert {part: t.numel() for part, t in stage.replies[0][2].items()} == {"change": 12, "control": 12, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[0][2].items()} == {"model": 12, "control": 12}
