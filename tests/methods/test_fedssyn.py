"""Fedssyn: who makes what, how it is shuffled and dealt, and that training with it costs no extra step."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest
import torch
from stage import Stage, bound, cloud, image_net, pictures, play, softmax_net
from torch import Tensor

from understudy.config.build import build_method
from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.server import Server
from understudy.learning import loop
from understudy.learning.local import Local
from understudy.learning.loop import Trained
from understudy.methods import averaging
from understudy.methods.averaging import Averaging, AveragingSettings, Term
from understudy.methods.fedavg import fedavg
from understudy.methods.fedcog import Consensus
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.methods.fedssyn import GIVEN, POOL_X, POOL_Y, Fedssyn, FedssynSettings, slices
from understudy.methods.scaffold import ScaffoldSettings, scaffold
from understudy.models.network import Network
from understudy.settings import Settings
from understudy.synthesis import generator as generators
from understudy.synthesis.generator import Generator, generator


class PaintedSettings(Settings):
    pass


class Painted(Generator):
    """Paints an image in the number of its class, and notes what it was given to learn from."""

    smallest = 3
    seen: ClassVar[list[Examples]] = []

    def __init__(self, settings: PaintedSettings) -> None:
        self.settings = settings

    def fit(self, examples: Examples, problem: Problem, rng: torch.Generator) -> dict[str, Tensor]:
        self.require_enough(examples)
        self.seen.append(examples)
        return {"who": examples.x[:1]}

    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        return labels.view(-1, 1, 1, 1).expand(-1, *problem.shape).to(torch.uint8)


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    generators.names()  # those of the package are there
    before = dict(generators._entries)
    generator("painted", settings=PaintedSettings)(Painted)
    Painted.seen.clear()
    yield
    generators._entries.clear()
    generators._entries.update(before)


LOCAL = Local(epochs=2, batch=4, lr=0.1)
SITES = {
    "a": pictures([0, 0, 0, 0, 1, 1], name="a"),
    "b": pictures([2] * 8, name="b"),
    "c": pictures([1], name="c"),  # too few records to make anything
}


def add(inner: Method | None = None, **given: object) -> Fedssyn:
    words: dict[str, object] = {"generator": "painted", "records": 1.0, **given}
    return Fedssyn(FedssynSettings.model_validate(words), inner or fedavg(AveragingSettings(local=LOCAL)))


def staged(method: Method, sites: Mapping[str, Examples] = SITES, cohorts: list[list[str]] | None = None) -> Stage:
    return Stage(bound(method, image_net()), sites, cohorts or [])


def opened(stage: Stage) -> State:
    return stage.method.start(stage)


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
    stage = staged(add(records=0.5, images=30), {"a": SITES["a"]})
    opened(stage)
    (seen,), (_, _, reply) = Painted.seen, stage.replies[0]
    assert reply["y"].bincount(minlength=3).tolist() == [10 * n for n in seen.label_counts(3).tolist()]


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


def test_the_generator_of_the_paper_works_in_its_place() -> None:
    vae = {"name": "vae", "epochs": 1, "batch": 8, "width": 4, "hidden": 8, "latent": 2}
    sites = {"a": pictures([0, 0, 1, 1], side=8), "b": pictures([2] * 5, side=8)}
    stage = Stage(bound(add(generator=vae), image_net(side=8)), sites)
    assert torch.isfinite(stage.play(1)["model"]).all()
    assert [len(reply["y"]) for round, _, reply in stage.replies if round == 0] == [4, 5]


def test_records_that_are_not_pixels_are_refused() -> None:
    stage = Stage(bound(add(), softmax_net()), {"a": cloud("a", 6)})
    with pytest.raises(UserError, match="a are not uint8"):
        opened(stage)


# ---- shuffling and dealing


def test_parts_are_equal_and_the_first_are_longer_by_one() -> None:
    # 14 = 5 + 5 + 4
    assert slices(14, 3) == [slice(0, 5), slice(5, 10), slice(10, 14)]
    assert slices(2, 3) == [slice(0, 1), slice(1, 2), slice(2, 2)]


def dealt(stage: Stage) -> dict[str, list[int]]:
    """The labels that each client was given, by who got them."""
    return {name: brief[POOL_Y].tolist() for _, name, brief in stage.briefs if POOL_Y in brief}


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

    def watched(net: Network, w: Tensor, examples: Examples, plan: Tensor, *rest: Any, **more: Any) -> Trained:
        steps.append(len(plan))
        pools.append(len(examples))
        return loop.train(net, w, examples, plan, *rest, **more)

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
        method = build_method(resolve(words), image_net())
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
