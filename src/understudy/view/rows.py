"""Records of a table that left clients, as rows for people to read: columns by name, numbers in their units, words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.audits.nearest_pairs import NearPair
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.runs.compare import read_config
from understudy.runs.holdings import read_holdings
from understudy.runs.reported import problem_of
from understudy.runs.scaling import scaling_of
from understudy.view.csv_files import write_csv
from understudy.view.sheet import read_sheets

PRESENT = 0.5  # above it a word is nearer than none
DIGITS = 6

SheetRow = Mapping[str, Any]


@dataclass(frozen=True)
class SheetColumns:
    """Where in a record each column begins, how many numbers it has, and its words if it is a category."""

    names: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    words: Mapping[str, Sequence[str]]

    def row(self, record: Tensor) -> dict[str, Any]:
        """``record``: (features,), in the units of the table."""
        return {
            name: self._cell(name, record[first : first + width])
            for name, (first, width) in zip(self.names, self.places, strict=True)
        }

    def _cell(self, name: str, values: Tensor) -> object:
        words = self.words.get(name)
        if words is None:
            return float(f"{float(values[0]):.{DIGITS}g}")
        at = int(values.argmax())
        return words[at] if float(values[at]) > PRESENT else None


def is_of_rows(folder: Path) -> bool:
    return problem_of(folder, read_config(folder)).kind == "vector"


def write_sheet(folder: Path, file: Path, per_class: int | None = None) -> Path:
    """Every record that clients sent last, or ``per_class`` of each client and class."""
    (sheet,) = read_sheets([folder])
    columns, rows = columns_of(folder), []
    for client in sheet.clients:
        part = sheet.sets.get(client)
        if part is None:
            continue
        counted: dict[object, int] = {}
        for record, y in zip(_in_units(folder, client, part.x), part.y, strict=True):
            label = _label(y, sheet.names)
            counted[label] = counted.get(label, 0) + 1
            if per_class is None or counted[label] <= per_class:
                rows.append({"client": client, "class": label, **columns.row(record)})
    return _written(rows, file)


def write_pairs(folder: Path, pairs: Sequence[NearPair], file: Path) -> Path | None:
    """Two rows for each pair: what left, and the record. None if there are no pairs."""
    held = read_holdings(folder)
    names = () if held is None else held.classes
    columns = columns_of(folder)
    rows = [row for number, pair in enumerate(pairs, 1) for row in _both(folder, columns, number, pair, names)]
    return _written(rows, file) if rows else None


def _both(folder: Path, columns: SheetColumns, number: int, pair: NearPair, names: Sequence[str]) -> Iterator[SheetRow]:
    label = None if pair.label is None else _named(pair.label, names)
    about = {"pair": number, "client": pair.client, "class": label}
    for what, record in (("left", pair.image), ("record", pair.record)):
        (one,) = _in_units(folder, pair.client, record[None])
        near = {"near-copy": pair.copy, "nearer than": round(1 - pair.quantile, 4)}
        yield {**about, "which": what, **near, **columns.row(one)}


def columns_of(folder: Path) -> SheetColumns:
    """By the names of the run's own table; an array's features have numbers, from 0."""
    words = read_config(folder)
    problem, data, held = problem_of(folder, words), words.get("data"), read_holdings(folder)
    vocabulary = data.get("vocabulary") if isinstance(data, dict) else None
    given: Mapping[str, Sequence[str]] = vocabulary or {}
    names = () if held is None else held.columns
    widths = [len(given[name]) if name in given else 1 for name in names]
    if sum(widths) != problem.shape[0]:
        return _numbered(problem)
    starts = [sum(widths[:at]) for at in range(len(widths))]
    return SheetColumns(
        names, tuple(zip(starts, widths, strict=True)), {name: given[name] for name in names if name in given}
    )


def _numbered(problem: Problem) -> SheetColumns:
    features = range(problem.shape[0])
    return SheetColumns(tuple(f"feature {at}" for at in features), tuple((at, 1) for at in features), {})


def _in_units(folder: Path, client: str, x: Tensor) -> Tensor:
    """As the table had them, before the run scaled them."""
    spread = scaling_of(folder, client)
    return x.to(torch.float64) if spread is None else spread.undone(x)


def _label(y: Tensor, names: Sequence[str]) -> object:
    """A name; of several labels, those that it has."""
    if y.ndim == 0:
        return _named(int(y), names)
    return [_named(at, names) for at, value in enumerate(y.tolist()) if value > PRESENT]


def _named(label: int, names: Sequence[str]) -> object:
    return names[label] if label < len(names) else label


def _written(rows: Sequence[SheetRow], file: Path) -> Path:
    if file.suffix.lower() != ".csv":
        raise UserError(f"{file}: the records of this run are rows of a table, so write a table: -o {file.stem}.csv.")
    return write_csv(rows, file)
