"""What a federation's records look like, and what is likely wrong with them, before anything is trained."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from understudy.data.assemble import build_federation
from understudy.data.examples import Examples
from understudy.data.federation import Federation, persons_at, persons_on_both_sides
from understudy.data.kinds import PLURAL
from understudy.data.persons import most_of_one
from understudy.data.problem import Problem
from understudy.data.settings import DataSettings
from understudy.data.spread import Spread
from understudy.data.standardise import advice, times_apart
from understudy.data.table_files import holds_table
from understudy.data.tables import rows_left_out
from understudy.errors import UserError


@dataclass(frozen=True)
class Persons:
    number: int
    most_records: int  # of one of them, to learn from at one site


@dataclass(frozen=True)
class Inspection:
    kind: str  # such as "pixels, images of 3 × 32 × 32"
    records: dict[str, int]  # by site, with records held out; and the test set's
    classes: dict[str, int]  # records of each class, at all sites together
    times_apart: float  # largest spread of a feature over the smallest
    warnings: tuple[str, ...]
    persons: Persons | None = None  # None: it is not known whose records they are
    scale: str = ""  # such as "values from 0 to 255"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(data: Federation, settings: DataSettings | None = None, *, seed: int = 0) -> Inspection:
    """``settings`` and ``seed``: those that the records were read by, where they came from files."""
    if data.remote:
        raise UserError("These records stay at their sites; check each site's own file there.")
    parts = {name: (holding.own, holding.held_out) for name, holding in data.sites.items()}
    sizes = {name: sum(map(len, both)) for name, both in parts.items()}
    every = [part.label_counts(data.problem.classes) for both in parts.values() for part in both]
    counts = torch.stack(every).sum(0).tolist()
    names = data.label_names or tuple(map(str, range(data.problem.classes)))
    classes, apart = dict(zip(names, counts, strict=True)), times_apart(data)
    warnings = [*_about_classes(classes), *_about_copies(_comparable(data, settings, seed)), *_about_persons(data)]
    scale, about_scale = _scale(data)
    warnings += about_scale
    warnings += [] if settings is None else _about_missing(settings)
    warnings += filter(None, [about_sequences(data.problem), None if data.scale is not None else advice(data)])
    test = {} if data.test is None else {"test": len(data.test)}
    kind = kind_in_words(data)
    return Inspection(kind, {**sizes, **test}, classes, apart, tuple(warnings), _persons(data), scale)


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


def _scale(data: Federation) -> tuple[str, list[str]]:
    """In words, and what looks wrong about it."""
    parts = [part.x for one in data.sites.values() for part in (one.own, one.held_out) if len(part)]
    if data.pixels or data.problem.tokens:
        low, high = (min(int(x.min()) for x in parts), max(int(x.max()) for x in parts))
        if data.problem.tokens:
            return f"ids from {low} to {high}", []
        faint = high <= 1 and data.problem.mean == ()
        why = "No pixel is above 1: were images divided by 255 before they became bytes?"
        return f"values from {low} to {high}", [why] if faint else []
    spread = Spread.of(torch.cat(parts)).std
    same = int((spread == 0).sum())
    words = f"standard deviations of features from {float(spread.min()):.3g} to {float(spread.max()):.3g}"
    return words, [f"{same:,} of {len(spread):,} features never change."] if same else []


def _about_classes(classes: Mapping[str, int]) -> Iterable[str]:
    empty = [name for name, count in classes.items() if not count]
    if empty and empty[0] == next(iter(classes)):
        yield f"Class {empty[0]}, the first, has no records: are labels counted from 1? They are counted from 0 here."
    elif empty:
        yield f"No site has a record of class {', '.join(empty)}."


def _about_missing(settings: DataSettings) -> Iterable[str]:
    """What ``data.missing: drop`` costs."""
    named = [*(settings.sites or {"": settings.name}).values(), settings.test]
    paths = [Path(name).expanduser() for name in named if name is not None] if settings.missing == "drop" else []
    counts = [rows_left_out(path, settings.reading.rules) for path in paths if holds_table(path)]
    dropped, every = (sum(numbers) for numbers in zip(*counts, strict=True)) if counts else (0, 0)
    if dropped:
        yield f"{dropped:,} of {every:,} rows lack a value and are left out; data.missing: mean fills in features."


def _comparable(data: Federation, settings: DataSettings | None, seed: int) -> Federation:
    """The same records without what differs from source to source: means in place of missing values, and scales."""
    if settings is None:
        return data
    alike = {"missing": "alike"} if settings.missing == "mean" else {}
    plain = {"scale": None} if settings.scale == "site" else {}
    return build_federation(settings.model_copy(update={**alike, **plain}), seed=seed) if alike or plain else data


def _about_copies(data: Federation) -> Iterable[str]:
    """Records that are equal to the last bit, whatever their labels."""
    parts, test = {name: (one.own, one.held_out) for name, one in data.sites.items()}, data.test
    prints = {name: Counter(one for part in both for one in _fingerprints(part)) for name, both in parts.items()}
    everywhere = Counter(one for found in prints.values() for one in found)
    shared = sum(count > 1 for count in everywhere.values())
    twice = sum(found.total() - len(found) for found in prints.values())
    if twice:
        are = "record is a copy" if twice == 1 else "records are copies"
        yield f"{twice:,} {are} of another at the same site; held-out records may be among them."
    if shared:
        yield f"{shared:,} {'record is' if shared == 1 else 'records are'} at more than one site."
    leaked = 0 if test is None else sum(one in everywhere for one in _fingerprints(test))
    if leaked:
        also = "is" if leaked == 1 else "are"
        yield f"{leaked:,} of the test records {also} also at a site, so scores are too good; remove them on one side."


def _about_persons(data: Federation) -> Iterable[str]:
    """What is promised to a person adds up over sites."""
    many = Counter(one for holding in data.sites.values() for one in persons_at(holding))
    several = sum(count > 1 for count in many.values())
    if several:
        yield f"{several:,} persons have records at more than one site; what privacy promises them adds up."
    if leaked := persons_on_both_sides(data):
        yield f"{leaked:,} persons are both in the test set and at a site, so scores are too good."


def _persons(data: Federation) -> Persons | None:
    if all(holding.own.person is None for holding in data.sites.values()):
        return None
    everyone = {one for holding in data.sites.values() for one in persons_at(holding)}
    return Persons(len(everyone), max(most_of_one(holding.own) or 0 for holding in data.sites.values()))


def _fingerprints(part: Examples) -> list[bytes]:
    return [hashlib.sha256(record.contiguous().numpy().tobytes()).digest() for record in part.x]
