"""Who is judged: every client's records, records that nobody trained on, and what else the attacker has.

Records that nobody trained on come from where the members come from, if a limit left some out there: a published test
set can differ from its training set, and then any score tells the two apart a little, whatever was shared. They are cut
into three. Most are judged beside the members: each is dealt to one client, in
proportion to the clients' records of its class, so that members and non-members have the same classes at the same
clients, and neither can be told by its class alone. Others are the attacker's reference, what an outsider knows about
such records. A few are foreign images, the stand-in of the null row: images that no client made.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.randomness import numpy_generator

FOREIGN, REFERENCE = 0.1, 0.4  # shares of the records outside the training; the rest is judged
MOST = 20_000  # records outside the training: half of them are judged
SMALL = 50  # a class of at most this many records at a client is a small holding
ENOUGH = 2000  # unused training records: half of them are judged, and resolve 1 %
FEWEST = 50  # records outside the training, without which nothing can be told


@dataclass(frozen=True)
class Candidates:
    """The records of one client, and others that could be taken for them."""

    members: Examples
    non_members: Examples

    @property
    def all(self) -> Examples:
        return self.members.and_also(self.non_members)

    def small(self, classes: int) -> Tensor:
        """(n,) bool, in the order of ``all``: whose class the client holds few records of."""
        if self.members.multilabel:
            return torch.full((len(self.members) + len(self.non_members),), len(self.members) <= SMALL)
        return (self.members.label_counts(classes) <= SMALL)[self.all.y]


@dataclass(frozen=True)
class Judged:
    clients: Mapping[str, Candidates]
    reference: Examples
    foreign: Examples

    @property
    def members(self) -> int:
        return sum(len(one.members) for one in self.clients.values())

    @property
    def non_members(self) -> int:
        return sum(len(one.non_members) for one in self.clients.values())


def judged(data: Federation, seed: int, unused: Examples | None = None) -> Judged:
    """``unused``: training records that nobody holds. Without enough of them, the test set, the validation share and
    the records held out at clients."""
    rng = numpy_generator(seed, "audit")
    outside = unused if unused is not None and len(unused) >= ENOUGH else _outside(data)
    order = torch.from_numpy(rng.permutation(len(outside)))
    foreign, reference, left = _cut(outside.take(order))
    holders = {name: holding.own for name, holding in data.sites.items() if len(holding.own)}
    dealt = _dealt(left, holders, data.problem.classes, rng)
    clients = {name: Candidates(_of_classes(own, left), left.take(dealt[name])) for name, own in holders.items()}
    return Judged({name: one for name, one in clients.items() if len(one.members)}, reference, foreign)


def _outside(data: Federation) -> Examples:
    """No record of it was trained on, unless the data hold the same record twice."""
    parts = [part for part in (data.test, data.validation) if part is not None]
    parts += [holding.held_out for holding in data.sites.values()]
    found = parts[0].none()
    for part in parts:
        found = found.and_also(part)
    if len(found) < FEWEST:
        raise UserError(
            f"An audit needs records that nobody trained on, at least {FEWEST}, and there are {len(found)}: hold some "
            "out at the clients (data.held_out: 0.2), or give a test set (data.test)."
        )
    return found


def _cut(outside: Examples) -> tuple[Examples, Examples, Examples]:
    places = torch.arange(min(len(outside), MOST))
    foreign, reference = int(FOREIGN * len(places)), int(REFERENCE * len(places))
    first, second, rest = places[:foreign], places[foreign : foreign + reference], places[foreign + reference :]
    return outside.take(first), outside.take(second), outside.take(rest)


def _of_classes(own: Examples, others: Examples) -> Examples:
    """Members whose class occurs among the non-members: the others could be told by their class."""
    return own if own.multilabel else own.take(torch.nonzero(torch.isin(own.y, others.y)).flatten())


def _dealt(
    left: Examples, holders: Mapping[str, Examples], classes: int, rng: np.random.Generator
) -> dict[str, Tensor]:
    """Which non-members belong to which client: each to one, by the clients' shares of its class."""
    names = list(holders)
    groups = _by_class(left, classes)
    counts = torch.stack([_counts(own, classes) for own in holders.values()], 1)  # (classes, clients)
    chosen: dict[str, list[Tensor]] = {name: [] for name in names}
    for group, held in zip(groups, counts.tolist(), strict=True):
        if not sum(held):
            continue
        start = 0
        for name, end in zip(names, _ends(held, len(group), rng), strict=True):
            chosen[name].append(group[start:end])
            start = end
    nothing = torch.empty(0, dtype=torch.int64)
    return {name: torch.cat([nothing, *some]) for name, some in chosen.items()}


def _by_class(examples: Examples, classes: int) -> list[Tensor]:
    if examples.multilabel:
        return [torch.arange(len(examples))]
    return [torch.nonzero(examples.y == c).flatten() for c in range(classes)]


def _counts(own: Examples, classes: int) -> Tensor:
    return torch.tensor([len(own)]) if own.multilabel else own.label_counts(classes)


def _ends(held: list[int], total: int, rng: np.random.Generator) -> list[int]:
    """Where each client's part of ``total`` ends: in proportion to ``held``, what is left over by lot."""
    exact = np.array(held) / sum(held) * total
    parts = np.floor(exact).astype(int)
    left_over, rest = exact - parts, total - parts.sum()
    if rest:
        parts[rng.choice(len(held), rest, replace=False, p=left_over / left_over.sum())] += 1
    return [int(end) for end in np.cumsum(parts)]
