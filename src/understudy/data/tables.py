"""Your own data in a table: a Parquet or CSV file, or a folder of files, read in order of their names.

Labels are in the column that ``data.label`` names, else in ``label`` or ``y``: class numbers, or names that
``data.labels`` lists in order, or lists of zeros and ones where a record has several. Records are in one of

- ``image``: PNG or JPEG bytes, alone or in the struct {bytes, path} that the datasets library writes;
- ``x`` or ``pixels``: lists of numbers. Nested lists are (height, width) or (channels, height, width); a flat list is
  a row of features, or has the shape ``data.shape`` if the sizes agree. uint8 stays pixels; flat lists of whole numbers
  in ``x`` are taken for tokens, unless ``data.kind`` says otherwise; all else becomes floats;
- neither, and always in CSV: then every other column is a feature, but those in ``data.ignore``. Features are sorted by
  name (``f2`` before ``f10``), so that sites need not agree on an order. Numbers become floats. Texts, and any column
  in ``data.vocabulary``, become one feature per word of their vocabulary, 1 where the cell has that word.

A missing value is an error, unless ``data.missing`` is ``drop`` (the row is left out) or ``mean`` (the mean of its
column in the same source; a missing word is a row of zeros).

The column ``data.person`` tells whose record each is: a person's records stay together (`data.persons`).

``users``, whole numbers, tells whose record each is, for ``split: users``; an index that pandas wrote is ignored.
"""

import difflib
import functools
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.complaints import unknown_name
from understudy.data.examples import Examples
from understudy.data.framing import AS_IT_IS, Framing
from understudy.data.images import stack_pictures
from understudy.data.kinds import RecordKind
from understudy.data.persons import codes
from understudy.data.problem import Categories
from understudy.data.room import Room
from understudy.data.table_files import TEXT, files_of, read_file
from understudy.errors import UserError

if TYPE_CHECKING:
    from understudy.data.columns import Column

LABELS = ("label", "y")
PIXELS = "pixels"
RECORDS = ("image", "x", PIXELS)
USERS = "users"
FILLED = ("mean", "alike")
INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0|")  # how pandas writes an index; in CSV it has no name
MOST_WORDS = 100  # in a vocabulary that is not given: a name or a number per record says nothing about others
MOST_CODES = 10  # so many different numbers among words may still be names of categories
_NUMBER = re.compile(r"[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?")

Missing = Literal["refuse", "drop", "mean"]
# As mean, but with one number for all sources: two copies stay copies, wherever they are. No setting; for comparing.
Alike = Literal["alike"]
NOBODYS = -(2.0**100)


@dataclass(frozen=True)
class TableRules:
    """What a table's columns mean."""

    label: str | None = None  # the column of the labels; None: label or y
    ignore: tuple[str, ...] = ()  # columns to leave out
    missing: Missing | Alike = "refuse"
    vocabulary: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the words of columns that are categories
    person: str | None = None  # the column that tells whose record each is
    ranges: tuple[str, ...] | None = None  # columns of numbers with a declared range: all of them; None: none is needed


AS_FOUND = TableRules()


@dataclass(frozen=True)
class Table:
    file: str
    columns: Mapping[str, "Column"]
    rules: TableRules
    flat: bool  # CSV: a cell is a number or a text

    def one_of(self, names: Sequence[str], what: str) -> "Column":
        found = [name for name in names if name in self.columns]
        if len(found) == 1:
            return self.columns[found[0]]
        wanted = " or ".join(f"'{name}'" for name in names)
        have = ", ".join(f"'{name}'" for name in found or self.columns)
        many = "more than one column" if found else "no column"
        setting = ", or name it with data.label" if what == "labels" else ""
        raise UserError(f"{self.file} has {many} for {what} ({have}); name one column {wanted}{setting}.")

    @property
    def label(self) -> "Column":
        name = self.rules.label
        if name is None:
            return self.one_of(LABELS, "labels")
        if name not in self.columns:
            raise UserError(f"data.label: {self.file}: {unknown_name('column', name, self.columns)}")
        return self.columns[name]

    @property
    def person(self) -> "Column | None":
        name = self.rules.person
        if name is not None and name not in self.columns:
            raise UserError(f"data.person: {self.file}: {unknown_name('column', name, self.columns)}")
        return None if name is None else self.columns[name]

    @property
    def holds_features(self) -> bool:
        return self.flat or self.columns.keys().isdisjoint(RECORDS)

    def features(self) -> "dict[str, Column]":
        labels = LABELS if self.rules.label is None else (self.rules.label,)
        apart = {*labels, USERS, *self.rules.ignore, self.rules.person}
        others = [name for name in self.columns if name not in apart and not INDEX.fullmatch(name)]
        return {name: self.columns[name] for name in sorted(others, key=_by_number)}

    def categories(self) -> "dict[str, Column]":
        return {name: one for name, one in self.features().items() if one.is_text or name in self.rules.vocabulary}


