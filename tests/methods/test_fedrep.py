"""FedRep by hand, beside a slow version, and what stays at home."""

import numpy as np
import pytest
import torch
from numpy_personal import BODY, layered_net, slow_fedrep
from stage import Body, Stage, batchnorm_net, bound, cloud, coin, records, sigmoid, softmax_net
from torch import Tensor, nn

from understudy.config.resolve import resolve
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.fedrep import FedRep, FedRepSettings
from understudy.models.network import Network

HALF = {"head_parts": 1, "body_parts": 1, "tuning_epochs": 0}


def settings(local: Local, **more: object) -> FedRepSettings:
    return FedRepSettings.model_validate({"local": local, **HALF, **more})


class _Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([factor]))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


class _OneSided(_Times):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.factor * x, torch.zeros_like(x)], 1)


def two_numbers() -> Network:
    """Body a = 1, head h = 0.5: class 0 has probability σ(h·a·x)."""
    return Network(lambda: Body(_Times(1.0), _OneSided(0.5)), Problem(shape=(1,), classes=2))


# The loss of class 0 is −log σ(hax): slope (σ(hax) − 1)·a·x in h and (σ(hax) − 1)·h·x in a. Class 1: σ for σ − 1.
SITES = {"p": records([1], [0]), "q": records([2, 2, 2], [1, 1, 1])}
TWO_STEPS = Local(epochs=2, batch=10, lr=0.1)


def test_one_round_by_hand() -> None:
    # First the head under a = 1, then the body under the new head.
    h_p = 0.5 - 0.1 * (sigmoid(0.5) - 1)
    a_p = 1 - 0.1 * (sigmoid(h_p) - 1) * h_p
    h_q = 0.5 - 0.1 * sigmoid(0.5 * 2) * 2
    a_q = 1 - 0.1 * sigmoid(h_q * 2) * h_q * 2
    stage = Stage(bound(FedRep(settings(TWO_STEPS)), two_numbers()), SITES)
    state = stage.play(1)
    # Bodies are averaged 1 to 3; heads are not averaged at all.
    assert state["model"].tolist() == pytest.approx([(a_p + 3 * a_q) / 4, 0.5])
    assert stage.memories["p"]["head"].tolist() == pytest.approx([h_p])
    assert stage.memories["q"]["head"].tolist() == pytest.approx([h_q])


def test_the_second_round_goes_on_from_ones_own_head() -> None:
    stage = Stage(bound(FedRep(settings(TWO_STEPS)), two_numbers()), SITES)
    state = stage.play(1)
    a, h = state["model"][0].item(), stage.memories["p"]["head"].item()
    stage.begin(2)
    stage.method.round(stage, state)
    assert stage.memories["p"]["head"].item() == pytest.approx(h - 0.1 * (sigmoid(h * a) - 1) * a)


def test_three_rounds_equal_a_slow_version_in_numpy() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b"], ["a", "b"]]
    local = Local(epochs=5, batch=4, lr=0.2, momentum=0.9, weight_decay=0.05, decay_on="weights")
    net = layered_net()
    body, heads = slow_fedrep(sites, net.initial().double().numpy(), cohorts, local, 3, 2)
    stage = Stage(bound(FedRep(settings(local, head_parts=3, body_parts=2)), net, 3), sites, cohorts)
    state = stage.play(3)
    np.testing.assert_allclose(state["model"][:BODY].numpy(), body, atol=1e-5)
    for name in "ab":
        np.testing.assert_allclose(stage.memories[name]["head"].numpy(), heads[name], atol=1e-5)
    assert not stage.memories["c"]  # never asked


def test_each_phase_moves_its_own_part_alone() -> None:
    # All the steps to the head: the body does not move, in spite of momentum and decay; then none of them.
    local = Local(epochs=4, batch=4, lr=0.2, momentum=0.9, weight_decay=0.1)
    sites, net = {"a": cloud("a", 7)}, layered_net()
    stage = Stage(bound(FedRep(settings(local, head_parts=10**6)), net), sites)
    state = stage.play(1)
    assert torch.equal(state["model"], net.initial())
    assert not torch.allclose(stage.memories["a"]["head"], net.initial()[net.head])
    stage = Stage(bound(FedRep(settings(local, head_parts=0)), net), sites)
    state = stage.play(1)
    assert torch.equal(stage.memories["a"]["head"], net.initial()[net.head])
    assert not torch.allclose(state["model"][net.body], net.initial()[net.body])


def test_only_the_body_travels() -> None:
    stage = Stage(bound(FedRep(settings(TWO_STEPS)), layered_net()), {"a": cloud("a", 5)})
    stage.play(2)
    assert all({p: t.numel() for p, t in reply.items()} == {"change": BODY, "weight": 1} for *_, reply in stage.replies)
    assert all({p: t.numel() for p, t in brief.items()} == {"model": BODY} for *_, brief in stage.briefs)


