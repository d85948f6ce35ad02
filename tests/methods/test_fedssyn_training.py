"""Fedssyn in training: its controls, the method underneath, and that it costs no extra step."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from painted import LOCAL, SITES, Painted, add, dealt, opened, painted, staged
from stage import image_net, play
from torch import Tensor

from understudy.config.build import method_with_add_ons
from understudy.config.resolve import resolve
from understudy.federation.method import Method
from understudy.learning import loop
from understudy.learning.loop import Feed, Trained
from understudy.methods.fedavg import fedavg
from understudy.methods.fedcog import Consensus
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.methods.fedssyn.fedssyn import POOL_Y, Fedssyn
from understudy.methods.scaffold import ScaffoldSettings, scaffold
from understudy.methods.shared import averaging
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Term
from understudy.models.network import Network


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    with painted():
        yield


# ---- the controls


def test_own_images_stay_with_who_made_them() -> None:
    stage = staged(add(deal="own"))
    stage.play(1)
    assert all(not reply for round, _, reply in stage.replies if round == 0)
    assert not dealt(stage)
    assert {name: stage.client(name).dealt.y.tolist() for name in SITES} == {
        "a": [0, 0, 0, 0, 1, 1],
        "b": [2] * 8,
        "c": [],
    }


def test_real_records_can_be_shuffled_instead() -> None:
    stage = staged(add(source="real"))
    stage.play(1)
    assert not Painted.seen
    before = Counter(tuple(x.flatten().tolist()) for own in SITES.values() for x in own.x)
    after = Counter(tuple(x.flatten().tolist()) for name in SITES for x in stage.client(name).dealt.x)
    assert before == after


def test_only_the_wanted_number_of_real_records_is_shared() -> None:
    stage = staged(add(source="real", images=2))
    state = opened(stage)
    assert [len(reply["y"]) for _, _, reply in stage.replies] == [2, 2, 1]
    assert len(state[POOL_Y]) == 5


# ---- with the method underneath


def steps_taken(method: Method, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """Gradient steps of each task, and from how many records."""
    steps, pools = [], []

    def watched(net: Network, w: Tensor, feed: Feed, *rest: Any, **more: Any) -> Trained:
        steps.append(len(feed.plan))
        pools.append(len(feed.examples))
        return loop.train(net, w, feed, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr(averaging, "train", watched)
        staged(method).play(2)
    return steps, pools


def test_dealt_records_cost_no_extra_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # 6, 8 and 1 records in batches of 4, two epochs: 4, 4 and 2 steps, in both rounds.
    alone, own = steps_taken(fedavg(AveragingSettings(local=LOCAL)), monkeypatch)
    joined, more = steps_taken(add(), monkeypatch)
    assert alone == joined == [4, 4, 2] * 2
    assert own == [6, 8, 1] * 2
    assert more == [6 + 5, 8 + 5, 1 + 4] * 2


def test_the_weight_of_a_client_is_that_of_its_own_records() -> None:
    stage = staged(add())
    stage.play(1)
    assert [reply["weight"].item() for round, _, reply in stage.replies if round == 1] == [6, 8, 1]


def test_an_empty_client_keeps_its_part_and_does_not_train() -> None:
    stage = staged(add(), {**SITES, "empty": SITES["a"].none()})
    stage.play(1)
    (reply,) = [reply for round, name, reply in stage.replies if round == 1 and name == "empty"]
    assert reply["weight"].item() == 0
    assert not reply["change"].any()
    assert len(stage.client("empty").dealt) == 3


@pytest.mark.parametrize("inner", ["scaffold", "feddm"])
def test_it_joins_any_method(inner: str) -> None:
    methods: dict[str, Method] = {
        "scaffold": scaffold(ScaffoldSettings(local=LOCAL)),
        "feddm": FedDM(FedDMSettings(ipc=1, steps=1, real_batch=4, min_class_records=3, server=LOCAL)),
    }
    stage = staged(add(methods[inner]))
    state = stage.play(2)
    assert torch.isfinite(state["model"]).all()
    assert all(len(stage.client(name).dealt) for name in SITES)


def test_the_order_of_add_ons_does_not_matter() -> None:
    cog = {"name": "fedcog", "kd_weighting": "fixed", "images": 4, "steps": 1, "kd_weight": 0.5}
    syn = {"name": "fedssyn", "generator": "painted"}
    ends = []
    for chosen in ([cog, syn], [syn, cog]):
        words = {"method": {"name": "scaffold", "local": {"epochs": 1, "batch": 4}}, "with": chosen}
        method = method_with_add_ons(resolve(words))
        assert isinstance(method, Fedssyn)
        assert isinstance(method.inner, Averaging)
        kinds: list[type[Term]] = [type(term) for term in method.inner.terms]
        assert kinds[-1] is Consensus
        ends.append(staged(method).play(2)["model"])
    assert torch.equal(ends[0], ends[1])


def test_without_images_it_is_the_method_underneath() -> None:
    assert torch.equal(
        play(add(images=0), image_net(), SITES, 2)["model"],
        play(fedavg(AveragingSettings(local=LOCAL)), image_net(), SITES, 2)["model"],
    )