def feature_ranges(
    ranges: Mapping[str, tuple[float, float]], vocabulary: Mapping[str, Sequence[str]]
) -> tuple[tuple[float, float], ...]:
    """One per feature, in the order of features; a word is there or not."""
    of_words = {name: [(0.0, 1.0)] * len(words) for name, words in vocabulary.items()}
    every = {**{name: [pair] for name, pair in ranges.items()}, **of_words}
    return tuple(pair for name in sorted(every, key=_by_number) for pair in every[name])


def _by_number(name: str) -> list[str | int]:
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]+)", name))]


def read_table(
    path: Path,
    names: Sequence[str],
    shape: tuple[int, ...] | None = None,
    frame: Framing = AS_IT_IS,
    rules: TableRules = AS_FOUND,
    room: Room | None = None,
    kind: RecordKind | None = None,
) -> Examples:
    """All records; ``names`` are the class names in order, ``shape`` is a record's where flat lists do not show it."""
    tables = tables_of(path, rules)
    people = [column.cells() for table in tables if (column := table.person) is not None]
    y = _joined([_labels(table.label, names) for table in tables], tables)
    x = _records(tables, frame, str(path), room)
    if shape is not None and x.ndim == 2 and x.shape[1] == math.prod(shape):
        x = x.reshape(-1, *shape)
    if kind is None and x.ndim == 2 and PIXELS in tables[0].columns:
        kind = "vector"  # whole numbers, but no tokens
    made = replace(Examples.from_arrays(x, y, str(path), kind=kind), room=room)
    return replace(made, person=codes([one for some in people for one in some], str(path))) if people else made


def read_unlabelled(
    path: Path,
    shape: Sequence[int],
    frame: Framing = AS_IT_IS,
    rules: TableRules = AS_FOUND,
    columns: Sequence[str] = (),
) -> Tensor | NDArray[np.generic]:
    """(n, …) records, one for each row: none is dropped, and a column of labels is left out if there is one.

    ``columns`` are the features of training, if their names are known: then all others are left out.
    """
    tables = tables_of(path, replace(rules, missing=_KEPT[rules.missing]))
    if columns and all(table.holds_features for table in tables):
        tables = [_with_columns(table, columns) for table in tables]
    x = _records(tables, frame, str(path), None)
    return x.reshape(-1, *shape) if x.ndim == 2 and x.shape[1] == math.prod(shape) else x


def _with_columns(table: Table, columns: Sequence[str]) -> Table:
    have = table.features()
    lacking = [name for name in columns if name not in have]
    if not lacking:
        return replace(table, columns={name: have[name] for name in columns})
    near = difflib.get_close_matches(lacking[0], [name for name in have if name not in columns], 1)
    hint = f" Did you mean its column '{near[0]}'?" if near else ""
    raise UserError(
        f"{table.file} has no column{'s' if len(lacking) > 1 else ''} {', '.join(map(repr, lacking))}, which training "
        f"had.{hint} It needs: {', '.join(columns)}."
    )


_KEPT: Mapping[Missing | Alike, Missing] = {"refuse": "refuse", "drop": "refuse", "mean": "mean", "alike": "mean"}


def in_order(features: Iterable[str]) -> tuple[str, ...]:
    """Names of columns, as a record has them."""
    return tuple(sorted(features, key=_by_number))


def category_places(features: Iterable[str], vocabulary: Mapping[str, Sequence[str]]) -> Categories:
    """Where in a record each category of a table begins, and how many words it has."""
    places, first = [], 0
    for name in in_order(features):
        words = len(vocabulary.get(name, ())) or 1
        places += [(first, words)] if name in vocabulary else []
        first += words
    return tuple(places)


@dataclass(frozen=True)
class TextsFound:
    """The texts that a table uses, and its columns."""

    source: str
    columns: frozenset[str]
    features: frozenset[str]  # empty: its records are in one column
    labels: frozenset[str]  # empty: labels are numbers
    categories: Mapping[str, frozenset[str]]


