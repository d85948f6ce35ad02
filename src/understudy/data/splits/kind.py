"""What all ways to deal out records have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.base_settings import Settings
from understudy.data.dataset import Dataset
from understudy.data.population import DealtIndex, NumberedNames, dealt_index
from understudy.data.strata import Indices
from understudy.errors import UserError


@dataclass(frozen=True)
class Deal:
    """The records of each client, and what a reader of the split should know."""

    parts: Sequence[Indices]
    names: Sequence[str] = ()  # none: client-0, client-1, …
    notes: tuple[str, ...] = ()


class SplitKind(Settings):
    @abstractmethod
    def deal(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> Deal:
        """Deals out the records ``among`` (indices into the training set, in order) to clients."""

    def deal_index(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> DealtIndex:
        """The same for a population, as an index."""
        dealt = self.deal(dataset, among, clients, rng)
        sizes = np.array([len(part) for part in dealt.parts], dtype=np.int64)
        order = np.concatenate([np.empty(0, np.int64), *dealt.parts])
        return dealt_index(numbered(len(sizes)), order, sizes, dealt.notes)

    def clients_of(self, dataset: Dataset, clients: int) -> int:
        """How many clients there will be."""
        return clients

    def keep_back(self, dataset: Dataset, share: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """(validation, left): the first stay on the server, for choosing settings."""
        return dataset.cut(int(len(dataset.train) * share + 0.5), rng)


def numbered(clients: int) -> NumberedNames:
    return NumberedNames("client-", np.arange(clients))


def single_labels(dataset: Dataset, kind: str) -> Indices:
    """(n,) class numbers, or an error if records have several."""
    if dataset.problem.multilabel:
        raise UserError(
            f"data.split: '{kind}' splits by the class of a record, but records of {dataset.name} may "
            "have several; use 'iid' or 'users'."
        )
    labels: Indices = dataset.train.y.numpy()
    return labels


def deal_groups(groups: Sequence[Sequence[Indices]], clients: int, rng: np.random.Generator) -> list[Indices]:
    """Client i takes group i mod len(groups); clients that share a group split each of its piles evenly."""
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for number, piles in enumerate(groups):
        members = range(number, clients, len(groups))
        for pile in piles:
            for member, piece in zip(members, np.array_split(rng.permutation(pile), len(members)), strict=True):
                parts[member].append(piece)
    return [np.concatenate([np.empty(0, np.int64), *pieces]) for pieces in parts]
