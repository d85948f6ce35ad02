"""Records of the same person stay together: on one side of every split, and with one client.

Where it is known whose record each is (``Examples.person``), one record stands for each person while a split is drawn,
one with the label that most of the person's records have; the others follow it. If nobody has two records, a split is
the same as without.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.strata import Indices
from understudy.errors import UserError


@dataclass(frozen=True)
class People:
    """Some records, by person, in the order in which persons first appear."""

    members: Sequence[Indices]
    first: Indices  # the record that stands for each person

    def records(self, chosen: Indices) -> Indices:
        """All records of these persons, in order; ``chosen`` are positions."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *(self.members[at] for at in chosen)]))

    def records_of(self, first: Indices) -> Indices:
        """The same, for records that stand for persons."""
        places = {record: at for at, record in enumerate(self.first.tolist())}
        return self.records(np.array([places[record] for record in first.tolist()], np.int64))


def people_in(examples: Examples, among: Indices) -> People:
    assert examples.person is not None
    person = examples.person.numpy()[among]
    _, appears, which = np.unique(person, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(appears, kind="stable"), kind="stable")[which]
    cuts = np.cumsum(np.bincount(rank, minlength=len(appears)))[:-1]
    members = [among[one] for one in np.split(np.argsort(rank, kind="stable"), cuts)] if len(among) else []
    labels = None if examples.multilabel else examples.y.numpy()
    first = [one[0] if labels is None else _usual(one, labels) for one in members]
    return People(members, np.array(first, np.int64))


def _usual(records: Indices, labels: Indices) -> int:
    """The first one with the label that most of them have."""
    mine = labels[records]
    return int(records[np.argmax(mine == np.bincount(mine).argmax())])


def most_of_one(examples: Examples) -> int | None:
    """How many records a person has at most; None: it is not known whose they are."""
    if examples.person is None:
        return None
    return int(np.unique(examples.person.numpy(), return_counts=True)[1].max(initial=0))


def codes(names: Sequence[object], who: str) -> Tensor:
    """(n,) int64: a number for each person, the same wherever the person appears. 7, "7" and 7.0 are one person."""
    plain = [_plain(name, who) for name in names]
    known = {name: _code(name) for name in set(plain)}
    return torch.tensor([known[name] for name in plain], dtype=torch.int64)


def _plain(name: object, who: str) -> str:
    if name is None or name != name:  # not a number
        raise UserError(f"{who}: it is not told whose record some are; fill that in, or leave those records out.")
    return str(int(name)) if isinstance(name, float | np.floating) and name == int(name) else str(name)


def _code(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
