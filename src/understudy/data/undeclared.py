"""What a config must still say of its records under a privacy budget: all of it at once, not one refusal after another.

Under a budget one record must not change how others are read, as no noise would cover that. So whatever is otherwise
found in the records has to be declared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from understudy.data.federation import Federation
from understudy.data.settings import DataSettings, names_a_path
from understudy.data.table_files import holds_table
from understudy.data.tables import Table, tables_of

SHOWN = 6  # columns that are named in one sentence


@dataclass
class OpenColumns:
    """What all tables of a config leave open; names of columns, in the order of the files."""

    lacking: dict[str, None] = field(default_factory=dict)  # some values are missing
    texts: dict[str, None] = field(default_factory=dict)  # without a vocabulary
    numbers: dict[str, None] = field(default_factory=dict)  # without a range

    def read(self, table: Table, declared: Mapping[str, object] | None) -> None:
        features = table.features() if table.holds_features else {}
        for column in (table.label, *features.values()):
            if not column.present().all():
                self.lacking[column.name] = None
        for name, column in features.items():
            if name in table.rules.vocabulary:
                continue
            if column.is_text:
                self.texts[name] = None
            elif declared is not None and name not in declared:
                self.numbers[name] = None


def columns_left_open(settings: DataSettings) -> OpenColumns:
    """Of the tables among a config's sources."""
    found = OpenColumns()
    declared: Mapping[str, object] | None = None
    if settings.scale == "federated" and not isinstance(settings.ranges, tuple):
        declared = settings.ranges or {}
    for path in _sources(settings):
        if path.exists() and holds_table(path):
            for table in tables_of(path, settings.reading.rules):
                found.read(table, declared)
    return found


def _is_own(settings: DataSettings) -> bool:
    return settings.sites is not None or names_a_path(settings.name)


def _sources(settings: DataSettings) -> list[Path]:
    if settings.sites is not None:
        named = [source for source in settings.sites.values() if source is not None]
    else:
        named = [settings.name] if names_a_path(settings.name) else []
    return [Path(name).expanduser() for name in (*named, *([settings.test] if settings.test else []))]


def readable(settings: DataSettings, columns: OpenColumns) -> DataSettings:
    """Settings by which the records can be read in spite of what is missing, to look for what else is."""
    changes: dict[str, object] = {"ignore": (*(settings.ignore or ()), *columns.texts)}
    if settings.missing != "drop" and columns.lacking:
        changes["missing"] = "drop"
    if columns.numbers:
        changes |= {"scale": None, "ranges": None, "scale_noise": None}
    return settings.model_copy(update=changes)


def undeclared_columns(settings: DataSettings, columns: OpenColumns) -> list[str]:
    """One sentence per setting."""
    said = []
    if settings.missing == "mean":
        instead = (
            "refuse or drop" if not columns.lacking else f"drop, since values are missing in {_named(columns.lacking)}"
        )
        said.append(f"data.missing: a mean is not private; under a privacy budget write {instead}.")
    elif columns.lacking and settings.missing != "drop":
        said.append(
            f"data.missing: values are missing in {_named(columns.lacking)}; write drop, which leaves their rows out, "
            "or leave columns out with data.ignore."
        )
    if columns.texts:
        example = f"data.vocabulary: {{{next(iter(columns.texts))}: [one, other]}}"
        said.append(
            "data.vocabulary: under a privacy budget words must not come from the records; list those of "
            f"{_named(columns.texts)}, such as {example}, or leave columns out with data.ignore."
        )
    if columns.numbers:
        example = f"data.ranges: {{{next(iter(columns.numbers))}: [0, 100]}}"
        said.append(
            f"data.ranges: declare the lowest and highest possible value of {_named(columns.numbers)}, such as "
            f"{example}, as sums over columns without bounds cannot be noised."
        )
    return said


def undeclared_records(settings: DataSettings, data: Federation) -> list[str]:
    said = []
    if not settings.labels and settings.classes is None and _is_own(settings):
        said.append(
            "data.labels: under a privacy budget it must not be the records that say which classes there are; name all "
            "of them in order, or write how many there can be as data.classes."
        )
    if "tokens" in data.found:
        said.append(
            "data.tokens: under a privacy budget the number of token ids must not come from the records; write it."
        )
    if settings.scale == "site":
        said.append(
            "data.scale: with 'site', one record changes how others are scaled, which no noise covers; under a privacy "
            "budget write data.mean and data.std."
        )
    return said


def _named(columns: Mapping[str, None]) -> str:
    names = list(columns)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN + 1 else ""
    return ", ".join(names[:SHOWN] if more else names) + more
