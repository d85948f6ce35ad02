"""What a client of secure aggregation gives away, and what it refuses."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch

from understudy.errors import UserError
from understudy.federation.client import Memory
from understudy.federation.message import Message
from understudy.federation.secure import keys, party
from understudy.federation.secure.grid import Whole
from understudy.federation.secure.shares import join

RULES = party.Rules(threshold=0.6, fewest=3, neighbours=30)
ROUND = 4


class Table:
    """Three clients, numbers 0 to 2, and a server that only carries."""

    def __init__(self) -> None:
        self.memories = {me: Memory({}) for me in range(3)}
        self.sent: dict[int, Message] = {}  # in the second phase
        self.public = {me: party.advertise(memory, ROUND) for me, memory in self.memories.items()}

    def share(self) -> None:
        boxes = {}
        for me, memory in self.memories.items():
            peers = [peer for peer in range(3) if peer != me]
            public = torch.stack([self.public[peer] for peer in peers])
            brief = Message({party.ME: torch.tensor(me), party.PEERS: torch.tensor(peers), party.KEYS: public})
            sent = self.sent[me] = party.share(memory, ROUND, brief, RULES)
            boxes[me] = dict(zip(peers, sent["shares"], strict=True))
        self.boxes: Mapping[int, Mapping[int, torch.Tensor]] = boxes

    def receive(self, me: int, senders: Sequence[int]) -> None:
        self.carry(me, senders, torch.stack([self.boxes[peer][me] for peer in senders]))

    def carry(self, me: int, senders: Sequence[int], boxes: torch.Tensor) -> None:
        commitments = torch.stack([self.sent[peer]["commitments"][me] for peer in senders])
        brief = Message({party.SENDERS: torch.tensor(senders), party.BOXES: boxes, party.COMMITMENTS: commitments})
        party.receive(self.memories[me], ROUND, brief, RULES)

    def unmask(self, me: int, survivors: Sequence[int], dropped: Sequence[int]) -> torch.Tensor:
        """The shares, all of which it could open."""
        reply = self.answer(me, survivors, dropped)
        assert reply["opened"].tolist() == [1] * len(reply["shares"])
        return reply["shares"]

    def answer(self, me: int, survivors: Sequence[int], dropped: Sequence[int]) -> Message:
        lists = {party.SURVIVORS: survivors, party.DROPPED: dropped}
        brief = Message({name: torch.tensor(some, dtype=torch.int64) for name, some in lists.items()})
        return party.unmask(self.memories[me], ROUND, brief, RULES)


@pytest.fixture
def table() -> Table:
    made = Table()
    made.share()
    for me in range(3):
        made.receive(me, [peer for peer in range(3) if peer != me])
    return made


def kept(memory: Memory) -> Message:
    return Message.from_bytes(party.to_bytes(memory[party.KEPT]))


def test_two_of_three_open_the_key_of_the_one_that_dropped(table: Table) -> None:
    seed = party.to_bytes(kept(table.memories[0])[party.SEEDS][0])
    rows = {me + 1: party.to_bytes(table.unmask(me, [1, 2], [0])[2]) for me in (1, 2)}
    assert join(rows, 2) == seed
    assert keys.public_key(seed) == party.to_bytes(table.public[0][0])


def test_survivors_open_each_others_own_masks_and_no_key(table: Table) -> None:
    own = {me: party.to_bytes(kept(memory)[party.OWN_MASK]) for me, memory in table.memories.items()}
    seeds = {me: party.to_bytes(kept(memory)[party.SEEDS][0]) for me, memory in table.memories.items()}
    rows = {me: table.unmask(me, [0, 1, 2], []) for me in range(3)}
    for owner in range(3):
        found = join({me + 1: party.to_bytes(rows[me][owner]) for me in range(3)}, 2)
        assert found == own[owner]
        assert found != seeds[owner]


def test_a_client_does_not_give_both_kinds_of_share_for_one_peer(table: Table) -> None:
    with pytest.raises(UserError, match="one kind of share per client, but was asked for both of number 2"):
        table.unmask(0, [0, 1, 2], [2])


def test_nor_does_it_give_the_other_kind_later(table: Table) -> None:
    table.unmask(0, [0, 1, 2], [])
    with pytest.raises(UserError, match="not the next one"):
        table.unmask(0, [0, 1], [2])


def test_it_opens_no_sum_of_too_few_and_of_no_stranger(table: Table) -> None:
    with pytest.raises(UserError, match="fewer than 2 of its neighbourhood"):
        table.unmask(0, [0], [1, 2])
    with pytest.raises(UserError, match="fewer than 2"):
        table.unmask(0, [0, 0], [1, 2])
    with pytest.raises(UserError, match="took no part"):
        table.unmask(0, [0, 1, 7], [])
    with pytest.raises(UserError, match="took no part"):
        table.unmask(0, [1, 2], [0])  # its own key stays with it


def test_it_masks_once(table: Table) -> None:
    with pytest.raises(UserError, match="not the next one"):
        table.receive(0, [1, 2])


def test_it_does_not_mask_with_too_few_peers_or_with_strangers() -> None:
    table = Table()
    table.share()
    with pytest.raises(UserError, match="needs 1 of its 2 peers, but 0 came"):
        party.receive(
            table.memories[0],
            ROUND,
            Message({party.SENDERS: torch.zeros(0, dtype=torch.int64), party.BOXES: torch.zeros(0, party.BOX)}),
            RULES,
        )


def test_it_shares_with_enough_others_or_not_at_all() -> None:
    table = Table()
    brief = Message(
        {party.ME: torch.tensor(0), party.PEERS: torch.tensor([1]), party.KEYS: table.public[1].unsqueeze(0)}
    )
    with pytest.raises(UserError, match="needs 3 different clients, but was offered 2"):
        party.share(table.memories[0], ROUND, brief, RULES)


def test_a_phase_of_another_round_is_refused(table: Table) -> None:
    values: Whole = np.zeros(2, dtype=np.uint64)
    with pytest.raises(UserError, match="not the next one"):
        party.mask(table.memories[0], ROUND + 1, values)


def test_a_box_that_was_meant_for_another_does_not_open() -> None:
    table = Table()
    table.share()
    table.carry(0, [1, 2], torch.stack([table.boxes[1][2], table.boxes[2][1]]))  # for 2 and for 1, not for 0
    reply = table.answer(0, [0, 1, 2], [])
    assert reply["opened"].tolist() == [1, 0, 0]  # of its own it has the share
    assert reply["shares"][1:].eq(0).all()


def test_a_share_that_was_not_committed_to_is_left_out() -> None:
    table = Table()
    table.share()
    table.sent[1]["commitments"][0, 1, 5] ^= 1  # one bit, of the share of its mask
    table.sent[2]["commitments"][0, 0, 5] ^= 1  # and of the share of its key, which is not asked for
    table.receive(0, [1, 2])
    assert table.answer(0, [0, 1, 2], [])["opened"].tolist() == [1, 0, 1]


def test_commitments_of_both_sides_are_the_same_and_no_other_pairs(table: Table) -> None:
    masked = {me: party.mask(memory, ROUND, np.zeros(2, dtype=np.uint64)) for me, memory in table.memories.items()}
    hashes = {
        frozenset((me, peer)): party.to_bytes(row)
        for me in range(3)
        for peer, row in zip([peer for peer in range(3) if peer != me], masked[me], strict=True)
        if me < peer
    }
    assert party.to_bytes(masked[1][0]) == hashes[frozenset((0, 1))]
    assert party.to_bytes(masked[2][0]) == hashes[frozenset((0, 2))]
    assert party.to_bytes(masked[2][1]) == hashes[frozenset((1, 2))]
    assert len(set(hashes.values())) == 3


def test_a_copy_of_anothers_public_key_shares_none_of_its_masks() -> None:
    """Otherwise the streams of 0 with 1 and with 2 would be one, and could cancel."""
    table = Table()
    table.public[2] = table.public[1]
    table.share()
    table.receive(0, [1, 2])
    agreed = party.mask(table.memories[0], ROUND, np.zeros(2, dtype=np.uint64))
    assert not torch.equal(agreed[0], agreed[1])


def test_secrets_are_gone_when_the_sum_is_open(table: Table) -> None:
    table.unmask(0, [0, 1, 2], [])
    assert set(kept(table.memories[0])) == {party.ROUND, party.DROPPED}


def test_the_key_of_one_that_dropped_opens_masks_and_no_box(table: Table) -> None:
    # The server puts the seed of the mask key together. Boxes have another key, or it could read those of the dropped.
    shares = {at + 1: party.to_bytes(table.unmask(at, [0, 1], [2])[2]) for at in (0, 1)}
    seed = join(shares, 2)
    assert keys.public_key(seed) == party.to_bytes(table.public[2][0])
    assert keys.public_key(seed) != party.to_bytes(table.public[2][1])
    box, public = table.boxes[0][2], party.to_bytes(table.public[0][1])
    with pytest.raises(UserError):
        keys.unseal(
            keys.agreed_key(seed, public, "boxes"), party.to_bytes(box), f"shares of round {ROUND} from 0 for 2"
        )


def test_what_leaves_holds_no_secret(table: Table) -> None:
    for me, memory in table.memories.items():
        secrets = [party.to_bytes(row) for row in (*kept(memory)[party.SEEDS], kept(memory)[party.OWN_MASK])]
        left = b"".join(party.to_bytes(box) for box in (table.public[me], *table.boxes[me].values()))
        assert not any(secret in left for secret in secrets)
