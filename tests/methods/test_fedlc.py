"""FedLC by hand, beside a slow version, and what it counts."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy_terms import average, by_differences, features, layered_net
from softmax_by_numpy import Vector
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, settings_of, sigmoid, softmax_net
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Message, labels_to_wire
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.fedavg import fedavg
from understudy.methods.fedlc import Calibration, fedlc, margins
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.network import Network


def settings(local: Local, tau: float = 1.0) -> Any:
    return settings_of("fedlc", local=local, tau=tau)


def loss(logits: list[float], y: int, held: list[int], tau: float = 1.0) -> float:
    """Of one record, at a client that has so many of each class."""
    net, term = softmax_net(classes=len(held)), Calibration(tau)
    batch = Batch(torch.zeros(1, 3), torch.tensor([y]), 0, None, torch.zeros(1, 3), torch.tensor([logits]))
    return term.data_loss({"margins": margins(torch.tensor(held), tau)}, net, batch).item()


def test_the_loss_of_one_record_by_hand() -> None:
    # 1, 16 and 81 records have the margins 1, 1/2 and 1/3; logits (1, ½, ⅓) become (0, 0, 0).
    assert loss([1, 1 / 2, 1 / 3], 0, [1, 16, 81]) == pytest.approx(math.log(3))
    # At τ = 2 the margins are 2, 1 and 2/3, and logits (2 + ln 2, 1, ⅔) become (ln 2, 0, 0): chances ½, ¼, ¼.
    assert loss([2 + math.log(2), 1, 2 / 3], 0, [1, 16, 81], tau=2) == pytest.approx(math.log(2))
    assert loss([2 + math.log(2), 1, 2 / 3], 2, [1, 16, 81], tau=2) == pytest.approx(math.log(4))


def test_two_steps_by_hand() -> None:
    # One record of class 0 with x = 1, sixteen of class 1 with x = 0, which have no slope. The logits (w, 0) of the
    # first become (w − 1, −½), so class 0 has the chance σ(w − ½) and a batch of all 17 the slope (σ(w − ½) − 1) / 17.
    sites, local = {"a": records([1] + [0] * 16, [0] + [1] * 16)}, Local(epochs=2, batch=17, lr=1.7)
    first = 0.1 * (1 - sigmoid(-0.5))
    by_hand = first + 0.1 * (1 - sigmoid(first - 0.5))
    assert play(fedlc(settings(local)), coin(), sites, 1)["model"].item() == pytest.approx(by_hand)


def test_a_class_without_records_has_no_share_and_no_slope() -> None:
    assert margins(torch.tensor([0, 1]), 0.5).tolist() == pytest.approx([50, 0.5])  # (1e-8)^(−1/4) = 100
    # What is left of (1, 0, 9) is (1, 0), of 16 records each: the margins cancel.
    assert loss([1, 0, 9], 0, [16, 16, 0]) == pytest.approx(-math.log(sigmoid(1)))
    plain = softmax_net()
    after = play(fedlc(settings(Local(epochs=3, lr=0.5))), plain, {"a": records([[1, 2, 3], [3, 1, 0]], [0, 1])}, 1)
    moved = after["model"] - plain.initial()
    assert moved[6:9].tolist() == [0, 0, 0]
    assert moved[11] == 0
    assert moved[0] != 0


def test_a_label_that_was_not_counted_still_has_a_finite_loss() -> None:
    assert loss([0, 0, 0], 2, [16, 16, 0]) == pytest.approx(100 - 0.5 + math.log(2))


def test_outputs_of_another_term_have_no_margin() -> None:
    # A fourth output beside three classes: (1, ½, ⅓, 0) become four zeros.
    assert loss([1, 1 / 2, 1 / 3, 0], 0, [1, 16, 81]) == pytest.approx(math.log(4))


def test_records_that_a_client_was_dealt_count_like_its_own() -> None:
    method, term = bound(fedlc(settings(Local())), coin()), Calibration(1.0)
    client = Stage(method, {"a": records([1], [0])}).client("a", 1)
    client.keep_dealt(Message(x=torch.zeros(16, 1), y=labels_to_wire(torch.ones(16, dtype=torch.int64), 2)))
    kit = term.begin(client, Message(), method.net)
    assert kit is not None
    assert kit["margins"].tolist() == pytest.approx([1, 0.5])


def slow_calibrated(
    sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], local: Local, tau: float
) -> Vector:
    def step(name: str, _: Vector, y: Vector, x: Vector, targets: Vector) -> Vector:
        held = [max(sites[name].y.tolist().count(c), 1e-8) for c in range(3)]

        def calibrated(v: Vector) -> float:
            total = 0.0
            for row, target in zip(features(v, x) @ v[16:28].reshape(3, 4).T + v[28:31], targets, strict=True):
                shares = [math.exp(f - tau / n ** (1 / 4)) for f, n in zip(row, held, strict=True)]
                total -= math.log(shares[int(np.argmax(target))] / sum(shares))
            return total / len(x)

        return y - local.lr * by_differences(calibrated, y)

    return average(sites, w, cohorts, local, step)


def test_three_rounds_equal_a_slow_version_in_numpy() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": records([[1, 0, 2], [0, 1, 1], [2, 2, 0]], [0, 2, 0])}
    cohorts = [["a", "b"], ["b", "c"], ["a", "b"]]
    local, net = Local(epochs=2, batch=4, lr=0.2), layered_net()
    w = slow_calibrated(sites, net.initial().double().numpy(), cohorts, local, 1.5)
    fast: Tensor = play(fedlc(settings(local, 1.5)), net, sites, 3, cohorts)["model"]
    np.testing.assert_allclose(fast.numpy(), w, atol=2e-5)


def test_without_margins_it_is_fedavg_to_the_last_bit() -> None:
    sites, local = {"a": cloud("a", 7), "b": cloud("b", 12)}, Local(epochs=2, batch=4, lr=0.2, momentum=0.9)
    without = play(fedlc(settings(local, 0.0)), batchnorm_net(), sites, 3)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 3)
    assert torch.equal(without["model"], plain["model"])


def test_records_must_have_one_label() -> None:
    several = Network(lambda: softmax_net().module, Problem((3,), 3, multilabel=True))
    with pytest.raises(UserError, match="fedlc calibrates classes against each other"):
        bound(fedlc(settings(Local())), several)
