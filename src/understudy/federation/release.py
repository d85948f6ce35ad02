"""The site's last word: whether a reply may leave, by the site's own policy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import Kind, Message, labels_from_wire
from understudy.privacy.charges import Charge
from understudy.privacy.policy import Policy


class Forbidden(UserError):
    """The policy of the site does not allow it."""

    code = "policy"


def check_kinds(policy: Policy | None, kinds: Mapping[str, Kind], *, private: bool) -> None:
    """Before a record is touched: everything that the task may send is allowed."""
    if policy is None:
        return
    if policy.epsilon is not None and not private:
        _require_cover(policy, kinds, kinds, ())
    forbidden = {part: kind for part, kind in kinds.items() if kind not in policy.kinds}
    if forbidden:
        part, kind = next(iter(forbidden.items()))
        raise Forbidden(f"its policy does not let {kind} leave, and the task would send '{part}'")


def may_score(policy: Policy | None) -> bool:
    """Scores on held-out records are statistics without noise; where those may not leave, nothing is scored."""
    return policy is None or ("statistics" in policy.kinds and policy.epsilon is None)


def rows_of(kind: Kind, reply: Message, kinds: Mapping[str, Kind]) -> int:
    """How many examples, or labels, a reply holds, whatever its parts are called."""
    return sum(_rows(reply[part]) for part in _of(kind, reply, kinds))


def labelled(reply: Message, kinds: Mapping[str, Kind]) -> Examples | None:
    """The labelled records in a reply: its examples, and the labels that go with them; None where it has no such."""
    records, labels = _of("examples", reply, kinds), _of("labels", reply, kinds)
    if len(records) != 1 or len(labels) != 1:
        return None
    x, y = reply[records[0]], reply[labels[0]]
    return Examples(x, labels_from_wire(y)) if x.ndim and y.ndim and len(x) == len(y) else None


def described(reply: Message, kinds: Mapping[str, Kind], charges: Sequence[Charge]) -> list[dict[str, Any]]:
    """What is known of each part without looking at its numbers."""
    covered = {part for charge in charges for part in charge.covers}
    return [
        {
            "part": part,
            "kind": kinds[part],
            "shape": list(tensor.shape),
            "bytes": tensor.numel() * tensor.element_size(),
            "covered": part in covered,
        }
        for part, tensor in reply.items()
    ]


def _of(kind: Kind, reply: Message, kinds: Mapping[str, Kind]) -> list[str]:
    return [part for part in reply if kinds.get(part) == kind]


def _rows(part: Tensor) -> int:
    return len(part) if part.ndim else 1


def check_reply(
    policy: Policy | None,
    reply: Message,
    kinds: Mapping[str, Kind],
    own: Examples,
    sent: int,
    charges: Sequence[Charge] = (),
) -> None:
    """Before it leaves; ``sent`` examples left in this round already, ``charges`` were paid for it."""
    if policy is None:
        return
    if policy.epsilon is not None:
        _require_cover(policy, reply, kinds, charges)
    leaving = rows_of("examples", reply, kinds)
    if leaving and policy.examples_a_round is not None and sent + leaving > policy.examples_a_round:
        raise Forbidden(
            f"its policy lets {policy.examples_a_round} examples leave in a round, and these would be {sent + leaving}"
        )
    if policy.smallest_class:
        _require_company(policy.smallest_class, reply, kinds, own)


def _require_company(smallest: int, reply: Message, kinds: Mapping[str, Kind], own: Examples) -> None:
    """Behind every class that a reply tells of stand so many records; examples that bear no label cannot be checked."""
    wanted = f"its policy wants {smallest} records behind every class whose examples leave"
    if rows_of("examples", reply, kinds) > rows_of("labels", reply, kinds):
        raise Forbidden(f"{wanted}, and some would leave without a label")
    told = {label for part in _of("labels", reply, kinds) for label in _classes_told(reply[part])}
    held = dict(enumerate(own.label_counts(0).tolist()))
    if any(held.get(label, 0) < smallest for label in told):  # which class it is, is nobody's business
        raise Forbidden(f"{wanted}, and some class has fewer")


def _classes_told(labels: Tensor) -> list[int]:
    """The classes in (n,) labels; in rows of numbers, one per class, those with at least an even share."""
    if labels.ndim < 2:
        return sorted(set(labels_from_wire(labels.view(-1)).tolist()))
    there = (labels.flatten(1) * labels[0].numel() >= 1).any(0) if len(labels) else labels.new_zeros(0)
    return torch.nonzero(there).flatten().tolist()


def _require_cover(policy: Policy, parts: Iterable[str], kinds: Mapping[str, Kind], charges: Sequence[Charge]) -> None:
    """A limit on ε is a limit on everything: what no mechanism covers would leave at an infinite ε."""
    covered = {part for charge in charges for part in charge.covers}
    bare = [part for part in parts if kinds[part] != "keys" and part not in covered]
    if bare:
        raise Forbidden(
            f"its policy allows ε up to {policy.epsilon:g}, and '{bare[0]}' would leave without any such guarantee"
        )
