"""Central training: one model on everything, real or made."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from painted import Painted, add, painted
from stage import Stage, bound, cloud, image_net, pictures, softmax_net

from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.learning.plan import passes
from understudy.methods.central import POOL, Central, CentralSettings
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.privacy.promise import PrivacySettings
from understudy.randomness import generator

LOCAL = Local(epochs=2, batch=4, lr=0.1)
SITES = {"a": cloud("a", 6), "b": cloud("b", 5)}


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    with painted():
        yield


def central(**given: Any) -> Central:
    return Central(CentralSettings.model_validate({"generator": "painted", "local": LOCAL, **given}))


def test_a_round_is_training_on_all_records_together() -> None:
    # By hand: the same loop over the eleven records, in the order that the server's stream for the pool gives.
    net = softmax_net()
    state = Stage(bound(central(), softmax_net()), SITES).play(2)
    w, pool = net.initial(), SITES["a"].and_also(SITES["b"])
    for round in (1, 2):
        # eleven records in batches of four: three steps an epoch
        plan = passes(11, 6, 4, generator(0, round, "server", "pool"))
        w = train(net, w, Feed(pool, plan), Descent(LOCAL, 0.1)).model
    assert torch.equal(state["model"], w)


def test_records_are_handed_over_once() -> None:
    stage = Stage(bound(central(), softmax_net()), SITES, [["a"], ["a", "b"], ["a", "b"]])
    state = stage.play(3)
    assert [(round, name) for round, name, _ in stage.briefs] == [(1, "a"), (2, "b")]
    kept = [part.removeprefix(POOL.prefix) for part in state if part.startswith(POOL.prefix)]
    assert kept == ["a.x", "a.y", "b.x", "b.y"]


def test_made_images_can_stand_in_for_records() -> None:
    sites = {"a": pictures([0, 0, 1, 1], name="a"), "b": pictures([2] * 8, name="b"), "c": pictures([1], name="c")}
    stage = Stage(bound(central(source="generator", records=1.0, images=6), image_net()), sites)
    stage.play(1)
    assert len(Painted.seen) == 2
    assert {name: reply["y"].tolist() for _, name, reply in stage.replies} == {
        "a": [0, 0, 0, 1, 1, 1],
        "b": [2] * 6,
        "c": [],  # too few records for a generator
    }
    assert all(reply["x"].dtype == torch.uint8 for _, _, reply in stage.replies)


def test_nobody_with_records_leaves_the_model_as_it_is() -> None:
    state = Stage(bound(central(), softmax_net()), {"a": SITES["a"].none()}).play(1)
    assert torch.equal(state["model"], softmax_net().initial())


def test_with_fedssyn_dealt_images_come_along() -> None:
    sites = {"a": pictures([0, 0, 1, 1], name="a"), "b": pictures([2] * 4, name="b")}
    stage = Stage(bound(add(central()), image_net()), sites)
    stage.play(1)
    assert [len(reply["y"]) for round, _, reply in stage.replies if round == 1] == [8, 8]


def test_several_labels_a_record_are_no_obstacle_for_real_ones() -> None:
    problem, chosen = Problem(shape=(3,), classes=2, multilabel=True), entry("softmax")
    net = Network(lambda: chosen.build(problem, chosen.settings()), problem)
    own = Examples(cloud("several", 4).x, torch.tensor([[1.0, 1], [0, 1], [1, 0], [0, 0]]))
    state = Stage(bound(central(), net), {"a": own}).play(1)
    assert not torch.equal(state["model"], net.initial())
    with pytest.raises(UserError, match="must have exactly one label"):
        bound(central(source="generator"), net)


def test_a_reply_that_does_not_fit_is_refused() -> None:
    sites = {"a": SITES["a"], "b": Examples(SITES["b"].x, SITES["b"].y + 7)}
    stage = Stage(bound(central(), softmax_net()), sites)
    state = stage.play(1)
    assert f"{POOL.prefix}b.y" not in state
    assert f"{POOL.prefix}a.y" in state


def test_it_promises_nothing() -> None:
    method: Method = central()
    method.privacy = PrivacySettings(epsilon=3)
    with pytest.raises(UserError, match=r"no privacy\.epsilon can hold"):
        bound(method, softmax_net())


def test_a_wrong_setting_of_its_generator_is_named_in_full() -> None:
    with pytest.raises(UserError, match=r"method\.generator\.epoch"):
        resolve({"method": {"name": "central", "generator": {"name": "vae", "epoch": 3}}})
