"""Dirichlet splits in the two published variants.

NIID-Bench ("Federated Learning on Non-IID Data Silos: An Experimental Study"): class by class, draw
p ~ Dir(α·1_N), zero the entries of clients that already hold n/N records, renormalise, cut the shuffled class
by cumulative p; start again until every client has 10 records.

Fedssyn (after FedDF): cut the last records off for validation, shuffle the rest, apply the same rule to blocks
of clients until every client has half of the block's mean. ``equalise`` then joins the clients' lists and cuts
them into N equal chunks, so a chunk may straddle two clients of the draw. If N does not divide the records,
chunks differ by one and nothing is dropped.

The published loops may never end (100 clients, α = 0.01). Here the number of draws is bounded; then the best
draw is kept, records move from the largest client to those that lack them, and the split notes it.
"""

import heapq
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from understudy.data.dataset import Dataset
from understudy.data.splits.kind import Deal, SplitKind, single_labels
from understudy.data.strata import Indices
from understudy.errors import UserError

TRIES = 20_000  # Fedssyn's 20 clients per block at α = 0.1 succeed once in 4000 draws
NUMBERS = 4_000_000  # drawn per block at most: half a second

Floats = NDArray[np.float64]


class Dirichlet(SplitKind):
    kind: Literal["dirichlet"] = "dirichlet"  # shares of each class are drawn from Dir(α)
    alpha: float = Field(default=0.1, gt=0)  # α; small: each client has few classes; large: all are alike
    style: Literal["niid-bench", "fedssyn"] = "niid-bench"  # which published variant
    equalise: bool = False  # re-cut so that all clients have equally many records
    # of a client; None: as published, 10 or half of the block's mean
    min_records: int | None = Field(default=None, ge=0)
    block: int | None = Field(default=None, ge=1)  # fedssyn: clients per block; None: as published

    def keep_back(self, dataset: Dataset, share: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
        if self.style == "niid-bench":
            return super().keep_back(dataset, share, rng)
        records = len(dataset.train)
        cut = records - int(records * share + 0.5)
        lost = np.setdiff1d(dataset.train.y.numpy(), dataset.train.y.numpy()[:cut])
        if len(lost):
            raise UserError(
                f"data.validation: the style 'fedssyn' keeps the last records, and in {dataset.name} these are "
                f"all of class {lost[0]}; shuffle the file or use the style 'niid-bench'."
            )
        return np.arange(cut, records), np.arange(cut)

    def deal(self, dataset: Dataset, among: Indices, clients: int, rng: np.random.Generator) -> Deal:
        labels = single_labels(dataset, self.kind)
        order = rng.permutation(among)
        parts: list[Indices] = []
        short = 0
        for members, records in self._blocks(order, clients, dataset.problem.classes):
            floor = self._floor(len(records), members)
            dealt, repaired = deal_block(records, labels[records], members, self.alpha, floor, rng)
            parts += dealt
            short += repaired
        note = f"no draw gave every client enough: {short} were filled up from the largest"
        if self.equalise:
            together = np.concatenate(parts)
            cuts = np.arange(1, clients) * len(together) // clients
            parts = np.split(together, cuts)
        return Deal(parts, notes=(note,) if short else ())

    def _blocks(self, order: Indices, clients: int, classes: int) -> list[tuple[int, Indices]]:
        """(clients, records) of each block; the last block takes the rest of both."""
        if self.style == "niid-bench":
            return [(clients, order)]
        size = min(self.block or published_block(clients, self.alpha, classes), clients)
        starts = list(range(0, clients, size))
        cuts = [start * len(order) // clients for start in starts[1:]]
        members = [min(size, clients - start) for start in starts]
        return list(zip(members, np.split(order, cuts), strict=True))

    def _floor(self, records: int, clients: int) -> int:
        """How many records the smallest client should have, if there are enough."""
        published = 10 if self.style == "niid-bench" else int(0.5 * records / clients)
        return min(published if self.min_records is None else self.min_records, records // clients)


def published_block(clients: int, alpha: float, classes: int) -> int:
    """Fedssyn's: 20 or 10 of 40 clients (α = 0.1, 0.01), 20 or 10 of 100 (100 classes, 10); else all."""
    if clients == 40:
        return 20 if alpha >= 0.1 else 10
    if clients == 100:
        return 20 if classes >= 100 else 10
    return clients


def draw_shares(alpha: float, open_: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """Dir(α) along the last axis, closed clients zeroed, the largest scaled to 1: never all 0 or NaN."""
    shares: Floats
    if alpha >= 1:
        shares = np.where(open_, rng.standard_gamma(alpha, open_.shape), 0.0)
        shares /= shares.max(-1, keepdims=True)
        return shares
    # Gamma(α) = Gamma(α + 1)·U^(1/α): its logarithm is finite even where the number itself would be 0.
    scaled = alpha * np.log(rng.standard_gamma(alpha + 1, open_.shape)) + np.log1p(-rng.random(open_.shape))
    scaled = np.where(open_, scaled, -np.inf)
    with np.errstate(over="ignore"):
        shares = np.exp((scaled - scaled.max(-1, keepdims=True)) / alpha)
    return shares


def cut_class(shares: Floats, records: int) -> Indices:
    """How many of a class's records each client gets, by cumulative share; a zero share gets none."""
    edges = np.cumsum(shares, axis=-1)
    cuts: Indices = np.floor(edges / edges[..., -1:] * records).astype(np.int64)
    cuts[..., 1:] -= cuts[..., :-1].copy()
    return cuts


def draw_counts(class_sizes: Indices, clients: int, alpha: float, draws: int, rng: np.random.Generator) -> Indices:
    """(draws, classes, clients): this many draws of the published rule, as numbers of records."""
    counts = np.zeros((draws, len(class_sizes), clients), dtype=np.int64)
    held = np.zeros((draws, clients), dtype=np.int64)
    full_at = class_sizes.sum() / clients
    for label, records in enumerate(class_sizes.tolist()):
        if records:
            counts[:, label] = cut_class(draw_shares(alpha, held < full_at, rng), records)
            held += counts[:, label]
    return counts


def best_counts(class_sizes: Indices, clients: int, alpha: float, floor: int, rng: np.random.Generator) -> Indices:
    """(classes, clients): the first draw whose smallest client has ``floor`` records, else the best."""
    tries = max(1, min(TRIES, NUMBERS // (clients * len(class_sizes))))
    best, reached = np.zeros((len(class_sizes), clients), np.int64), -1
    at_once = 1
    while tries > 0:
        counts = draw_counts(class_sizes, clients, alpha, min(at_once, tries), rng)
        smallest = counts.sum(1).min(1)
        enough = np.flatnonzero(smallest >= floor)
        chosen = int(enough[0]) if len(enough) else int(smallest.argmax())
        if smallest[chosen] > reached:
            best, reached = counts[chosen], int(smallest[chosen])
        if len(enough):
            break
        tries -= at_once
        at_once = min(2 * at_once, 512)
    return best


def deal_block(
    records: Indices, labels: Indices, clients: int, alpha: float, floor: int, rng: np.random.Generator
) -> tuple[list[Indices], int]:
    """The records of each client, and how many clients had to be filled up."""
    sizes = np.bincount(labels, minlength=1)
    counts = best_counts(sizes, clients, alpha, floor, rng)
    piles = [
        np.split(rng.permutation(records[labels == label]), np.cumsum(counts[label])[:-1])
        for label in range(len(sizes))
    ]
    parts = [np.concatenate([np.empty(0, np.int64), *(pile[k] for pile in piles)]) for k in range(clients)]
    return fill_up(parts, floor)


def fill_up(parts: list[Indices], floor: int) -> tuple[list[Indices], int]:
    """Moves records from the end of the largest client's list to those with fewer than ``floor``."""
    parts = list(parts)
    filled = 0
    by_size = [(-len(part), at) for at, part in enumerate(parts)]  # the largest first, and of equals the first
    heapq.heapify(by_size)
    for needy in range(len(parts)):
        if len(parts[needy]) >= floor:
            continue
        filled += 1
        while (lacking := floor - len(parts[needy])) > 0:
            size, largest = heapq.heappop(by_size)
            moved = min(lacking, -size - floor)
            parts[needy] = np.concatenate([parts[needy], parts[largest][-moved:]])
            parts[largest] = parts[largest][:-moved]
            heapq.heappush(by_size, (size + moved, largest))
    return parts, filled
