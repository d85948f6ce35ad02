"""What one client does in a masked sum. What it must remember between phases is in its memory, which never travels,
under one name; its secrets stay there until it has given its shares, or until the next sum begins."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.federation.client import Memory
from understudy.federation.message import Message
from understudy.federation.secure import keys
from understudy.federation.secure.grid import Whole
from understudy.federation.secure.masks import add_masks
from understudy.federation.secure.shares import needed_of, split

KEPT = "secure"  # in memory: a Message of its own, in bytes, because every tensor in memory is a file at the site
# Parts of briefs, and of what is kept. Clients know each other by number: the place among all names.
PREFIX = "secure."
ME, PEERS, KEYS, SENDERS, BOXES, COMMITMENTS, CLIENTS, SURVIVORS, DROPPED = (
    PREFIX + name
    for name in ("me", "peers", "keys", "senders", "boxes", "commitments", "clients", "survivors", "dropped")
)
AGREED = PREFIX + "agreed"  # part of a masked reply
ROUND, SEEDS, OWN_MASK, OWN_SHARE = (PREFIX + name for name in ("round", "seeds", "own_mask", "own_share"))
BOX = keys.NONCE + 2 * keys.SEED + keys.TAG  # bytes: a share of the key's seed and one of the mask's, sealed
Secret = Literal["key", "mask"]  # what is shared: the seed of the mask key, and that of the own mask


@dataclass(frozen=True)
class Rules:
    """What a client insists on, whatever it is told."""

    threshold: float
    fewest: int  # clients in a sum
    neighbours: int


def to_tensor(data: bytes, *shape: int) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(*shape)


def to_bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def advertise(memory: Memory, round: int) -> Tensor:
    """Phase 1. Fresh keys: one for masks, one for boxes. (2, 32) bytes of public keys."""
    seeds = [keys.fresh_seed(), keys.fresh_seed()]
    _keep(memory, Message({ROUND: torch.tensor(round), SEEDS: to_tensor(b"".join(seeds), 2, keys.SEED)}))
    return to_tensor(b"".join(map(keys.public_key, seeds)), 2, keys.PUBLIC)


def share(memory: Memory, round: int, brief: Message, rules: Rules) -> Message:
    """Phase 2. Splits the seeds of its mask key and of its own mask: a box for every peer with a share of each,
    (peers, BOX) bytes; and a commitment to every share, (holders, 2, 32), and to its own mask, by which the server and
    the holders recognise them."""
    kept = _kept(memory, round, after=SEEDS, before=OWN_MASK)
    me, peers = int(brief[ME]), brief[PEERS].tolist()
    if me in peers or len(set(peers)) < len(peers) or len(peers) + 1 < min(rules.fewest, rules.neighbours + 1):
        raise UserError(f"secure-aggregation needs {rules.fewest} different clients, but was offered {len(peers) + 1}.")
    masking, sealing = map(to_bytes, kept[SEEDS])
    own_mask, holders = keys.fresh_seed(), sorted([me, *peers])
    needed = needed_of(len(holders), rules.threshold)
    of_key, of_mask = (
        dict(zip(holders, split(seed, len(holders), needed), strict=True)) for seed in (masking, own_mask)
    )
    boxes = [
        keys.seal(
            keys.agreed_key(sealing, to_bytes(public[1]), "boxes"),
            of_key[peer] + of_mask[peer],
            _about(round, me, peer),
        )
        for peer, public in zip(peers, brief[KEYS], strict=True)
    ]
    commitments = [
        to_share("key", of_key[one], round, me, one) + to_share("mask", of_mask[one], round, me, one) for one in holders
    ]
    own = {OWN_MASK: to_tensor(own_mask, keys.SEED), OWN_SHARE: to_tensor(of_mask[me], keys.SEED)}
    _keep(memory, kept.but(brief.only(ME, PEERS, KEYS)).but(own))
    return Message(
        shares=to_tensor(b"".join(boxes), len(peers), BOX),
        commitments=to_tensor(b"".join(commitments), len(holders), 2, keys.COMMITMENT),
        mask=to_tensor(to_mask(own_mask, round, me), keys.COMMITMENT),
    )


def receive(memory: Memory, round: int, brief: Message, rules: Rules) -> None:
    """Phase 3, before the work: takes the boxes of the peers that are still taking part."""
    kept = _kept(memory, round, after=OWN_MASK, before=SENDERS)
    senders, peers = brief[SENDERS].tolist(), kept[PEERS].tolist()
    needed = needed_of(len(peers) + 1, rules.threshold)
    if not set(senders) <= set(peers) or len(set(senders)) < len(senders) or len(senders) + 1 < needed:
        raise UserError(f"secure-aggregation needs {needed - 1} of its {len(peers)} peers, but {len(senders)} came.")
    _keep(memory, kept.but(brief.only(SENDERS, BOXES, COMMITMENTS)))


def mask(memory: Memory, round: int, values: Whole) -> Tensor:
    """Phase 3, after the work: masks its input in place. Returns a commitment to the key of each mask that it shares,
    (senders, 32) bytes: both sides must have the same, or the masks do not cancel."""
    kept = _kept(memory, round, after=SENDERS, before=DROPPED)
    public = dict(zip(kept[PEERS].tolist(), kept[KEYS], strict=True))
    me, masking = int(kept[ME]), to_bytes(kept[SEEDS][0])
    pairs = {
        peer: keys.agreed_key(masking, to_bytes(public[peer][0]), mask_purpose(round, me, peer))
        for peer in kept[SENDERS].tolist()
    }
    add_masks(values, me, to_bytes(kept[OWN_MASK]), pairs)
    agreed = [keys.commitment(key, mask_purpose(round, me, peer)) for peer, key in pairs.items()]
    return to_tensor(b"".join(agreed), len(agreed), keys.COMMITMENT)


def unmask(memory: Memory, round: int, brief: Message, rules: Rules) -> Message:
    """Phase 4. For survivors the share of their own mask, for dropped clients the share of their key: (rows, 16) bytes.

    Never both for one client: its key would remove the masks it shares, its own mask the last one. A share that does
    not match its owner's commitment, or that no box held, is left out: ``opened`` says which ones there are.
    """
    kept = _kept(memory, round, after=SENDERS, before=DROPPED)
    survivors, dropped = brief[SURVIVORS].tolist(), brief[DROPPED].tolist()
    _check_lists(kept, survivors, dropped, rules)
    found = [_share_of(kept, peer, "mask") for peer in survivors] + [_share_of(kept, peer, "key") for peer in dropped]
    _keep(memory, Message({ROUND: kept[ROUND], DROPPED: brief[DROPPED]}))  # deletes its secrets: no second time
    return Message(
        shares=to_tensor(b"".join(share or bytes(keys.SEED) for share in found), len(found), keys.SEED),
        opened=torch.tensor([share is not None for share in found], dtype=torch.uint8),
    )


def mask_purpose(round: int, one: int, other: int) -> str:
    """Bound to both clients, so that a client with a copy of another's public key shares none of its streams."""
    return f"mask of round {round} between {min(one, other)} and {max(one, other)}"


