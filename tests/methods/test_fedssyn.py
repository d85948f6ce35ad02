"""Fedssyn: who makes what, and how it is shuffled and dealt."""

from collections.abc import Iterator

import pytest
import torch
from painted import LOCAL, SITES, Painted, add, dealt, opened, painted, staged
from stage import Stage, bound, cloud, image_net, pictures

from understudy.config.resolve import resolve
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.server import Server
from understudy.methods.fedavg import fedavg
from understudy.methods.fedssyn.fedssyn import GIVEN, POOL_X, POOL_Y, slices
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.methods.shared.averaging import AveragingSettings
from understudy.methods.shared.imitation import require_fitting


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    with painted():
        yield


# ---- what a client makes


def test_labels_follow_the_frequencies_by_largest_remainder() -> None:
    # a holds 4 and 2 of the classes 0 and 1; 5 images: 3.33 and 1.67, so 3 and 1, and one more for class 1.
    stage = staged(add(images=5))
    opened(stage)
    sent = {name: reply for _, name, reply in stage.replies}
    assert sent["a"]["y"].tolist() == [0, 0, 0, 1, 1]
    assert sent["b"]["y"].tolist() == [2, 2, 2, 2, 2]


def test_as_many_images_as_records_unless_said_otherwise() -> None:
    stage = staged(add())
    opened(stage)
    assert {name: len(reply["y"]) for _, name, reply in stage.replies} == {"a": 6, "b": 8, "c": 0}


def test_a_generator_sees_only_its_share_of_the_records() -> None:
    # 0.75 · 8 = 6 of b's records, each at most once.
    stage = staged(add(records=0.75), {"b": SITES["b"]})
    opened(stage)
    (seen,) = Painted.seen
    assert len(seen) == 6
    assert len({tuple(x.flatten().tolist()) for x in seen.x} & {tuple(x.flatten().tolist()) for x in SITES["b"].x}) == 6


def test_frequencies_are_those_of_the_share_that_was_seen() -> None:
    # Two of five records are seen: 5 of 10 images for each of them, whatever the other three are.
    stage = staged(add(records=0.4, images=10), {"d": pictures([0, 0, 1, 1, 2], name="d")})
    stage.method.generator.smallest = 2  # type: ignore[attr-defined]
    opened(stage)
    (seen,), (_, _, reply) = Painted.seen, stage.replies[0]
    assert len(seen) == 2
    assert reply["y"].bincount(minlength=3).tolist() == [5 * n for n in seen.label_counts(3).tolist()]


def test_images_and_labels_travel_in_bytes() -> None:
    stage = staged(add())
    stage.play(1)
    for _, _, message in stage.replies[:3]:
        assert {part: tensor.dtype for part, tensor in message.items()} == {"x": torch.uint8, "y": torch.uint8}
    for round, _, brief in stage.briefs:
        if round == 1:
            assert brief[POOL_X].dtype == brief[POOL_Y].dtype == torch.uint8


def test_the_published_share_is_the_default_and_the_generator_is_spelled_out() -> None:
    chosen = FedssynSettings()
    assert (chosen.records, chosen.images, chosen.source, chosen.deal) == (0.75, None, "generator", "shuffled")
    assert chosen.generator["name"] == "vae"
    assert {"lr", "batch", "epochs"} <= set(chosen.generator)


@pytest.mark.parametrize(
    ("preset", "images"),
    [
        ("paper", 5000),
        ("paper-40", 1250),
        ("paper-100", 500),
        ("release", 5000),
        ("release-40", 1125),
        ("release-100", 500),
    ],
)
def test_published_exchanges_are_presets(preset: str, images: int) -> None:
    (chosen,) = resolve({"with": [{"name": "fedssyn", "preset": preset}]}).add_ons
    settings = chosen.settings
    assert isinstance(settings, FedssynSettings)
    assert (settings.images, settings.records) == (images, 0.75)
    generator = settings.generator
    assert (generator["name"], generator["epochs"], generator["batch"]) == ("diffusion", 500, 256)
    assert (generator["width"], generator["sampling_steps"]) == (64, 250)


@pytest.mark.parametrize(
    ("preset", "numbers"),
    [
        ("fedssyn", (10, 256, 0.05, False)),
        ("fedssyn-release", (10, 128, 0.1, True)),
        ("fedssyn-release-cifar10-40", (30, 128, 0.1, True)),
        ("fedssyn-release-cifar100-40", (40, 128, 0.1, True)),
    ],
)
def test_published_training_underneath_is_a_preset_of_fedavg(preset: str, numbers: tuple[object, ...]) -> None:
    settings = resolve({"method": {"name": "fedavg", "preset": preset}}).method.settings
    assert isinstance(settings, AveragingSettings)
    local = settings.local
    assert (local.epochs, local.batch, local.lr, local.drop_last) == numbers
    assert (local.momentum, local.weight_decay, local.schedule) == (0, 0, "constant")
    assert (settings.weights, local.augment) == ("uniform", ("flip", "crop"))


