"""Single examples of a reply: what they are called, and the reply without some of them.

A person at a site may drop single examples before a reply leaves. Their ids are class and number: ``3.1`` is the first
example of class 3; where a record has several labels, ``r1`` is the first of all. A decision is bound to the bytes that
were reviewed, so an id means the same row for as long as it is of any use.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Kind, Message
from understudy.federation.release import labelled, parts_of
from understudy.federation.site import SCORE

Kinds = Mapping[str, Kind]
KeepRows = Callable[[Kinds, Message, Tensor], Message]  # `Method.keep_rows`


class SentWhole(UserError):
    """No single example of a reply can be dropped."""


def only_rows(kinds: Kinds, reply: Message, kept: Tensor) -> Message:
    """Examples with their labels, in the order of ``kept``; for replies that hold nothing else."""
    records, labels = parts_of("examples", reply, kinds), parts_of("labels", reply, kinds)
    if len(records) != 1 or len(labels) != 1:
        raise SentWhole("its examples and labels are not one part each, so that no row can be told from another")
    others = [part for part in reply if part not in (*records, *labels)]
    if others:
        raise SentWhole(
            f"it also sends '{others[0]}', and the method does not say what becomes of that without some rows"
        )
    return Message({part: reply[part][kept] for part in (*records, *labels)})


def without_rows(keep: KeepRows, kinds: Kinds, problem: Problem, reply: Message, dropped: Iterable[int]) -> Message:
    """What leaves of a reply. Whatever the method makes of the rest, the rows are checked to be the approved ones, to
    the last bit."""
    whole = labelled(reply, kinds, problem)
    if whole is None:
        raise SentWhole("its examples do not pair up with labels, so that no row can be told from another")
    gone = set(dropped)
    kept = torch.tensor([row for row in range(len(whole)) if row not in gone], dtype=torch.int64)
    left = _kept(keep, kinds, reply.without(SCORE), kept).but(reply.only(SCORE) if SCORE in reply else {})
    rows = labelled(left, kinds, problem)
    if set(left) != set(reply) or rows is None or not _same(rows, whole.take(kept)) or left.not_finite():
        raise SentWhole("the method did not return exactly the approved rows")
    return left


def _kept(keep: KeepRows, kinds: Kinds, reply: Message, kept: Tensor) -> Message:
    try:
        return keep(kinds, reply, kept)
    except SentWhole:
        raise
    except Exception as defect:
        raise SentWhole(f"the method cannot drop a row ({type(defect).__name__})") from defect


def _same(one: Examples, other: Examples) -> bool:
    return one.x.dtype == other.x.dtype and torch.equal(one.x, other.x) and torch.equal(one.y, other.y)


def row_ids(examples: Examples) -> list[str]:
    if examples.multilabel:
        return [f"r{number}" for number in range(1, len(examples) + 1)]
    seen: Counter[int] = Counter()
    ids = []
    for label in examples.y.tolist():
        seen[label] += 1
        ids.append(f"{label}.{seen[label]}")
    return ids


def rows_named(names: Iterable[str], ids: Sequence[str]) -> list[int]:
    """The rows of these ids; a class alone (``3``) names all its rows."""
    places: dict[str, list[int]] = {}
    for row, each in enumerate(ids):
        places[each] = [row]
        places.setdefault(each.partition(".")[0], []).append(row) if "." in each else None
    found: set[int] = set()
    for name in names:
        if name not in places:
            raise UserError(f"There is no example {name!r} in this reply; ids look like {ids[0] if ids else '3.1'}.")
        found.update(places[name])
    return sorted(found)
