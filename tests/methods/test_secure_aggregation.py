"""Sums under masks, with clients that are lost in every phase."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from stage import Stage, bound, records, softmax_net
from torch import Tensor

from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, scalar
from understudy.federation.method import Method, State, by_sums, only_sums, task, task_name
from understudy.federation.registry import entry
from understudy.federation.secure import party
from understudy.federation.server import Brief, Reply, Server, Task, TooFewReplies
from understudy.methods.fedavg import fedavg
from understudy.methods.secure_aggregation import SecureAggregationSettings, secure_aggregation
from understudy.methods.shared.averaging import AveragingSettings

NAMES = ("ash", "beech", "cedar", "elm", "fir")
# Client number k sends (2^k, −k, 1.5): a sum of the first parts tells who is in it.
OWN = {name: records([[2.0**k, -float(k), 1.5]], [0]) for k, name in enumerate(NAMES)}


class Adding(Method):
    """Sends its record, to be summed."""

    @task(numbers="statistics", count="scalars")
    def add(self, client: Client, brief: Message) -> Message:
        assert set(brief) == {"model"}, "the task sees its own brief and no more"
        return Message(numbers=client.own.x.sum(0), count=scalar(len(client.own)))

    @by_sums
    def round(self, server: Server, state: State) -> State:
        brief = Message(model=state["model"])
        sums = server.sum(self.add, brief, to=server.cohort(), like={"numbers": (3,), "count": ()})
        return state.but(sums)


class Reading(Adding):
    """Has the whole server."""

    def round(self, server: Server, state: State) -> State:
        return super().round(server, state)


class Asking(Adding):
    """Says that it only sums, and asks all the same."""

    @by_sums
    def round(self, server: Server, state: State) -> State:
        list(server.ask(self.add, Message(model=state["model"]), to=server.cohort()))
        return state


class LosingStage(Stage):
    """Clients are lost by task: they do the ones before it."""

    lost: Mapping[str, Sequence[str]] = {}  # by task

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        gone = self.lost.get(task_name(task).rpartition(".")[2], ())
        return super().ask(task, brief, [name for name in to if name not in gone], at_least)


def stage(inner: Method | None = None, lost: Mapping[str, Sequence[str]] | None = None, **words: Any) -> LosingStage:
    method = secure_aggregation(SecureAggregationSettings(**words), inner or Adding())
    made = LosingStage(bound(method, softmax_net()), OWN)
    made.lost = lost or {}
    return made


def sums(**words: Any) -> list[float]:
    state = stage(**words).play(1)
    return [*state["numbers"].tolist(), float(state["count"])]


def masked(play: Stage, part: str = "numbers") -> dict[str, Tensor]:
    """What the server got of each client in the phase of the real task."""
    return {name: message[part] for _, name, message in play.replies if part in message}


# ---- the sum


def test_the_sum_is_that_of_all_clients() -> None:
    # 1 + 2 + 4 + 8 + 16 = 31, −(0 + 1 + 2 + 3 + 4) = −10, 5 · 1.5 = 7.5: all are multiples of the step.
    assert sums() == [31, -10, 7.5, 5]


def test_a_sparse_graph_gives_the_same_sum() -> None:
    assert sums(neighbours=2) == [31, -10, 7.5, 5]  # a ring: each shares masks with two


@pytest.mark.parametrize("bits", [32, 40, 56, 64])
def test_the_sum_does_not_depend_on_the_width(bits: int) -> None:
    assert sums(bits=bits, range=64) == [31, -10, 7.5, 5]


@pytest.mark.parametrize("neighbours", [2, 30])
@pytest.mark.parametrize("phase", ["advertise", "share", "add"])
def test_a_client_lost_before_its_input_came_is_not_in_the_sum_and_the_rest_is_exact(
    phase: str, neighbours: int
) -> None:
    # Without cedar: 31 − 4, −10 + 2, 4 · 1.5. Lost in `add`, it had shared masks with the others: they are recovered.
    assert sums(lost={phase: ["cedar"]}, neighbours=neighbours) == [27, -8, 6, 4]


def test_a_client_lost_after_its_input_came_is_in_the_sum() -> None:
    assert sums(lost={"unmask": ["cedar"]}) == [31, -10, 7.5, 5]


def test_one_is_lost_in_every_phase() -> None:
    # Holders of the four that advertised: 4, of whom 0.6 · 4 rounded up is 3. Three exchange shares.
    assert sums(lost={"advertise": ["ash"], "share": ["beech"], "unmask": []}, fewest=2) == [28, -9, 4.5, 3]


def test_too_many_lost_undo_the_round_with_a_sentence() -> None:
    with pytest.raises(TooFewReplies, match="2 clients sent their masked count, numbers; 3 are needed"):
        sums(lost={"add": ["ash", "beech", "cedar"]})
    # Five hold shares of each seed, three open it.
    with pytest.raises(TooFewReplies, match="2 clients sent their share for ash; 3 that fit together are"):
        sums(lost={"unmask": ["cedar", "elm", "fir"]})
    with pytest.raises(TooFewReplies, match="2 clients sent public keys; 3 are needed"):
        sums(lost={"advertise": ["cedar", "elm", "fir"]})


def test_who_has_too_few_neighbours_left_is_left_out_and_the_others_go_on() -> None:
    play = stage(neighbours=2, fewest=2)
    state = play.method.start(play)
    play.begin(1)
    ring = torch.randperm(5, generator=Stage.rng(play, "secure aggregation ring")).tolist()
    play._streams = {}
    alone, gone = ring[0], [NAMES[ring[1]], NAMES[ring[4]]]  # both sides of one client
    play.lost = {"share": gone}
    state = play.method.round(play, state)
    kept = {ring[2], ring[3]}
    assert float(state["numbers"][0]) == sum(2**number for number in kept)
    assert alone not in kept


# ---- what the server sees


def byte_spread(data: bytes) -> float:
    """χ² of byte counts against equal ones: about 255 ± 23 for uniform bytes."""
    counts = torch.bincount(torch.frombuffer(bytearray(data), dtype=torch.uint8).int(), minlength=256).double()
    expected = len(data) / 256
    return float(((counts - expected) ** 2 / expected).sum())


class Wide(Adding):
    """5000 noughts, so that all that is seen is masks."""

    @by_sums
    def round(self, server: Server, state: State) -> State:
        total = server.sum(self.many, Message(model=state["model"]), to=server.cohort(), like={"numbers": (50, 100)})
        return state.but(total)

    @task(numbers="statistics")
    def many(self, client: Client, brief: Message) -> Message:
        return Message(numbers=torch.zeros(50, 100))


def test_the_input_of_one_client_looks_uniform_and_never_the_same() -> None:
    first, second = stage(Wide()), stage(Wide())
    total = first.play(1)["numbers"]
    second.play(1)
    assert total.shape == (50, 100)
    assert not total.any()
    for name in NAMES:
        seen = party.to_bytes(masked(first)[name])
        assert len(seen) == 5000 * 6
        assert byte_spread(seen) < 255 + 8 * 23  # noughts in the clear would give 255 · 30 000
        assert seen != party.to_bytes(masked(second)[name])


def test_without_the_last_input_the_sum_of_the_others_is_still_masked() -> None:
    play = stage(Wide())
    play.play(1)
    four = sum(int.from_bytes(party.to_bytes(masked(play)[name][0]), "little") for name in NAMES[:4]) % 2**48
    assert four != 0


def test_every_sum_has_fresh_keys() -> None:
    play = stage()
    play.play(2)
    seen = [party.to_bytes(message["keys"]) for _, _, message in play.replies if "keys" in message]
    assert len(seen) == 10
    assert len(set(seen)) == 10


# ---- what is refused


@pytest.mark.parametrize("name", ["feddm", "fedlap", "dense", "dc", "real", "fedgen"])
def test_methods_whose_server_needs_single_replies_are_refused_before_anything_runs(name: str) -> None:
    words = {"data": {"name": "digits"}, "method": name, "with": ["secure-aggregation"]}
    config = resolve(words)
    (chosen,) = config.add_ons
    with pytest.raises(UserError, match="secure-aggregation hides each client in a sum, but the server of"):
        chosen.entry.build(chosen.settings, config.method.entry.build(config.method.settings))


def test_a_method_that_asks_all_the_same_gets_nothing() -> None:
    play = stage(Asking())
    with pytest.raises(UserError, match="is asked for single replies"):
        play.play(1)
    assert play.replies == []


@pytest.mark.parametrize("kind", [Asking, Adding])
def test_what_only_sums_cannot_ask_in_any_run(kind: type[Adding]) -> None:
    play = Stage(bound(kind(), softmax_net()), OWN)
    if kind is Asking:
        with pytest.raises(UserError, match=r"Adding\.add is asked for single replies where only sums are seen"):
            play.play(1)
        assert play.replies == []
    else:
        assert play.play(1)["count"] == 5


def test_a_method_that_could_ask_is_refused_before_anybody_works() -> None:
    assert only_sums(Adding())
    assert not only_sums(Reading())
    with pytest.raises(UserError, match="the server of Reading may ask for single replies"):
        stage(Reading())


def test_a_client_does_not_send_in_the_clear_whoever_asks() -> None:
    play = stage()
    job = play.method.jobs()["Adding.add"]
    with pytest.raises(UserError, match="sends only under masks"):
        job.work(play.client("ash"), Message(model=torch.zeros(12)))


def test_numbers_beyond_the_range_or_not_finite_do_not_leave() -> None:
    with pytest.raises(UserError, match="its 'numbers' goes beyond ±8"):
        sums(range=8)
    clipped = sums(range=8, overflow="clip")
    assert clipped == [1 + 2 + 4 + 8 + 8, -10, 7.5, 5]

    class Broken(Adding):
        @task(numbers="statistics", count="scalars")
        def add(self, client: Client, brief: Message) -> Message:
            return super().add(client, brief).but(numbers=torch.tensor([1.0, float("nan"), 0.0]))

    with pytest.raises(UserError, match="not finite in numbers"):
        stage(Broken()).play(1)


def test_a_reply_of_another_make_is_refused_and_recovered() -> None:
    class Odd(Adding):
        @task(numbers="statistics", count="scalars")
        def add(self, client: Client, brief: Message) -> Message:
            whole = super().add(client, brief)
            return whole.but(numbers=whole["numbers"][:2]) if client.id == "cedar" else whole

    state = stage(Odd()).play(1)
    assert [*state["numbers"].tolist(), float(state["count"])] == [27, -8, 6, 4]


def test_too_few_clients_for_a_sum_are_refused_at_the_start() -> None:
    play = stage()
    play.cohorts = [["ash", "beech"]]
    with pytest.raises(UserError, match="2 clients take part in a round, and a sum of fewer than 3"):
        play.play(1)


@pytest.mark.parametrize("words", [{"threshold": 0.5}, {"neighbours": 3}, {"bits": 16}, {"fewest": 1}, {"range": 0}])
def test_settings_that_are_not_safe_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"with.secure-aggregation.{next(iter(words))}"):
        resolve({"data": {"name": "digits"}, "method": "fedavg", "with": [{"name": "secure-aggregation", **words}]})


def test_it_sits_between_what_adds_terms_and_what_wraps_rounds() -> None:
    layers = [entry(name, "add-on").layer for name in ("fedcog", "secure-aggregation", "fedssyn")]
    assert layers == sorted(set(layers))


def test_what_the_inner_method_says_of_itself_is_said() -> None:
    inner = fedavg(AveragingSettings(score_local=True))
    method = bound(secure_aggregation(SecureAggregationSettings(), inner), softmax_net())
    assert method.effort(100, 10) == inner.effort(100, 10) > 0
    kinds = inner.jobs()[task_name(inner.train)].kinds
    assert method.jobs()[task_name(inner.train)].kinds == {**kinds, party.AGREED: "keys"}
    assert {"SecureAggregation.advertise", "SecureAggregation.share", "SecureAggregation.unmask"} < set(method.jobs())
