"""The findings of a study as a page: its claims, tables, panels and pictures."""

from collections.abc import Iterator
from dataclasses import replace

from understudy import __version__
from understudy.papers.study import Drawing, Findings, Mosaic, StudyTable
from understudy.view.html.assets import Assets, inlined
from understudy.view.html.charts import Chart, line_chart
from understudy.view.html.gallery import gallery_of
from understudy.view.html.page import render
from understudy.view.html.sections import Account, Section


def findings_page(found: Findings, title: str, assets: Assets | None = None) -> str:
    """HTML that stands alone, unless other ``assets`` are given."""
    sections = [*_claims(found), *_tables(found), *_drawings(found), *_mosaics(found)]
    account = Account(title, found.about, [], sections)
    return render("run.html", account=account, version=__version__, assets=assets or inlined())


def _claims(found: Findings) -> Iterator[Section]:
    if found.notes:
        yield Section("claims", "Which claims held", found.notes)


def _tables(found: Findings) -> Iterator[Section]:
    for stem, tables in found.tables.items():
        yield Section(
            f"table-{stem}", _heading(stem, "Results" if stem == "table" else ""), tables=[*map(_without_marks, tables)]
        )


def _without_marks(table: StudyTable) -> StudyTable:
    """Tables of studies are written for Markdown, where stars make cells bold."""
    rows = [[cell.replace("**", "") for cell in row] for row in table.rows]
    return replace(table, rows=rows, heading=table.heading.replace("**", ""))


def _heading(stem: str, given: str) -> str:
    words = stem.replace("-", " ").replace("_", " ")
    return given or words[:1].upper() + words[1:]


def _drawings(found: Findings) -> Iterator[Section]:
    for stem, drawing in found.pictures.items():
        yield Section(f"drawing-{stem}", drawing.title or _heading(stem, ""), charts=list(_charts(stem, drawing)))


def _charts(stem: str, drawing: Drawing) -> Iterator[Chart]:
    for at, panel in enumerate(drawing.panels):
        yield line_chart(f"{stem}-{at}", panel)


def _mosaics(found: Findings) -> Iterator[Section]:
    for stem, mosaic in found.mosaics.items():
        yield _mosaic(stem, mosaic)


def _mosaic(stem: str, mosaic: Mosaic) -> Section:
    gallery = gallery_of(mosaic.sets, mosaic.problem, mosaic.names)
    text = [] if gallery is not None else ["These records are not pictures, so none are drawn."]
    return Section(f"pictures-{stem}", mosaic.title, text, gallery=gallery)
