"""The examples of a reply as a person reviews them: by class, the nearest to an own record first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from understudy.audits.near_copies import BY_CHANCE, NearCopies
from understudy.audits.own_records import NearestRecords
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.federation.held import Held

MOST_COLUMNS = 12  # numbers of a record in a table
MOST_COPIES = 10  # near-copies that are named one by one
MOST_STEPS = 100  # of the slider


def is_image(problem: Problem) -> bool:
    return len(problem.shape) == 3 and problem.shape[0] in (1, 3)


@dataclass(frozen=True)
class ReviewTile:
    """One example on the page."""

    id: str
    row: int
    group: str  # its class; empty if it has several labels
    labels: str  # where it may have several
    dropped: bool
    quantile: float | None  # None: no record is shown beside it
    distance: float
    near_copy: bool
    near: str  # in words
    numbers: Sequence[tuple[str, str]]  # its first numbers and the record's, if it is no image


@dataclass(frozen=True)
class ReviewGroup:
    """A class on the page, the nearest to a record first."""

    heading: str
    name: str | None  # None: not a class
    tiles: Sequence[ReviewTile]


def groups_of(held: Held, examples: Examples, beside: NearestRecords | None, names: Sequence[str]) -> list[ReviewGroup]:
    ids = held.ids()
    groups: dict[str, list[ReviewTile]] = {}
    for tile in sorted(
        (_tile(held, examples, beside, names, row, ids[row]) for row in range(len(ids))), key=_suspicion
    ):
        groups.setdefault(tile.group, []).append(tile)
    if examples.multilabel:
        return [ReviewGroup("Examples", None, groups[""])]
    return [ReviewGroup(_class_name(int(name), names), name, groups[name]) for name in sorted(groups, key=int)]


def _class_name(label: int, names: Sequence[str]) -> str:
    """With its name, if it has one besides its number."""
    named = label < len(names) and names[label] != str(label)
    return f"Class {label}: {names[label]}" if named else f"Class {label}"


def _suspicion(tile: ReviewTile) -> tuple[float, float, int]:
    return tile.quantile or 0.0, tile.distance, tile.row


def copies_among(groups: Sequence[ReviewGroup], beside: NearestRecords | None) -> dict[str, Any]:
    """How many near-copies there are, and the ids of the nearest."""
    if beside is None:
        return {"copies": [], "copies_words": ""}
    every = sorted((tile for group in groups for tile in group.tiles), key=_suspicion)
    near = [tile.id for tile in every if tile.near_copy]
    verb = "is a near-copy" if len(near) == 1 else "are near-copies"
    others = "held-out records" if beside.held_out else "the site's own records"
    other = "a record of this site" if beside.held_out else "the nearest other one"
    words = (
        f"Percentages compare with {others}: “nearer than 60 %” means that 60 % of them lie farther from {other}. "
        f"{len(near):,} of {len(every):,} {verb}, nearer than {100 * (1 - BY_CHANCE):g} %; by chance it would be "
        f"{100 * BY_CHANCE:g} %. A distance does not notice everything: look."
    )
    return {"copies": near[:MOST_COPIES], "copies_words": words, "copies_more": len(near) > MOST_COPIES}


def _tile(
    held: Held, examples: Examples, beside: NearestRecords | None, names: Sequence[str], row: int, id: str
) -> ReviewTile:
    decision, label = held.decision, examples.y[row]
    quantile, distance, near = (None, 0.0, False) if beside is None else _nearness(beside.copies, row)
    table = not is_image(held.problem)
    record = None if beside is None else beside.records.x[row].flatten()
    return ReviewTile(
        id,
        row,
        group="" if examples.multilabel else str(int(label)),
        labels=_labels(label, names) if examples.multilabel else "",
        dropped=decision is not None and row in decision.dropped,
        quantile=quantile,
        distance=distance,
        near_copy=near,
        near="" if quantile is None else _how_near(quantile, near),
        numbers=_numbers(examples.x[row].flatten(), record) if table else [],
    )


def _nearness(copies: NearCopies, row: int) -> tuple[float, float, bool]:
    return float(copies.quantile[row]), float(copies.distance[row]), bool(copies.near[row])


def _how_near(quantile: float, near_copy: bool) -> str:
    return "near-copy" if near_copy else f"nearer than {100 * (1 - quantile):.0f} %"


def _labels(labels: Tensor, names: Sequence[str]) -> str:
    there = [int(label) for label in labels.nonzero().flatten()]
    return ", ".join(names[label] if label < len(names) else f"label {label}" for label in there) or "no label"


def columns_of(problem: Problem) -> list[str]:
    """Records that are no images show their first numbers."""
    if is_image(problem):
        return []
    many = int(np.prod(problem.shape))
    return [str(number) for number in range(1, min(many, MOST_COLUMNS) + 1)] + (["…"] if many > MOST_COLUMNS else [])


def _numbers(example: Tensor, record: Tensor | None) -> list[tuple[str, str]]:
    numbers = [
        (f"{float(value):.3g}", "" if record is None else f"{float(record[at]):.3g}")
        for at, value in enumerate(example[:MOST_COLUMNS])
    ]
    return [*numbers, (f"{len(example) - MOST_COLUMNS:,} more", "")] if len(example) > MOST_COLUMNS else numbers


def thresholds_of(beside: NearestRecords | None) -> list[float]:
    """Places of a slider: the quantiles at which one more example falls below the threshold."""
    if beside is None:
        return []
    found = sorted(set(beside.copies.quantile.tolist()))
    return found if len(found) <= MOST_STEPS else [found[int(at)] for at in np.linspace(0, len(found) - 1, MOST_STEPS)]
