"""The results of a study as files for people: its tables in Markdown and its pictures, each named by its stem."""

from collections.abc import Sequence
from pathlib import Path

from understudy.files import write_whole
from understudy.papers.study import Findings, StudyTable
from understudy.view.canvas import save_figure
from understudy.view.mosaic import mosaic_figure
from understudy.view.panels import drawing_figure


def write_findings(found: Findings, out: Path) -> str:
    """Returns the text of table.md."""
    for stem, text in table_pages(found).items():
        write_whole(out / f"{stem}.md", text.encode())
    for stem, drawing in found.pictures.items():
        save_figure(drawing_figure(drawing), out / f"{stem}.png")
    for stem, mosaic in found.mosaics.items():
        save_figure(mosaic_figure(mosaic), out / f"{stem}.png")
    return table_pages(found)["table"]


def table_pages(found: Findings) -> dict[str, str]:
    """By stem; the notes go below ``table``."""
    return {stem: markdown(tables, found.notes if stem == "table" else ()) for stem, tables in found.tables.items()}


def markdown(tables: Sequence[StudyTable], notes: Sequence[str] = ()) -> str:
    """One below the other, then the notes as a list."""
    parts = [markdown_table(table) for table in tables]
    return "\n".join([*parts, "".join(f"- {note}\n" for note in notes)] if notes else parts)


def markdown_table(table: StudyTable) -> str:
    """Words left, numbers right."""
    rule = "|" + "---|" * table.words + "--:|" * (len(table.columns) - table.words)
    lines = [_row(table.columns), rule, *map(_row, table.rows)]
    return (f"{table.heading}\n\n" if table.heading else "") + "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
