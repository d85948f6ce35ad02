"""The site's last check: whether its own policy lets a reply leave."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Kind, Message, labels_from_wire
from understudy.privacy.charges import Charge
from understudy.privacy.policy import Policy


class Forbidden(UserError):
    """The site's policy does not allow it."""

    code = "policy"


def check_kinds(policy: Policy | None, kinds: Mapping[str, Kind], *, private: bool) -> None:
    """Before a record is touched: everything the task may send must be allowed."""
    if policy is None:
        return
    if policy.epsilon is not None and not private:
        _require_cover(policy, kinds, kinds, ())
    _require_allowed(policy, kinds, kinds)


def may_score(policy: Policy | None) -> bool:
    """Scores on held-out records are statistics without noise; if those may not leave, nothing is scored."""
    return policy is None or ("statistics" in policy.kinds and policy.epsilon is None)


def rows_of(kind: Kind, reply: Message, kinds: Mapping[str, Kind], problem: Problem) -> int:
    """How many examples or labels a reply holds, however its parts are named and packed."""
    numbers = math.prod(problem.shape) if kind == "examples" else None
    return sum(_rows(reply[part], numbers) for part in parts_of(kind, reply, kinds))


def labelled(reply: Message, kinds: Mapping[str, Kind], problem: Problem) -> Examples | None:
    """The labelled records in a reply: its examples with their labels; None if it has none."""
    records = parts_of("examples", reply, kinds)
    if len(records) != 1:
        return None
    labels = parts_of("labels", reply, kinds)
    if len(labels) != 1:
        return None
    x, y = reply[records[0]], reply[labels[0]]
    if tuple(x.shape[1:]) != problem.shape or not y.ndim or not _tells_classes(y, problem) or len(x) != len(y):
        return None
    found = Examples(x, labels_from_wire(y))
    there = found.multilabel or all(0 <= label < problem.classes for label in set(found.y.flatten().tolist()))
    return found if there else None


def described(reply: Message, kinds: Mapping[str, Kind], charges: Sequence[Charge]) -> list[dict[str, Any]]:
    """What is known about each part without reading its numbers."""
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


def parts_of(kind: Kind, reply: Iterable[str], kinds: Mapping[str, Kind]) -> list[str]:
    return [part for part in reply if kinds.get(part) == kind]


def _rows(part: Tensor, numbers: int | None) -> int:
    """A record has this many ``numbers``; a row may hold several records."""
    rows = len(part) if part.ndim else 1
    return rows if not numbers else max(rows, math.ceil(part.numel() / numbers))


def check_against_policy(
    policy: Policy | None,
    reply: Message,
    kinds: Mapping[str, Kind],
    own: Examples,
    problem: Problem,
    sent: int,
    charges: Sequence[Charge] = (),
) -> None:
    """Before it leaves; ``sent`` examples have already left in this round, ``charges`` were paid for this reply."""
    if policy is None:
        return
    _require_allowed(policy, reply, kinds)
    if policy.epsilon is not None:
        _require_cover(policy, reply, kinds, charges)
    leaving = rows_of("examples", reply, kinds, problem)
    if leaving and policy.examples_a_round is not None and sent + leaving > policy.examples_a_round:
        raise Forbidden(
            f"its policy lets {policy.examples_a_round} examples leave per round, and this would make {sent + leaving}"
        )
    if policy.smallest_class:
        _require_company(policy.smallest_class, reply, kinds, own, problem)


def _require_allowed(policy: Policy, parts: Iterable[str], kinds: Mapping[str, Kind]) -> None:
    for part in parts:
        if kinds[part] not in policy.kinds:
            raise Forbidden(f"its policy does not let {kinds[part]} leave, but the task would send '{part}'")


def _require_company(smallest: int, reply: Message, kinds: Mapping[str, Kind], own: Examples, problem: Problem) -> None:
    """Every class in a reply must have this many records behind it; examples without a label cannot be checked."""
    wanted = f"its policy requires {smallest} records behind every class whose examples leave"
    if rows_of("examples", reply, kinds, problem) > rows_of("labels", reply, kinds, problem):
        raise Forbidden(f"{wanted}, but some would leave without a label")
    labels = [reply[part] for part in parts_of("labels", reply, kinds)]
    if not all(_tells_classes(part, problem) for part in labels):
        raise Forbidden(f"{wanted}, but some labels are neither class numbers nor rows of one number per class")
    told = {label for part in labels for label in _classes_told(part)}
    held = dict(enumerate(own.label_counts(0).tolist()))
    if any(held.get(label, 0) < smallest for label in told):  # which class it is stays private
        raise Forbidden(f"{wanted}, but some class has fewer")


def _tells_classes(labels: Tensor, problem: Problem) -> bool:
    """Whether it is (n,) whole numbers, or (n, classes)."""
    if labels.ndim < 2:
        return not labels.is_floating_point() or bool((labels == labels.round()).all())
    return labels.ndim == 2 and labels.shape[1] == problem.classes


def _classes_told(labels: Tensor) -> list[int]:
    """The classes in (n,) labels; in rows with one number per class, those with at least an even share, and the one
    with the largest number, which logits and other scales reveal as well."""
    if labels.ndim < 2:
        return sorted(set(labels_from_wire(labels.view(-1)).tolist()))
    if not labels.numel():
        return []
    rows = labels.to(torch.float64)  # bytes would overflow
    largest, least = rows.amax(1, keepdim=True), rows.amin(1, keepdim=True)
    told = (rows * rows.shape[1] >= 1) | ((rows == largest) & (rows > least))
    return torch.nonzero(told.any(0)).flatten().tolist()


def _require_cover(policy: Policy, parts: Iterable[str], kinds: Mapping[str, Kind], charges: Sequence[Charge]) -> None:
    """A limit on ε applies to everything: what no mechanism covers would leave at infinite ε."""
    covered = {part for charge in charges for part in charge.covers}
    bare = [part for part in parts if kinds[part] != "keys" and part not in covered]
    if bare:
        raise Forbidden(
            f"its policy allows ε up to {policy.epsilon:g}, but '{bare[0]}' would leave without any such guarantee"
        )
