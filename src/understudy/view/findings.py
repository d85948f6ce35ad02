"""The results of a study as files for people: its tables in Markdown and its pictures, each named by its stem."""

from pathlib import Path

from understudy.files import write_whole
from understudy.papers.study import Findings
from understudy.view.canvas import save_figure
from understudy.view.markdown import markdown
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
