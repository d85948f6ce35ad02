"""How skewed a federation is, in numbers."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from understudy.data.federation import Federation, Holding


@dataclass(frozen=True)
class ClientSkew:
    name: str
    records: int
    held_out: int
    classes: int  # with at least one record
    entropy: float  # of its labels, in nats
    effective_classes: float  # e^entropy: 1 with a single class, C if all are equally frequent
    distance: float  # total variation to the label distribution of all clients together, 0 … 1


@dataclass(frozen=True)
class Skew:
    """``label_counts`` is (clients, classes); a multi-label record counts once for each of its labels.

    Clients without records have no label distribution, so averages leave them out.
    """

    clients: tuple[ClientSkew, ...]
    label_counts: tuple[tuple[int, ...], ...]
    label_names: tuple[str, ...]
    records: int
    empty_clients: int
    smallest: int
    largest: int
    effective_clients: float  # e^entropy of the sizes: N if all are equal
    mean_classes: float
    mean_entropy: float  # nats
    mean_distance: float
    entropy_of_all: float  # nats, of the labels of all clients together

    @property
    def labels_per_record(self) -> float:
        """1 if each record has one class; 0 if there are no records."""
        return sum(map(sum, self.label_counts)) / self.records if self.records else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "labels_per_record": self.labels_per_record}


def entropy(counts: Sequence[float]) -> float:
    """In nats; 0 without records."""
    total = sum(counts)
    return -sum(n / total * math.log(n / total) for n in counts if n) + 0.0 if total else 0.0


def total_variation(counts: Sequence[float], others: Sequence[float]) -> float:
    """Half the summed differences of two distributions, given as counts: 0 if alike, 1 if nothing in common."""
    here, there = sum(counts), sum(others)
    if not here or not there:
        return 0.0
    return sum(abs(a / here - b / there) for a, b in zip(counts, others, strict=True)) / 2


def measure_skew(federation: Federation) -> Skew:
    classes = federation.problem.classes
    rows: list[list[int]] = [holding.own.label_counts(classes).tolist() for holding in federation.sites.values()]
    overall = [sum(column) for column in zip(*rows, strict=True)]
    clients = tuple(
        _client_skew(name, holding, row, overall)
        for (name, holding), row in zip(federation.sites.items(), rows, strict=True)
    )
    sizes = [client.records for client in clients]
    present = [client for client in clients if client.records]
    names = federation.label_names or tuple(str(label) for label in range(classes))
    return Skew(
        clients,
        tuple(tuple(row) for row in rows),
        names,
        records=sum(sizes),
        empty_clients=len(clients) - len(present),
        smallest=min(sizes),
        largest=max(sizes),
        effective_clients=math.exp(entropy(sizes)) if present else 0.0,
        mean_classes=_mean([client.classes for client in present]),
        mean_entropy=_mean([client.entropy for client in present]),
        mean_distance=_mean([client.distance for client in present]),
        entropy_of_all=entropy(overall),
    )


def _client_skew(name: str, holding: Holding, row: Sequence[int], overall: Sequence[int]) -> ClientSkew:
    return ClientSkew(
        name,
        len(holding.own),
        len(holding.held_out),
        sum(count > 0 for count in row),
        entropy(row),
        math.exp(entropy(row)) if any(row) else 0.0,
        total_variation(row, overall),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
