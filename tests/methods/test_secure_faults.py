"""One client that does not keep to secure aggregation: it is found out, and costs the others one round at the most."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from stage import Stage, bound, softmax_net
from test_secure_aggregation import NAMES, OWN, Adding
from torch import Tensor

from understudy.federation.message import Message
from understudy.federation.method import task_name
from understudy.federation.secure import keys, party
from understudy.federation.secure.shares import split
from understudy.federation.server import Brief, Reply, Task, TooFewReplies
from understudy.methods.secure_aggregation import SecureAggregationSettings, secure_aggregation

LIAR = "cedar"  # number 2: without it 31 − 4, −10 + 2, 4 · 1.5, 4
ALL, WITHOUT = [31, -10, 7.5, 5], [27, -8, 6, 4]
Spoil = Callable[[Message], Message]


class FaultyStage(Stage):
    """What the liar sends in one phase is spoilt on its way."""

    def __init__(self, phase: str, spoil: Spoil, gone: Sequence[str], settings: SecureAggregationSettings):
        super().__init__(bound(secure_aggregation(settings, Adding()), softmax_net()), OWN)
        self.phase, self.spoil = phase, spoil
        self.gone = gone  # phases in which it does not answer
        self.refused: list[tuple[str, str]] = []

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        name = task_name(task).rpartition(".")[2]
        for reply in super().ask(task, brief, [one for one in to if one != LIAR or name not in self.gone], at_least):
            hit = reply.client == LIAR and name == self.phase
            message = self.spoil(reply) if hit else reply

            def refuse(why: str, who: str = reply.client) -> None:
                self.refused.append((who, why))

            yield Reply(reply.client, message, refuse)


def faulty(phase: str, spoil: Spoil, *, gone: Sequence[str] = (), **words: Any) -> FaultyStage:
    return FaultyStage(phase, spoil, gone, SecureAggregationSettings(**words))


def summed(play: FaultyStage, round: int) -> list[float]:
    state = Message(model=torch.zeros(12))
    play.begin(round)
    after = play.method.round(play, state)
    return [*after["numbers"].tolist(), float(after["count"])]


def noise(part: str) -> Spoil:
    def spoil(message: Message) -> Message:
        drawn = torch.randint(0, 256, message[part].shape, generator=torch.Generator().manual_seed(7))
        return message.but({part: drawn.to(torch.uint8)})

    return spoil


def rows(part: str, places: Sequence[int]) -> Spoil:
    """Noise in a few rows only."""

    def spoil(message: Message) -> Message:
        changed = message[part].clone()
        changed[list(places)] = noise(part)(message)[part][list(places)]
        return message.but({part: changed})

    return spoil


def another_mask_key(message: Message) -> Message:
    """A key that is one, of which it has another seed."""
    changed = message["keys"].clone()
    changed[0] = party.to_tensor(keys.public_key(keys.fresh_seed()), keys.PUBLIC)
    return message.but(keys=changed)


def another_box_key(message: Message) -> Message:
    changed = message["keys"].clone()
    changed[1] = party.to_tensor(keys.public_key(keys.fresh_seed()), keys.PUBLIC)
    return message.but(keys=changed)


COSTS_A_ROUND: dict[str, tuple[str, Spoil, str]] = {
    "another key for masks": ("advertise", another_mask_key, "other keys for masks than 4 of its neighbours"),
    "another key for boxes": ("advertise", another_box_key, "4 of its neighbours could not open"),
    "boxes that nobody opens": ("share", noise("shares"), "4 of its neighbours could not open"),
    "boxes that three cannot open": ("share", rows("shares", [0, 1, 3]), "3 of its neighbours could not open"),
    "commitments to nothing": ("share", noise("commitments"), "4 of its neighbours could not open"),
    "a commitment to another mask": ("share", noise("mask"), "the shares of its secrets do not fit together"),
    "keys of masks that nobody has": ("add", noise(party.AGREED), "other keys for masks than 4 of its neighbours"),
}


@pytest.mark.parametrize("name", COSTS_A_ROUND)
def test_it_undoes_one_round_and_is_left_out_of_the_next(name: str) -> None:
    phase, spoil, why = COSTS_A_ROUND[name]
    play = faulty(phase, spoil)
    with pytest.raises(TooFewReplies):
        summed(play, 1)
    assert list(play.left_out) == [LIAR]
    assert why in play.left_out[LIAR]
    assert summed(play, 2) == WITHOUT


COSTS_NOTHING: dict[str, tuple[str, Spoil]] = {
    "boxes that two cannot open": ("share", rows("shares", [1, 3])),
    "shares of others that are not theirs": ("unmask", rows("shares", [0, 1])),
    "says that it can open nothing": ("unmask", lambda message: message.but(opened=torch.zeros(5, dtype=torch.uint8))),
    "other keys than two of its neighbours": ("add", rows(party.AGREED, [0, 3])),
}


@pytest.mark.parametrize("name", COSTS_NOTHING)
def test_what_the_others_can_spare_costs_nothing(name: str) -> None:
    play = faulty(*COSTS_NOTHING[name])
    assert summed(play, 1) == ALL
    assert play.left_out == {}


def test_a_share_that_is_not_the_one_it_was_given_is_its_own_failure() -> None:
    play = faulty("unmask", rows("shares", [1]))
    summed(play, 1)
    assert play.refused == [(LIAR, "its share for beech is not the one it was given")]


def test_keys_whose_seed_was_never_shared_are_found_out_when_their_owner_is_gone() -> None:
    """Then the others' masks could only be taken off with a key that nobody can put together."""
    play = faulty("advertise", another_mask_key, gone=["add"])
    with pytest.raises(TooFewReplies, match="4 clients sent their share for cedar; 3 that fit together are needed"):
        summed(play, 1)
    assert play.left_out == {LIAR: "the shares of its secrets do not fit together"}
    assert summed(play, 2) == WITHOUT


def test_shares_of_another_secret_are_found_out_whatever_was_committed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares are what it committed to, and do not give the mask that it committed to."""
    play, calls = faulty("", lambda message: message), []

    def other(seed: bytes, holders: int, needed: int) -> list[bytes]:
        calls.append(seed)
        at_liar = (len(calls) - 1) // 2 == NAMES.index(LIAR)  # two seeds of each client, in order
        return split(bytes(keys.SEED) if at_liar else seed, holders, needed)

    monkeypatch.setattr(party, "split", other)
    with pytest.raises(TooFewReplies):
        summed(play, 1)
    assert play.left_out == {LIAR: "the shares of its secrets do not fit together"}


def test_where_all_are_needed_one_that_accuses_the_others_is_left_out_itself() -> None:
    nothing = lambda message: message.but(opened=torch.zeros(5, dtype=torch.uint8))  # noqa: E731
    play = faulty("unmask", nothing, threshold=1.0)
    with pytest.raises(TooFewReplies):
        summed(play, 1)
    assert play.left_out == {LIAR: "it could not open what 5 of its neighbours shared with it"}
    assert summed(play, 2) == WITHOUT


def test_one_that_nobody_but_the_liar_accuses_stays() -> None:
    """The liar says that it cannot open ash's box, others are lost: the sum does not open, and ash is not to blame."""

    def accuse(message: Message) -> Message:
        opened: Tensor = message["opened"].clone()
        opened[0] = 0
        return message.but(opened=opened)

    play = faulty("unmask", accuse, threshold=1.0)
    with pytest.raises(TooFewReplies, match="4 clients sent their share for ash; 5 that fit together are needed"):
        summed(play, 1)
    assert play.left_out == {}
