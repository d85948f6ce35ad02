"""What a federation's records look like, and what is likely wrong with them, before anything is trained."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.data.kinds import PLURAL
from understudy.data.problem import Problem
from understudy.data.standardise import advice, times_apart
from understudy.errors import UserError


@dataclass(frozen=True)
class Inspection:
    kind: str  # such as "pixels, images of 3 × 32 × 32"
    records: dict[str, int]  # by site, with records held out; and the test set's
    classes: dict[str, int]  # records of each class, at all sites together
    times_apart: float  # largest spread of a feature over the smallest
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(data: Federation) -> Inspection:
    if data.remote:
        raise UserError("These records stay at their sites; check each site's own file there.")
    parts = {name: holding.own.and_also(holding.held_out) for name, holding in data.sites.items()}
    sizes = {name: len(part) for name, part in parts.items()}
    counts = torch.stack([part.label_counts(data.problem.classes) for part in parts.values()]).sum(0).tolist()
    names = data.label_names or tuple(map(str, range(data.problem.classes)))
    classes, apart = dict(zip(names, counts, strict=True)), times_apart(data)
    warnings = [
        *_about_classes(classes),
        *_about_copies(parts, data.test),
        *filter(None, [about_sequences(data.problem), advice(data)]),
    ]
    test = {} if data.test is None else {"test": len(data.test)}
    return Inspection(kind_in_words(data), {**sizes, **test}, classes, apart, tuple(warnings))


def kind_in_words(data: Federation) -> str:
    shape, numbers = data.problem.shape, "pixels" if data.pixels else "floats"
    size = " × ".join(map(str, shape))
    if data.problem.tokens:
        return f"tokens, {size} per record, of {data.problem.tokens:,} ids"
    return f"{numbers}, {PLURAL[data.problem.kind]} of {size}{' (channels × steps)' if len(shape) == 2 else ''}"


def about_sequences(problem: Problem) -> str | None:
    """A warning, if channels and steps look exchanged."""
    if problem.kind != "sequence" or problem.shape[0] <= problem.shape[1]:
        return None
    channels, steps = problem.shape
    return f"Sequences of {channels} channels and only {steps} steps? Records are (channels, steps), channels first."


def _about_classes(classes: Mapping[str, int]) -> Iterable[str]:
    empty = [name for name, count in classes.items() if not count]
    if empty and empty[0] == next(iter(classes)):
        yield f"Class {empty[0]}, the first, has no records: are labels counted from 1? They are counted from 0 here."
    elif empty:
        yield f"No site has a record of class {', '.join(empty)}."


def _about_copies(parts: Mapping[str, Examples], test: Examples | None) -> Iterable[str]:
    """Records that are equal to the last bit, whatever their labels."""
    prints = {name: Counter(_fingerprints(part)) for name, part in parts.items()}
    everywhere = Counter(one for found in prints.values() for one in found)
    shared = sum(count > 1 for count in everywhere.values())
    twice = sum(found.total() - len(found) for found in prints.values())
    if twice:
        yield f"{twice:,} records are copies of another at the same site; held-out records may be among them."
    if shared:
        yield f"{shared:,} records are at more than one site."
    leaked = 0 if test is None else sum(one in everywhere for one in _fingerprints(test))
    if leaked:
        yield f"{leaked:,} of the test records are also at a site, so scores are too good; remove them on one side."


def _fingerprints(part: Examples) -> list[bytes]:
    return [hashlib.sha256(record.contiguous().numpy().tobytes()).digest() for record in part.x]