def test_the_generator_of_the_paper_works_in_its_place() -> None:
    vae = {"name": "vae", "epochs": 1, "batch": 8, "width": 4, "hidden": 8, "latent": 2}
    sites = {"a": pictures([0, 0, 1, 1], side=8), "b": pictures([2] * 5, side=8)}
    stage = Stage(bound(add(generator=vae, sound_only=False), image_net(side=8)), sites)
    assert torch.isfinite(stage.play(1)["model"]).all()
    assert [len(reply["y"]) for round, _, reply in stage.replies if round == 0] == [4, 5]


def test_records_that_are_not_what_the_problem_says_are_refused() -> None:
    client = Stage(bound(add(), image_net()), {"a": cloud("a", 6)}).client("a", 1)
    with pytest.raises(UserError, match="the records of a are not uint8 pixels"):
        require_fitting(client, Problem((3,), 3))
    require_fitting(client, Problem((3,), 3, floats=True))


# ---- shuffling and dealing


def test_parts_are_equal_and_the_first_are_longer_by_one() -> None:
    # 14 = 5 + 5 + 4
    assert slices(14, 3) == [slice(0, 5), slice(5, 10), slice(10, 14)]
    assert slices(2, 3) == [slice(0, 1), slice(1, 2), slice(2, 2)]


def test_what_is_dealt_is_what_was_made_in_another_order() -> None:
    stage = staged(add())
    state = stage.play(1)
    made = [label for round, _, reply in stage.replies if round == 0 for label in reply["y"].tolist()]
    parts = dealt(stage)
    assert sorted(made) == sorted(label for part in parts.values() for label in part) == [0] * 4 + [1] * 2 + [2] * 8
    assert [len(part) for part in parts.values()] == [5, 5, 4]
    assert state[POOL_Y].tolist() != made
    for name in SITES:  # a picture keeps its label
        given = stage.client(name).dealt
        assert given.x[:, 0, 0, 0].tolist() == given.y.tolist() == parts[name]


def test_one_permutation_is_drawn_and_kept() -> None:
    stage = staged(add())
    state = opened(stage)
    after = state
    for round in (1, 2):
        stage.begin(round)
        after = stage.method.round(stage, after)
    assert torch.equal(after[POOL_Y], state[POOL_Y])
    assert torch.equal(after[POOL_X], state[POOL_X])


def test_a_client_that_gave_nothing_gets_its_part() -> None:
    stage = staged(add())
    stage.play(1)
    assert len(stage.client("c").dealt) == 4
    assert len(stage.client("c").examples) == 1 + 4


def test_a_part_is_given_once_and_on_first_contact() -> None:
    stage = staged(add(), cohorts=[["a"], ["a", "b"], ["c"], ["a", "b", "c"]])
    state = stage.play(4)
    first = {(round, name) for round, name, brief in stage.briefs if POOL_X in brief}
    assert first == {(1, "a"), (2, "b"), (3, "c")}
    assert state[GIVEN].tolist() == [1, 1, 1]


def test_a_client_that_missed_the_opening_is_dealt_its_part_when_it_comes() -> None:
    stage = staged(add())
    stage.absent = {"b"}
    state = opened(stage)
    for round in (1, 2):
        stage.begin(round)
        stage.absent = {"b"} if round == 1 else set()
        state = stage.method.round(stage, state)
    # Only a gave: 6 images in parts of 2, 2 and 2.
    assert {name: len(part) for name, part in dealt(stage).items()} == {"a": 2, "b": 2, "c": 2}
    assert [round for round, name, brief in stage.briefs if name == "b" and POOL_X in brief] == [2]


class Choosy(Method):
    """Takes no reply of b in round 1."""

    @task(seen="scalars")
    def count(self, client: Client, brief: Message) -> Message:
        return Message(seen=torch.tensor(len(client.dealt)))

    def round(self, server: Server, state: State) -> State:
        for reply in server.ask(self.count, Message(model=state["model"]), to=server.cohort()):
            if server.round == 1 and reply.client == "b":
                reply.refuse("for the test")
        return state


def test_a_refused_reply_does_not_count_as_having_been_given() -> None:
    stage = staged(add(Choosy()))
    state = stage.play(1)
    assert state[GIVEN].tolist() == [1, 0, 1]
    assert len(stage.client("b").dealt) == 0  # its memory stepped back
    stage.begin(2)
    state = stage.method.round(stage, state)
    again = [name for round, name, brief in stage.briefs if round == 2 and POOL_X in brief]
    assert again == ["b"]
    assert [reply["seen"].item() for round, _, reply in stage.replies if round == 2] == [5, 5, 4]


def test_where_nobody_made_anything_training_is_as_if_alone() -> None:
    sites = {"c": SITES["c"], "d": pictures([0, 2], name="d")}
    with_it = staged(add(), sites).play(2)
    alone = staged(fedavg(AveragingSettings(local=LOCAL)), sites).play(2)
    assert torch.equal(with_it["model"], alone["model"])
