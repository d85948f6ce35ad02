"""``table.json``: the results of a study, in one schema (docs/studies/table-json.md)."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from understudy.errors import UserError
from understudy.files import write_whole
from understudy.papers.study import Drawing, Findings, Panel, StudyLine, StudyTable, Trace
from understudy.reading import json_of, text_of

SCHEMA = 2
READ = (1, SCHEMA)  # 1: without values, ε and who made it
DERIVED = ("mean", "spread")  # of a line, for readers of the file without this library


def write_table(file: Path, name: str, scale: str, found: Findings, made_by: str = "") -> dict[str, Any]:
    """Returns the file's content as it would be read. ``made_by``: version and commit of the code that ran."""
    content = {"schema": SCHEMA, "name": name, "about": found.about, "scale": scale, "made_by": made_by}
    content |= {key: value for key in ("config", "rates") if (value := getattr(found, key))}
    content["lines"] = [{**asdict(one), **{key: getattr(one, key) for key in DERIVED}} for one in found.lines]
    for key in ("tables", "pictures"):
        content[key] = {stem: _plain(each) for stem, each in getattr(found, key).items()}
    content["values"] = [[row, column, list(seeds)] for (row, column), seeds in found.values.items()]
    content |= {"notes": list(found.notes), "numbers": found.numbers}
    text = json.dumps(content, indent=1, default=list) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text.encode())
    stored: dict[str, Any] = json.loads(text)
    return stored


def ran_by(found: Findings, otherwise: str) -> str:
    """Version and commit of the code that ran it, which need not be the one that writes it down."""
    makers = dict.fromkeys(maker for line in found.lines for maker in line.made_by.split("; ") if maker)
    return "; ".join(makers) or found.made_by or otherwise


def _plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, Drawing) else [asdict(one) for one in value]


def read_table(file: Path) -> Findings:
    return findings_of(json_of(text_of(file), str(file)), str(file))


def findings_of(content: Any, where: str = "table.json") -> Findings:
    """Without mosaics, whose images are not stored."""
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema not in READ:
        raise UserError(f"{where} has schema {schema}, but this version reads up to {SCHEMA}; run its study again.")
    try:
        return Findings(
            content["about"],
            [StudyLine(**{key: value for key, value in one.items() if key not in DERIVED}) for one in content["lines"]],
            {stem: [StudyTable(**one) for one in tables] for stem, tables in content["tables"].items()},
            {stem: _drawing(one) for stem, one in content.get("pictures", {}).items()},
            notes=content["notes"],
            numbers=content["numbers"],
            config=content.get("config", {}),
            rates=content.get("rates", ()),
            made_by=content.get("made_by", ""),
            values={(row, column): seeds for row, column, seeds in content.get("values", ())},
        )
    except (AttributeError, KeyError, TypeError):
        raise UserError(f"{where} is damaged; restore it from a copy.") from None


def _drawing(words: Mapping[str, Any]) -> Drawing:
    panels = [Panel(**{**panel, "traces": [Trace(**one) for one in panel["traces"]]}) for panel in words["panels"]]
    return Drawing(**{**words, "panels": panels})
