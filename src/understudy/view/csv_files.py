"""Rows of plain values as CSV, for spreadsheets and other programs."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.errors import UserError


def write_csv(rows: Sequence[Mapping[str, Any]], file: Path) -> Path:
    """A heading of all keys, then one line per row. Nothing is an empty cell; lists and mappings are JSON."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", newline="", encoding="utf-8") as opened:
            writer = csv.writer(opened)
            writer.writerow(columns)
            writer.writerows([[_cell(row.get(key)) for key in columns] for row in rows])
    except OSError as refused:
        raise UserError(f"{file} cannot be written: {refused.strerror or refused}.") from None
    return file


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is inside a mapping gets a column of its own: ``leak.caught``."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            found[key] = value
    return found


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
