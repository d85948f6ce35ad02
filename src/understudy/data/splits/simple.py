"""Splits without draws of shares: at random, by groups of classes, by a factor of the data, or by user."""

from typing import Literal

import numpy as np
from pydantic import Field

from understudy.data.dataset import Dataset
from understudy.data.population import DealtIndex, NumberedNames, dealt_index
from understudy.data.splits.kind import Deal, SplitKind, deal_groups, numbered, single_labels
from understudy.data.strata import Indices
from understudy.errors import UserError

FEDLAP_PAIRS = ((5, 6), (1, 2), (0, 8), (9, 3), (4, 7))


class Iid(SplitKind):
    """At random, in equal parts (to within one record)."""

    kind: Literal["iid"] = "iid"  # at random, in equal parts

    def deal(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> Deal:
        return Deal(np.array_split(rng.permutation(among), clients))

    def deal_index(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> DealtIndex:
        sizes = np.full(clients, len(among) // clients, dtype=np.int64)
        sizes[: len(among) % clients] += 1
        return dealt_index(numbered(clients), rng.permutation(among), sizes)


class LabelGroups(SplitKind):
    """FedCOG's NIID-2: C/s groups of s consecutive labels; client i takes group i mod (C/s)."""

    kind: Literal["label-groups"] = "label-groups"  # groups of consecutive labels
    labels_per_client: int = Field(default=2, ge=1)  # s, the number of classes per client

    def deal(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> Deal:
        labels = single_labels(dataset, self.kind)[among]
        classes, each = dataset.problem.classes, self.labels_per_client
        if classes % each:
            raise UserError(
                f"data.split.labels_per_client: {each} does not divide the {classes} classes of {dataset.name}."
            )
        if classes // each > clients:
            raise UserError(
                f"data.clients: {classes // each} groups of {each} labels need at least that many clients; "
                f"with {clients}, some classes would be lost."
            )
        piles = [among[labels == label] for label in range(classes)]
        return Deal(deal_groups([piles[at : at + each] for at in range(0, classes, each)], clients, rng))


class ClassPairs(SplitKind):
    """FedLAP's: each client has all records of classes that no other client has.

    ``pairs`` lists each client's classes; "fedlap" is that paper's list; by default consecutive classes are
    dealt out so that every class is used.
    """

    kind: Literal["class-pairs"] = "class-pairs"  # classes that no other client has
    # classes of each client in turn, or "fedlap", the paper's list; None: consecutive ones
    pairs: Literal["fedlap"] | tuple[tuple[int, ...], ...] | None = None

    def deal(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> Deal:
        labels = single_labels(dataset, self.kind)[among]
        pairs = self._pairs(dataset, clients)
        left_out = sorted(set(range(dataset.problem.classes)) - {label for pair in pairs for label in pair})
        unused = int(np.isin(labels, left_out).sum())
        note = f"classes {left_out} are in no pair: {unused} records are not used"
        return Deal([among[np.isin(labels, pair)] for pair in pairs], notes=(note,) if unused else ())

    def _pairs(self, dataset: Dataset, clients: int) -> tuple[tuple[int, ...], ...]:
        classes = dataset.problem.classes
        if self.pairs is None:
            if clients > classes:
                raise UserError(
                    f"data.clients: {clients} clients cannot each have their own classes, as {dataset.name} "
                    f"has only {classes}; write at most {classes}, or use 'label-groups'."
                )
            return tuple(tuple(group.tolist()) for group in np.array_split(np.arange(classes), clients))
        pairs = FEDLAP_PAIRS if self.pairs == "fedlap" else self.pairs
        if len(pairs) != clients:
            raise UserError(f"data.split.pairs: {len(pairs)} pairs for {clients} clients; give one per client.")
        listed = [label for pair in pairs for label in pair]
        for label in listed:
            if not 0 <= label < classes:
                raise UserError(
                    f"data.split.pairs: {dataset.name} has no label {label}; they run from 0 to {classes - 1}."
                )
            if listed.count(label) > 1:
                raise UserError(f"data.split.pairs: label {label} is listed twice; give each to one client.")
        return pairs


class Factor(SplitKind):
    """One client (or several, evenly) per combination of levels; Fedssyn's dSprites: quadrant × shape."""

    kind: Literal["factor"] = "factor"  # by the levels of factors
    factors: tuple[str, ...] = Field(min_length=1)  # names of the data set's factors, such as shape

    def deal(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> Deal:
        known = dict(dataset.factors)
        if not known:
            raise UserError(f"data.split.factors: {dataset.name} has no factors; 'shapes' does.")
        for name in self.factors:
            if name not in known:
                raise UserError(f"data.split.factors: {dataset.name} has no factor '{name}', only {', '.join(known)}.")
        levels = np.stack([known[name].numpy()[among] for name in self.factors])
        cells, cell = np.unique(levels, axis=1, return_inverse=True)
        number = cells.shape[1]
        if number > clients:
            raise UserError(
                f"data.clients: {' × '.join(self.factors)} has {number} cells, and {clients} clients would leave "
                f"some unused; write {number} clients or a multiple."
            )
        return Deal(deal_groups([[among[cell.ravel() == at]] for at in range(number)], clients, rng))


class Users(SplitKind):
    """One client per natural user; their number comes from the data, not from ``data.clients``."""

    kind: Literal["users"] = "users"  # by natural user

    def deal(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> Deal:
        everyone, order, sizes = self._by_user(dataset, among)
        parts = np.split(order, np.cumsum(sizes)[:-1])
        return Deal(parts, names=[f"user-{user}" for user in everyone.tolist()])

    def deal_index(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> DealtIndex:
        everyone, order, sizes = self._by_user(dataset, among)
        if everyone[0] < 0:
            raise UserError(f"data.split: users of {dataset.name} are numbered from {everyone[0]}; number them from 0.")
        return dealt_index(NumberedNames("user-", everyone), order, sizes)

    def clients_of(self, dataset: Dataset, clients: int) -> int:
        return clients if dataset.users is None else len(np.unique(dataset.users.numpy()))

    def _by_user(self, dataset: Dataset, among: Indices) -> tuple[Indices, Indices, Indices]:
        """All users in order, the records ``among`` user by user, and how many each has."""
        if dataset.users is None:
            raise UserError(
                f"data.split: {dataset.name} does not tell whose record each is; "
                "give the .npz an array 'users', or use another split."
            )
        users = dataset.users.numpy()
        everyone, mine = np.unique(users), users[among]
        sizes = np.bincount(np.searchsorted(everyone, mine), minlength=len(everyone))
        return everyone, among[np.argsort(mine, kind="stable")], sizes
