"""Understudy: which classes a client sends images of, how the server learns from them, and what is refused."""

import math
from collections.abc import Iterator

import pytest
import torch
from painted import Painted, painted
from stage import Stage, bound, image_net, pictures

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import labels_from_wire
from understudy.learning.local import Local
from understudy.methods.understudy import STOPPED_EARLY, Understudy, UnderstudySettings, cooling
from understudy.privacy.promise import PrivacySettings

SERVER = Local(epochs=7, batch=4, lr=0.05, augment=("warp",))


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    with painted():
        yield


def method(**given: object) -> Understudy:
    quick = {"generator": "painted", "min_class_records": 4, "records": 1.0, "server": SERVER}
    return Understudy(UnderstudySettings.model_validate({**quick, **given}))


def holding(counts: list[int]) -> Examples:
    return pictures([c for c, n in enumerate(counts) for _ in range(n)])


SITES = {"a": holding([8, 3]), "b": holding([0, 5]), "c": holding([2, 2])}


def on_stage(cohorts: list[list[str]] | None = None, **given: object) -> Stage:
    chosen = bound(method(**given), image_net())
    return Stage(chosen, SITES, cohorts or ())


def test_a_class_of_few_records_is_neither_learnt_nor_sent() -> None:
    stage = on_stage()
    stage.play(1)
    sent = {name: labels_from_wire(reply["y"]).tolist() for _, name, reply in stage.replies}
    assert sent == {"a": [0] * 8, "b": [1] * 5, "c": []}
    assert [some.y.tolist() for some in Painted.seen] == [[0] * 8, [1] * 5]


def test_a_generator_sees_its_share_and_images_are_as_many_as_records_or_as_asked_for() -> None:
    stage = on_stage(records=0.5)
    stage.play(1)
    assert [len(some) for some in Painted.seen] == [4]  # b's two records are too few for this generator
    assert [len(reply["y"]) for _, _, reply in stage.replies] == [8, 0, 0]
    stage = on_stage(images=3)
    stage.play(1)
    assert [len(reply["y"]) for _, _, reply in stage.replies] == [3, 3, 0]


def test_everybody_is_asked_once_and_gets_nothing() -> None:
    stage = on_stage()
    state = stage.play(3)
    assert [(round, name, len(brief)) for round, name, brief in stage.briefs] == [(1, n, 0) for n in "abc"]
    assert torch.equal(state["model"], on_stage().play(1)["model"])


def test_whoever_comes_late_is_asked_then_and_the_server_begins_anew() -> None:
    early = on_stage([["a"], ["a", "b", "c"]]).play(1)
    late = on_stage([["a"], ["a", "b", "c"]]).play(2)
    assert not torch.equal(early["model"], late["model"])
    assert len(late["understudy.b.y"]) == 5


def test_the_server_draws_a_fresh_network_and_warps_its_images() -> None:
    warped, plain = on_stage().play(1), on_stage(server=SERVER.model_copy(update={"augment": ()})).play(1)
    assert not torch.equal(warped["model"], plain["model"])
    untrained = on_stage(server=Local(epochs=0)).play(1)["model"]
    assert not torch.equal(untrained, image_net().initial())


def test_its_rate_falls_along_half_a_cosine_in_parts() -> None:
    parts = list(cooling(Local(epochs=8, lr=0.2)))
    assert [part.epochs for part, _ in parts] == [2, 2, 1, 1, 1, 1]
    wanted = [0.2 * (1 + math.cos(math.pi * at / 6)) / 2 for at in range(6)]
    assert [rate for _, rate in parts] == pytest.approx(wanted)
    assert wanted[3] == pytest.approx(0.1)
    assert [part.steps for part, _ in cooling(Local(steps=2, lr=1.0))] == [1, 1]


def test_the_default_generator_is_stopped_early() -> None:
    found = UnderstudySettings().generator
    assert {key: found[key] for key in STOPPED_EARLY} == STOPPED_EARLY
    assert (UnderstudySettings().min_class_records, UnderstudySettings().records) == (50, 0.75)


def test_no_epsilon_can_be_promised() -> None:
    chosen = method()
    chosen.privacy = PrivacySettings(epsilon=8, delta=1e-4)
    with pytest.raises(UserError, match=r"adds no noise .* choose moments"):
        bound(chosen, image_net())