def test_running_statistics_travel_beside_the_body() -> None:
    # Linear 3 → 4 with bias is 16, the norm 8; it keeps 4 means and 4 variances. The head of 15 stays.
    net = batchnorm_net()
    stage = Stage(bound(FedRep(settings(TWO_STEPS)), net), {"a": cloud("a", 5), "b": cloud("b", 9)})
    state = stage.play(2)
    assert {p: t.numel() for p, t in stage.replies[0][2].items()} == {"change": 24, "buffers": 8, "weight": 1}
    assert stage.briefs[0][2]["model"].numel() == 24 + 8
    assert not torch.allclose(state["model"][net.buffers], net.initial()[net.buffers])


def test_the_parts_share_out_steps_and_epochs() -> None:
    # The paper's 11 epochs: 10 and 1. FedCOG's 400 steps: 400·10/11 = 363.6 and 36.4.
    assert FedRepSettings().head_steps(11 * 7) == 10 * 7
    assert FedRepSettings().head_steps(400) == 364
    # CIFAR-100: 10 and 5 epochs.
    words = {"data": {"name": "digits"}, "model": {"name": "mlp"}, "method": {"name": "fedrep", "preset": "cifar100"}}
    chosen = resolve(words, {}).method.settings
    assert isinstance(chosen, FedRepSettings)
    assert (chosen.local.epochs, chosen.head_steps(15)) == (15, 10)


def test_a_score_is_of_the_body_at_hand_under_a_head_tuned_to_it() -> None:
    # By hand: the kept head, one more step under the body that came, and nothing of it is kept.
    chosen = settings(TWO_STEPS, tuning_epochs=1)
    stage = Stage(bound(FedRep(chosen), two_numbers()), SITES)
    state = stage.play(1)
    a, h = state["model"][0].item(), stage.memories["p"]["head"].item()
    client = stage.client("p", round=2)
    personal = stage.method.personal(client, state["model"][:1])
    assert personal.tolist() == pytest.approx([a, h - 0.1 * (sigmoid(h * a) - 1) * a])
    assert client.memory["head"].item() == h
    assert not client.memory.changed


def test_tuning_for_a_score_leaves_running_statistics_as_they_came() -> None:
    net = batchnorm_net()
    stage = Stage(bound(FedRep(settings(TWO_STEPS, tuning_epochs=3)), net), {"a": cloud("a", 5)})
    sent = stage.method.model_brief(stage.play(1))["model"]
    personal = stage.method.personal(stage.client("a", round=2), sent)
    assert torch.equal(personal[net.buffers], sent[net.body.stop :])
    assert torch.equal(personal[net.body], sent[net.body])
    assert not torch.allclose(personal[net.head], stage.memories["a"]["head"])


def test_who_was_never_asked_is_scored_with_a_head_of_its_own_too() -> None:
    stage = Stage(bound(FedRep(settings(TWO_STEPS, tuning_epochs=1)), two_numbers()), SITES, cohorts=[["p"]])
    state = stage.play(1)
    a = state["model"][0].item()
    personal = stage.method.personal(stage.client("q", round=2), state["model"][:1])
    assert personal.tolist() == pytest.approx([a, 0.5 - 0.1 * sigmoid(0.5 * a * 2) * a * 2])


def test_an_empty_client_contributes_nothing() -> None:
    with_it = Stage(bound(FedRep(settings(TWO_STEPS)), two_numbers()), {**SITES, "empty": SITES["p"].none()}).play(2)
    without = Stage(bound(FedRep(settings(TWO_STEPS)), two_numbers()), SITES).play(2)
    assert torch.equal(with_it["model"], without["model"])
    alone = Stage(bound(FedRep(settings(TWO_STEPS)), two_numbers()), {"empty": SITES["p"].none()})
    assert alone.play(1)["model"].tolist() == [1.0, 0.5]
    assert alone.method.personal(alone.client("empty"), torch.ones(1)).tolist() == [1.0, 0.5]


def test_a_network_without_a_head_or_without_a_body_is_refused() -> None:
    bare = Network(lambda: Body(nn.Linear(3, 3), nn.Identity()), Problem(shape=(3,), classes=3))
    with pytest.raises(UserError, match="the head of this network has no parameters"):
        FedRep(FedRepSettings()).bind(bare, 1)
    for all_head in (softmax_net(), coin()):
        with pytest.raises(UserError, match="the body of this network has no parameters"):
            FedRep(FedRepSettings()).bind(all_head, 1)