def words_in(path: Path, rules: TableRules) -> TextsFound:
    """What a table would add to ``data.labels`` and ``data.vocabulary``."""
    labels: set[str] = set()
    categories: dict[str, set[str]] = {}
    tables = tables_of(path, rules)
    for table in tables:
        if table.label.is_text:
            labels |= table.label.words()
        for name, column in table.categories().items() if table.holds_features else ():
            if name not in rules.vocabulary:
                categories.setdefault(name, set()).update(column.words())
                _refuse_numbers(column, categories[name])
                if len(categories[name]) > MOST_WORDS:
                    raise column.wrong(
                        f"it has more than {MOST_WORDS} different texts; leave it out with data.ignore, or list its "
                        "words in data.vocabulary."
                    )
    columns = frozenset(name for table in tables for name in table.columns)
    features = frozenset(name for table in tables if table.holds_features for name in table.features())
    words = {name: frozenset(found) for name, found in categories.items()}
    return TextsFound(str(path), columns, features, frozenset(labels), words)


def _refuse_numbers(column: "Column", words: AbstractSet[str]) -> None:
    """A measurement must not become one feature per number because one cell says 'unknown', or has a decimal comma."""
    numbers = {word for word in words if _NUMBER.fullmatch(word.strip())}
    if len(numbers) <= MOST_CODES or 2 * len(numbers) <= len(words):
        return
    others = sorted(words - numbers) or sorted(word for word in numbers if "," in word)
    if others:
        raise column.wrong(
            f"it holds numbers, but also '{others[0]}'; write numbers with a decimal point, leave a cell empty where "
            "there is none, or list its words in data.vocabulary if they are names."
        )


def check_columns(tables: Sequence[TextsFound], rules: TableRules) -> None:
    """Sources of one federation have the same features, and the columns that the config names exist."""
    known = sorted({name for table in tables for name in table.columns})
    for setting, names in (("ignore", rules.ignore), ("vocabulary", rules.vocabulary)):
        for name in names if tables else ():
            if name not in known:
                raise UserError(f"data.{setting}: {unknown_name('column', name, known)}")
    for table in tables:
        for here, there in ((table, tables[0]), (tables[0], table)):
            if only := here.features - there.features:
                raise UserError(
                    f"{here.source} has a column '{min(only)}', {there.source} has none; give every site the same "
                    "columns, or leave it out with data.ignore."
                )


def read_users(path: Path, rules: TableRules = AS_FOUND) -> Tensor | None:
    """(n,) int64: whose record each is, if the files tell."""
    tables = tables_of(path, rules, None if rules.missing == "drop" else (USERS,))
    if not any(USERS in table.columns for table in tables):
        return None
    columns = [table.one_of((USERS,), "users") for table in tables]
    for column in columns:
        if column.numbers().dtype.kind not in "iu":
            raise column.wrong(f"users must be whole numbers, one per record, not {column.values.type}.")
    return torch.from_numpy(np.concatenate([column.numbers() for column in columns]).astype(np.int64))


def _records(tables: Sequence[Table], frame: Framing, source: str, room: Room | None) -> Tensor | NDArray[np.generic]:
    if all(table.holds_features for table in tables):
        return _features(tables)
    columns = [table.one_of(RECORDS, "records") for table in tables]
    if all(column.is_image for column in columns):
        pictures = [picture for column in columns for picture in column.pictures()]
        return stack_pictures(pictures, frame, source, room)
    for column in columns:
        if not column.is_list:
            raise column.wrong(f"it holds {column.values.type}; give lists of numbers, or images as PNG or JPEG bytes.")
    parts = [column.nested() for column in columns]
    if len({part.dtype == np.uint8 for part in parts}) > 1:
        raise UserError(f"Some files beside {tables[0].file} hold uint8 pixels, others other numbers; use one kind.")
    return _joined(parts, tables)


def _features(tables: Sequence[Table]) -> Tensor:
    """(n, features) float32."""
    rows = []
    for table in tables:
        features = table.features()
        if not features:
            raise UserError(
                f"{table.file} has no records; put them in a column {', '.join(RECORDS)}, or one column per feature."
            )
        if features.keys() != tables[0].features().keys():
            raise UserError(f"{table.file} and {tables[0].file} have different columns; give every file the same.")
        _check_ranges(table)
        _check_missing(table)
        encoded = [_encoded(column, table.rules, name in table.categories()) for name, column in features.items()]
        rows.append(torch.cat(encoded, dim=1))
    return _with_means(torch.cat(rows), tables)