def to_share(secret: Secret, share: bytes, round: int, owner: int, holder: int) -> bytes:
    """The commitment to a share."""
    return keys.commitment(share, f"{holder}'s share of the {secret} of {owner} in round {round}")


def to_mask(seed: bytes, round: int, owner: int) -> bytes:
    """The commitment to a client's own mask."""
    return keys.commitment(seed, f"mask of {owner} in round {round}")


def _about(round: int, sender: int, receiver: int) -> str:
    return f"shares of round {round} from {sender} for {receiver}"


def _share_of(kept: Message, peer: int, secret: Secret) -> bytes | None:
    """The share that it holds for a peer, if the peer committed to it; for itself, only the mask's."""
    me, round = int(kept[ME]), int(kept[ROUND])
    if peer == me:
        return to_bytes(kept[OWN_SHARE])
    at = kept[SENDERS].tolist().index(peer)
    public = kept[KEYS][kept[PEERS].tolist().index(peer)]
    key = keys.agreed_key(to_bytes(kept[SEEDS][1]), to_bytes(public[1]), "boxes")
    try:
        both = keys.unseal(key, to_bytes(kept[BOXES][at]), _about(round, peer, me))
    except UserError:
        return None
    share = both[: keys.SEED] if secret == "key" else both[keys.SEED :]
    committed = to_bytes(kept[COMMITMENTS][at][0 if secret == "key" else 1])
    return share if to_share(secret, share, round, peer, me) == committed else None


def _check_lists(kept: Message, survivors: Sequence[int], dropped: Sequence[int], rules: Rules) -> None:
    both = set(survivors) & set(dropped)
    if both:
        raise UserError(
            f"secure-aggregation gives one kind of share per client, but was asked for both of number {min(both)}."
        )
    senders, me = kept[SENDERS].tolist(), int(kept[ME])
    if not set(survivors) <= {*senders, me} or not set(dropped) <= set(senders):
        raise UserError("secure-aggregation was asked for shares of a client that took no part.")
    needed = needed_of(len(kept[PEERS]) + 1, rules.threshold)
    if len(set(survivors)) < needed:
        raise UserError(f"secure-aggregation opens no sum that includes fewer than {needed} of its neighbourhood.")


def _kept(memory: Memory, round: int, *, after: str, before: str) -> Message:
    """Each phase follows the one before, once, in the same round."""
    kept = Message.from_bytes(to_bytes(memory[KEPT])) if KEPT in memory else Message()
    if ROUND not in kept or int(kept[ROUND]) != round or after not in kept or before in kept:
        raise UserError("secure-aggregation was asked for a phase that is not the next one of this sum.")
    return kept


def _keep(memory: Memory, kept: Message) -> None:
    memory[KEPT] = to_tensor(kept.to_bytes(), -1)
