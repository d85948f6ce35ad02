"""FedNTD by hand, beside a slow version, and what it leaves alone."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy_terms import average, by_differences, cross_entropy, features, layered_net
from softmax_by_numpy import Vector
from stage import Stage, batchnorm_net, bound, cloud, coin, image_net, pictures, play, settings_of, softmax_net
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.fedavg import fedavg
from understudy.methods.fedntd import FedNtdSettings, NotTrue, fedntd, log_chances_of_others
from understudy.methods.shared import precompute
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.network import Network


def settings(local: Local, beta: float = 1.0, **more: object) -> Any:
    return settings_of("fedntd", local=local, beta=beta, **more)


# The broadcast model says (0, ln 2, ln 4), the local one (5, 0, 0).
SAID = torch.tensor([[0.0, math.log(2), math.log(4)]])
HERE = torch.tensor([[5.0, 0.0, 0.0]])


def apart(y: int, here: Tensor = HERE, **words: float) -> Tensor:
    net, rows = softmax_net(), torch.arange(1)
    batch = Batch(torch.zeros(1, 3), torch.tensor([y]), 0, None, torch.zeros(1, 3), here, rows)
    term = NotTrue(FedNtdSettings.model_validate(words), Local())
    return term.loss({"said": SAID}, net, net.vector, batch)


def test_the_divergence_of_one_record_by_hand() -> None:
    # y = 0: of classes 1 and 2 the broadcast model gives 2/6 and 4/6, the local one ½ and ½.
    by_hand = 1 / 3 * math.log(2 / 3) + 2 / 3 * math.log(4 / 3)
    assert apart(0).tolist() == pytest.approx([by_hand])
    assert apart(0, beta=0.3).tolist() == pytest.approx([0.3 * by_hand])
    # y = 2: of classes 0 and 1 they give (1/3, 2/3) and (e⁵, 1)/(e⁵ + 1).
    e5 = math.exp(5)
    by_hand = 1 / 3 * math.log((e5 + 1) / (3 * e5)) + 2 / 3 * math.log(2 * (e5 + 1) / 3)
    assert apart(2).tolist() == pytest.approx([by_hand])


def test_a_temperature_softens_both_and_counts_squared() -> None:
    # τ = 2: (√2, 2)/(√2 + 2) against (½, ½), times 4.
    p = math.sqrt(2) / (math.sqrt(2) + 2)
    by_hand = 4 * (p * math.log(2 * p) + (1 - p) * math.log(2 * (1 - p)))
    assert apart(0, temperature=2.0).tolist() == pytest.approx([by_hand], rel=1e-5)


def test_it_has_no_slope_in_the_true_class() -> None:
    here = HERE.clone().requires_grad_()
    apart(1, here).sum().backward()  # type: ignore[no-untyped-call]
    assert here.grad is not None
    assert here.grad[0, 1] == 0
    assert here.grad[0, 0] != 0


def test_chances_are_those_of_the_classes_that_remain() -> None:
    found = log_chances_of_others(torch.arange(8.0).view(2, 4), torch.tensor([3, 1])).exp()
    kept = torch.tensor([[0.0, 1.0, 2.0], [4.0, 6.0, 7.0]])
    assert torch.allclose(found, kept.softmax(1))


def slow_ntd(sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], chosen: Any) -> Vector:
    local: Local = chosen.local

    def others(v: Vector, x: Vector, targets: Vector) -> Vector:
        z = features(v, x) @ v[16:28].reshape(3, 4).T + v[28:31]
        rows = [
            np.delete(row, int(np.argmax(target))) / chosen.temperature for row, target in zip(z, targets, strict=True)
        ]
        chances: Vector = np.array([np.exp(row) / np.exp(row).sum() for row in rows])
        return chances

    def step(_: str, w: Vector, y: Vector, x: Vector, targets: Vector) -> Vector:
        def loss(v: Vector) -> float:
            p, q = others(w, x, targets), others(v, x, targets)
            apart = (p * np.log(p / q)).sum(1).mean()
            return cross_entropy(v, x, targets) + float(chosen.beta * chosen.temperature**2 * apart)

        return y - local.lr * by_differences(loss, y)

    return average(sites, w, cohorts, local, step)


@pytest.mark.parametrize("kept", ["found once", "found batch by batch"])
def test_three_rounds_equal_a_slow_version_in_numpy(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kept == "found batch by batch":
        monkeypatch.setattr(precompute, "MOST", 0)
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "b"]]
    chosen, net = settings(Local(epochs=2, batch=4, lr=0.2), beta=3.0, temperature=2.0), layered_net()
    w = slow_ntd(sites, net.initial().double().numpy(), cohorts, chosen)
    fast = play(fedntd(chosen), net, sites, 3, cohorts)
    np.testing.assert_allclose(fast["model"].numpy(), w, atol=2e-5)


def test_without_its_weight_it_is_fedavg_to_the_last_bit() -> None:
    sites, local = {"a": cloud("a", 7), "b": cloud("b", 12)}, Local(epochs=2, batch=4, lr=0.2, momentum=0.9)
    without = play(fedntd(settings(local, 0.0)), batchnorm_net(), sites, 3)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 3)
    assert torch.equal(without["model"], plain["model"])


def test_the_first_step_is_that_of_fedavg_and_the_second_is_not() -> None:
    sites = {"a": cloud("a", 7)}
    for steps, alike in ((1, True), (2, False)):
        local = Local(steps=steps, batch=7, lr=0.2)
        mine = play(fedntd(settings(local)), softmax_net(), sites, 1)["model"]
        plain = play(fedavg(AveragingSettings(local=local)), softmax_net(), sites, 1)["model"]
        assert torch.allclose(mine, plain, atol=1e-7) is alike


def test_nothing_but_the_model_travels() -> None:
    stage = Stage(bound(fedntd(settings(Local(epochs=1, batch=4))), image_net()), {"a": pictures([0, 1, 2])})
    stage.play(1)
    assert {part for _, _, reply in stage.replies for part in reply} == {"change", "weight"}
    assert {part for _, _, brief in stage.briefs for part in brief} == {"model"}


@pytest.mark.parametrize("net", [coin(), Network(lambda: softmax_net().module, Problem((3,), 3, multilabel=True))])
def test_records_must_have_one_label_of_three_or_more(net: Network) -> None:
    with pytest.raises(UserError, match="fedntd compares models on the classes a record does not have"):
        bound(fedntd(settings(Local())), net)
