"""Who held what: records by client and class, written down when a run begins.

A split names records by number, so without the data nobody could tell; and a report is often read where the data is
not. A server whose sites keep their records does not know, and writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.data.federation import Federation
from understudy.data.persons import most_of_one
from understudy.errors import UserError
from understudy.reading import json_of, text_of
from understudy.runs.folder import RunFolder

HOLDINGS_FILE, PERSON = "holdings.json", "most_of_one_person"


@dataclass(frozen=True)
class Holdings:
    classes: tuple[str, ...]  # names
    records: Mapping[str, int]  # by client; with several labels per record, fewer than its labels
    held_out: Mapping[str, int]
    counts: Mapping[str, Mapping[int, int]]  # by client and class; classes that it lacks are left out
    pixels: bool | None = None  # uint8 records, or floats; None: older folders do not tell

    columns: tuple[str, ...] = ()  # of a table, in the order of its features; empty: records are no rows of columns

    # Records to learn from of one person, at most; by client, where it is known whose they are.
    most_of_one: Mapping[str, int] = field(default_factory=dict)

    def row(self, client: str) -> list[int]:
        """Of every class."""
        mine = self.counts.get(client, {})
        return [mine.get(label, 0) for label in range(len(self.classes))]


def holdings_of(data: Federation) -> Holdings:
    classes = data.problem.classes
    counts = {name: holding.own.label_counts(classes).tolist() for name, holding in data.sites.items()}
    return Holdings(
        data.label_names or tuple(map(str, range(classes))),
        {name: len(holding.own) for name, holding in data.sites.items()},
        {name: len(holding.held_out) for name, holding in data.sites.items()},
        {name: {label: count for label, count in enumerate(row) if count} for name, row in counts.items()},
        data.pixels,
        data.columns,
        {name: most for name, one in data.sites.items() if (most := most_of_one(one.own)) is not None},
    )


def note_holdings(run: RunFolder, data: Federation) -> None:
    if data.remote or data.population is not None:  # of a population it would be the largest file of all
        return
    found = holdings_of(data)
    clients = {
        name: {
            "records": found.records[name],
            "held_out": found.held_out[name],
            "classes": found.counts[name],
            **({PERSON: found.most_of_one[name]} if name in found.most_of_one else {}),
        }
        for name in found.records
    }
    columns = {"columns": list(found.columns)} if found.columns else {}
    words = {"classes": list(found.classes), "pixels": found.pixels, **columns, "clients": clients}
    run.write_json(HOLDINGS_FILE, words)


def read_holdings(folder: Path) -> Holdings | None:
    """None: the run does not know, or is older than this file."""
    file = folder / HOLDINGS_FILE
    if not file.exists():
        return None
    found = json_of(text_of(file), str(file))
    try:
        return _holdings(found)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{file} is damaged or of another version; delete it, and the report does without.") from None


def _holdings(found: Mapping[str, Any]) -> Holdings:
    names, clients = tuple(map(str, found["classes"])), found["clients"]
    counts = {str(name): {int(c): int(n) for c, n in one["classes"].items()} for name, one in clients.items()}
    if any(not 0 <= label < len(names) or count < 0 for mine in counts.values() for label, count in mine.items()):
        raise ValueError("a class that is not named")
    return Holdings(
        names,
        {str(name): int(one["records"]) for name, one in clients.items()},
        {str(name): int(one["held_out"]) for name, one in clients.items()},
        counts,
        found.get("pixels"),
        tuple(map(str, found.get("columns", ()))),
        {str(name): int(one[PERSON]) for name, one in clients.items() if PERSON in one},
    )
