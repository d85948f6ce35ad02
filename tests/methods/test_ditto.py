"""Ditto by hand, beside a slow version, and next to FedAvg."""

import numpy as np
import pytest
import torch
from numpy_personal import layered_net, slow_ditto
from stage import Stage, batchnorm_net, bound, cloud, coin, image_net, pictures, play, records, sigmoid, softmax_net

from understudy.learning.local import Local
from understudy.learning.loop import Trained
from understudy.methods.ditto import Ditto, DittoSettings
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import AveragingSettings

TWO_STEPS = Local(epochs=2, batch=10, lr=0.1)
SITES = {"a": records([1], [0]), "b": records([2], [1])}


def slope_a(w: float) -> float:
    return sigmoid(w) - 1  # one record x=1 of class 0


def settings(local: Local = TWO_STEPS, **more: object) -> DittoSettings:
    return DittoSettings.model_validate({"local": local, "weights": "size", **more})


def test_two_rounds_by_hand() -> None:
    # Round 1: everything starts at w_0 = 0. The first step of v feels no pull, the second is drawn back to 0.
    v1 = -0.1 * slope_a(0)
    v2 = v1 - 0.1 * (slope_a(v1) + 0.5 * (v1 - 0))
    stage = Stage(bound(Ditto(settings(pull=0.5)), coin()), SITES)
    state = stage.play(1)
    assert stage.memories["a"]["personal"].item() == pytest.approx(v2)
    # Round 2: v goes on from where it was and is drawn to the new w.
    w = state["model"].item()
    v3 = v2 - 0.1 * (slope_a(v2) + 0.5 * (v2 - w))
    v4 = v3 - 0.1 * (slope_a(v3) + 0.5 * (v3 - w))
    stage.begin(2)
    stage.method.round(stage, state)
    assert stage.memories["a"]["personal"].item() == pytest.approx(v4)


def test_three_rounds_equal_a_slow_version_in_numpy() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b"], ["a", "b"]]
    local = Local(epochs=3, batch=4, lr=0.1, momentum=0.9, weight_decay=0.01)
    net = layered_net()
    w, personal = slow_ditto(sites, net.initial().double().numpy(), cohorts, local, 0.7)
    stage = Stage(bound(Ditto(settings(local, pull=0.7)), net, 3), sites, cohorts)
    state = stage.play(3)
    np.testing.assert_allclose(state["model"].numpy(), w, atol=1e-5)
    for name in "ab":
        np.testing.assert_allclose(stage.memories[name]["personal"].numpy(), personal[name], atol=1e-5)
    assert not stage.memories["c"]  # never asked


@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize("buffers", ["average", "local"])
def test_the_global_model_is_fedavgs_to_the_last_bit(weights: str, buffers: str) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 5)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "c"]]
    local = Local(epochs=2, batch=4, lr=0.2, momentum=0.9, weight_decay=0.01)
    words = {"local": local, "weights": weights, "buffers": buffers}
    with_personal = play(Ditto(DittoSettings.model_validate(words)), batchnorm_net(), sites, 3, cohorts)
    plain = play(fedavg(AveragingSettings.model_validate(words)), batchnorm_net(), sites, 3, cohorts)
    assert torch.equal(with_personal["model"], plain["model"])


def test_it_is_fedavgs_with_dropout_and_augmentation_too() -> None:
    sites = {"a": pictures([0, 1, 2, 0, 1]), "b": pictures([2, 1, 0], name="others")}
    local = Local(epochs=2, batch=2, lr=0.1, augment=("flip", "crop"))
    mine = play(Ditto(settings(local)), image_net(dropout=0.5), sites, 2)
    plain = play(fedavg(AveragingSettings(local=local)), image_net(dropout=0.5), sites, 2)
    assert torch.equal(mine["model"], plain["model"])


def test_both_models_see_the_same_augmented_batches() -> None:
    # Without a pull v walks as w does; in the first round from the same start, so it ends at the same place.
    local = Local(epochs=3, batch=2, lr=0.1, augment=("flip", "crop"))
    stage = Stage(bound(Ditto(settings(local, pull=0)), image_net()), {"a": pictures([0, 1, 2, 0, 1])})
    state = stage.play(1)
    assert torch.allclose(stage.memories["a"]["personal"], state["model"], atol=1e-6)


def test_running_statistics_of_the_personal_model_are_its_own() -> None:
    net = batchnorm_net()
    stage = Stage(bound(Ditto(settings()), net), {"a": cloud("a", 7), "b": cloud("b", 12)})
    state = stage.play(2)
    kept = stage.memories["a"]["personal"]
    assert len(kept) == net.size
    assert not torch.allclose(kept[net.buffers], state["model"][net.buffers])


def test_the_personal_model_is_what_a_client_scores_and_never_travels() -> None:
    stage = Stage(bound(Ditto(settings()), softmax_net()), {"a": cloud("a", 5), "b": cloud("b", 6)}, cohorts=[["a"]])
    state = stage.play(1)
    method = stage.method
    assert torch.equal(method.personal(stage.client("a"), state["model"]), stage.memories["a"]["personal"])
    # Who was never asked is still at w_0.
    assert torch.equal(method.personal(stage.client("b"), state["model"]), method.net.initial())
    assert {part: t.numel() for part, t in stage.replies[0][2].items()} == {"change": 12, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[0][2].items()} == {"model": 12}


def test_local_scores_are_of_the_personal_model() -> None:
    stage = Stage(bound(Ditto(settings()), coin()), SITES)
    w = stage.play(1)["model"]
    assert isinstance(stage.method, Ditto)
    found = stage.method.personal_model(stage.client("a"), Trained(w, w, steps=1, rate_sum=0.1, records=1))
    assert torch.equal(found, stage.memories["a"]["personal"])


def test_an_empty_client_keeps_nothing_and_changes_nothing() -> None:
    stage = Stage(bound(Ditto(settings()), coin()), {**SITES, "empty": SITES["a"].none()})
    state = stage.play(2)
    assert not stage.memories["empty"]
    assert torch.equal(state["model"], play(Ditto(settings()), coin(), SITES, 2)["model"])
