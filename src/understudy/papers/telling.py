"""A study's findings as people read them: those of a paper's table or figure with printed numbers and verdicts."""

from dataclasses import replace

from understudy.papers.beside_printed import beside_printed, verdict_lines
from understudy.papers.published import Study
from understudy.papers.study import Drawing, Findings, Scale


def told(study: Study, found: Findings, scale: Scale) -> Findings:
    """The first table has ours beside the printed numbers; the first notes are the verdicts. A picture of which
    nothing was run is left out."""
    found = replace(found, pictures={stem: drawing for stem, drawing in found.pictures.items() if _shows(drawing)})
    published = study.published
    if published is None:
        return found
    beside = [beside_printed(published, found)] if published.cells or found.values else []
    tables = {**found.tables, "table": [*beside, *found.tables.get("table", ())]}
    verdicts = verdict_lines(published, published.verdicts(found, scale))
    return replace(found, tables=tables, notes=[*verdicts, *found.notes])


def _shows(drawing: Drawing) -> bool:
    return any(len(trace.x) > 0 for panel in drawing.panels for trace in panel.traces)
