"""A data set before it is split: training records, test records, what is known about them, and where it comes from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.persons import people_in
from understudy.data.problem import Problem
from understudy.data.strata import Indices, draw_exactly
from understudy.errors import UserError


@dataclass(frozen=True)
class Dataset:
    name: str
    problem: Problem
    train: Examples
    test: Examples | None
    users: Tensor | None = None  # (n,) int64: whose record each training record is
    factors: Mapping[str, Tensor] = field(default_factory=dict)  # name -> (n,) int64, one level per record
    label_names: tuple[str, ...] = ()
    found: Mapping[str, Any] = field(default_factory=dict)  # settings that your own files show, for the config
    columns: tuple[str, ...] = ()  # of a table, in the order of its features

    def __post_init__(self) -> None:
        self.problem.check(self.train, f"{self.name}, training records")
        if self.test is not None:
            self.problem.check(self.test, f"{self.name}, test records")
        beside = {} if self.users is None else {"users": self.users}
        for what, values in {**beside, **self.factors}.items():
            if tuple(values.shape) != (len(self.train),):
                raise UserError(
                    f"{self.name}: '{what}' has shape {tuple(values.shape)}; "
                    f"there must be one number for each of the {len(self.train)} training records."
                )
        if self.label_names and len(self.label_names) != self.problem.classes:
            raise UserError(
                f"{self.name}: {len(self.label_names)} label names came with {self.problem.classes} classes."
            )

    def limited(self, records: int, rng: np.random.Generator) -> "Dataset":
        """At most this many training records, with the classes in the same proportions."""
        if records >= len(self.train):
            return self
        return self.only(self._within(records, rng)[0])

    def only(self, kept: Indices) -> "Dataset":
        """With these training records."""
        return replace(
            self,
            train=self.train.keep(kept.tolist()),
            users=None if self.users is None else self.users[kept],
            factors={name: levels[kept] for name, levels in self.factors.items()},
        )

    def beyond(self, records: int, rng: np.random.Generator) -> Examples:
        """The training records that `limited` leaves out, from the same stream."""
        return self.train.take(self._within(records, rng)[1].tolist())

    def _within(self, records: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """At most this many, and those that are left; a person's records are together."""
        if self.train.person is None or records >= len(self.train):
            return self.cut(records, rng)
        people = people_in(self.train, np.arange(len(self.train)))
        number = max(1, records * len(people.members) // len(self.train))
        chosen, left = self.only(people.first).cut(number, rng)
        while len(people.records(chosen)) > records and len(chosen) > 1:
            chosen, left = chosen[:-1], np.append(left, chosen[-1])
        return people.records(chosen), people.records(left)

    def cut(self, records: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """Which training records are drawn, with the classes in the same proportions, and which are left."""
        if not self.train.multilabel:
            return draw_exactly(self.train.y.numpy(), records, rng)
        order = rng.permutation(len(self.train))
        return np.sort(order[:records]), np.sort(order[records:])


@dataclass(frozen=True)
class Source:
    """One line of `understudy data list`: a data set that can be loaded by name."""

    name: str
    shape: tuple[int, ...]
    classes: int
    records: tuple[int, int]  # training, test
    origin: str
    read: Callable[[Path | None], Dataset]
    here: Callable[[Path | None], bool]
    get: Callable[[Path | None], Path]  # returns the folder where it is afterwards