def _check_ranges(table: Table) -> None:
    """Which range is whose must follow from the config alone: the server may know no other column names."""
    declared = table.rules.ranges
    if declared is None:
        return
    numbers = [name for name in table.features() if name not in table.categories()]
    for name in declared:
        if name not in numbers:
            raise UserError(f"data.ranges: {table.file}: {unknown_name('column of numbers', name, numbers)}")
    for name in numbers:
        if name not in declared:
            raise table.columns[name].wrong("it has no range in data.ranges; declare one, or name it in data.ignore.")


def _check_missing(table: Table) -> None:
    """All columns at once, so that nobody has to settle one after the other."""
    lacking = [name for name, column in table.features().items() if not column.present().all()]
    if table.rules.missing == "refuse" and len(lacking) > 1:
        raise UserError(
            f"{table.file}: values are missing in the columns {', '.join(lacking)}; fill them, leave columns out with "
            "data.ignore, or write data.missing: drop or mean."
        )


def _encoded(column: "Column", rules: TableRules, category: bool) -> Tensor:
    """(n, 1), or (n, words) of a category; NaN: a missing number, to be replaced."""
    if not category:
        return column.features(nothing=rules.missing in FILLED)[:, None]
    if column.name not in rules.vocabulary:
        raise column.wrong(
            "it holds texts; list its words in data.vocabulary, in the same order everywhere, or leave it out with "
            "data.ignore."
        )
    return column.indicators(rules.vocabulary[column.name], nothing=rules.missing in FILLED)


def _with_means(x: Tensor, tables: Sequence[Table]) -> Tensor:
    absent = x.isnan()
    if tables[0].rules.missing not in FILLED or not bool(absent.any()):
        return x
    if tables[0].rules.missing == "alike":
        return torch.where(absent, NOBODYS, x)
    if bool(absent.all(0).any()):
        raise UserError(f"{tables[0].file}: a column has no value at all, so it has no mean; name it in data.ignore.")
    return torch.where(absent, x.nanmean(0), x)


def _labels(column: "Column", names: Sequence[str]) -> NDArray[np.generic]:
    if column.is_text:
        return column.class_numbers(names)
    if not column.is_list:
        return column.numbers()
    several = column.nested()
    if several.ndim != 2 or not np.isin(several, (0, 1)).all():
        raise column.wrong("lists of labels must hold a 0 or 1 for each class.")
    return several


def _joined(parts: Sequence[NDArray[np.generic]], tables: Sequence[Table]) -> NDArray[np.generic]:
    for part, table in zip(parts, tables, strict=True):
        if part.shape[1:] != parts[0].shape[1:]:
            raise UserError(
                f"{table.file} has lists of shape {part.shape[1:]}, {tables[0].file} of shape {parts[0].shape[1:]}; "
                "every file needs the same shape."
            )
    return np.concatenate(parts)


def tables_of(path: Path, rules: TableRules, only: Sequence[str] | None = None) -> list[Table]:
    """Every file that has rows."""
    tables = []
    for file in files_of(path):
        read = read_file(file, only)
        if read.num_rows:
            table = _table(file, read, rules)
            kept = _complete(table, read) if rules.missing == "drop" else read
            if kept.num_rows:
                tables.append(table if kept is read else _table(file, kept, rules))
    if not tables:
        raise UserError(f"{path} holds no records.")
    return tables


def rows_left_out(path: Path, rules: TableRules) -> tuple[int, int]:
    """How many rows ``data.missing: drop`` leaves out, and of how many."""
    dropped = every = 0
    for file in files_of(path):
        read = read_file(file, None)
        kept = _complete(_table(file, read, rules), read) if read.num_rows else read
        dropped, every = dropped + read.num_rows - kept.num_rows, every + read.num_rows
    return dropped, every


def _table(file: Path, read: Any, rules: TableRules) -> Table:
    from understudy.data.columns import Column

    named = zip(read.column_names, read.columns, strict=True)
    columns = {name: Column(name, values, str(file)) for name, values in named}
    return Table(str(file), columns, rules, file.suffix in TEXT)


def _complete(table: Table, read: Any) -> Any:
    """Its rows with a label and without a missing feature."""
    person = [] if table.person is None else [table.person]
    used = [table.label, *person, *(table.features() if table.holds_features else {}).values()]
    return read.filter(functools.reduce(operator.and_, (torch.from_numpy(one.present()) for one in used)).numpy())
