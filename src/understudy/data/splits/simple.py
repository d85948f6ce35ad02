"""Splits that ignore labels: at random, by a factor of the data, or by user."""

from typing import Literal

import numpy as np
from pydantic import Field

from understudy.data.dataset import Dataset
from understudy.data.splits.kind import Deal, SplitKind, deal_groups
from understudy.data.strata import Indices
from understudy.errors import UserError


class Iid(SplitKind):
    """At random, in equal parts (to within one record)."""

    kind: Literal["iid"] = "iid"  # at random, in equal parts

    def deal(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> Deal:
        return Deal(np.array_split(rng.permutation(among), clients))


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
        if dataset.users is None:
            raise UserError(
                f"data.split: {dataset.name} does not tell whose record each is; "
                "give the .npz an array 'users', or use another split."
            )
        users = dataset.users.numpy()
        everyone = np.unique(users)
        mine = users[among]
        return Deal([among[mine == user] for user in everyone], names=[f"user-{user}" for user in everyone.tolist()])
