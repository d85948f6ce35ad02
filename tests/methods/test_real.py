"""REAL: what is sent, and that the server learns from it as FedDM's does."""

import pytest
import torch
from stage import Stage, bound, coin, image_net, pictures, play, records

from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.methods.real import CHOSEN, Real, RealSettings
from understudy.privacy.promise import PrivacySettings

ONE_STEP = Local(epochs=1, batch=100, lr=0.1)
SITES = {"a": pictures([0] * 12 + [1] * 9 + [2] * 11, name="a"), "b": pictures([1] * 15 + [2], name="b")}


def method(**given: object) -> Real:
    return Real(RealSettings.model_validate({"ipc": 3, "server": ONE_STEP, **given}))


def sent_in_two_rounds(chosen: Real) -> list[Message]:
    stage = Stage(bound(chosen, image_net()), SITES)
    stage.play(2)
    return [reply for _, name, reply in stage.replies if name == "a"]


def test_real_pixels_of_owned_classes_leave_in_a_byte_each() -> None:
    # 12, 9 and 11 records of three classes: nine are too few. 2 classes · 3 images · 16 pixels = 96 bytes.
    reply = sent_in_two_rounds(method())[0]
    assert reply["x"].dtype == torch.uint8
    assert reply["x"].numel() * reply["x"].element_size() == 96
    assert reply["y"].tolist() == [0, 0, 0, 2, 2, 2]
    for image, label in zip(reply["x"], reply["y"], strict=True):
        which = [i for i, own in enumerate(SITES["a"].x) if torch.equal(own, image)]
        assert [int(SITES["a"].y[i]) for i in which] == [int(label)]
    assert len({tuple(image.flatten().tolist()) for image in reply["x"]}) == 6  # none twice


def test_images_that_a_client_was_dealt_are_not_real_and_stay() -> None:
    chosen = method()
    client = Stage(bound(chosen, image_net()), SITES).client("b", 1)
    client.keep_dealt(Message(x=torch.zeros(40, 1, 4, 4, dtype=torch.uint8), y=torch.arange(40) % 2))
    reply = chosen.pick(client, Message())
    assert reply["y"].tolist() == [1, 1, 1]
    assert bool(reply["x"].flatten(1).any(1).all())


def test_they_are_drawn_anew_each_round_or_stay_the_same() -> None:
    first, second = (reply["x"] for reply in sent_in_two_rounds(method()))
    assert not torch.equal(first, second)
    first, second = (reply["x"] for reply in sent_in_two_rounds(method(redraw=False)))
    assert torch.equal(first, second)


def test_only_a_fixed_choice_is_remembered() -> None:
    for redraw, kept in ((True, set()), (False, {CHOSEN})):
        stage = Stage(bound(method(redraw=redraw), image_net()), SITES)
        stage.play(1)
        assert set(stage.memories["a"]) == kept


def test_a_small_class_sends_each_record_once_and_sizes_count_them() -> None:
    # Two records stand for two: 1 each; with five images allowed, three stand for three.
    sites = {"a": records([1, 2, 3, 4, 5], [0, 0, 0, 1, 1])}
    stage = Stage(bound(method(ipc=5, min_class_records=1, weights="size"), coin()), sites)
    stage.play(1)
    reply = stage.replies[0][2]
    assert sorted(reply["x"].flatten().tolist()) == [1, 2, 3, 4, 5]
    assert reply["weight"].tolist() == [1, 1, 1, 1, 1]


def test_the_server_learns_exactly_as_that_of_feddm_without_matching() -> None:
    # One record a class: REAL sends it, and so does FedDM with no matching step.
    sites = {"a": records([1, 3], [0, 1]), "b": records([2], [1])}
    server = Local(epochs=7, batch=2, lr=0.3, momentum=0.5)
    words = {"ipc": 1, "min_class_records": 1, "radius": 0.05, "server": server}
    by_real = play(Real(RealSettings.model_validate(words)), coin(), sites, 2)
    by_feddm = play(FedDM(FedDMSettings.model_validate({**words, "steps": 0})), coin(), sites, 2)
    assert torch.equal(by_real["model"], by_feddm["model"])
    assert by_real["model"].abs() > 0.01


def test_a_promise_of_privacy_is_refused() -> None:
    chosen = method()
    chosen.privacy = PrivacySettings(epsilon=3)
    with pytest.raises(UserError, match=r"no privacy.epsilon can hold"):
        chosen.bind(image_net(), 1)
