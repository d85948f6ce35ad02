"""Runs as they show themselves in a notebook: a few numbers and a picture, without scripts."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.errors import UserError
from understudy.papers.study import Drawing
from understudy.runs.compare import compare, data_of, label_of, read_config
from understudy.runs.swept import Swept
from understudy.view.canvas import SCREEN_DOTS_PER_INCH
from understudy.view.combinations import sweep_drawing, sweep_notes, sweep_table
from understudy.view.curves import curves_of_runs
from understudy.view.html.page import render
from understudy.view.panels import drawing_figure
from understudy.view.tables import leak_shown, summary_lines


def run_card(folder: Path, summary: Mapping[str, Any]) -> str:
    """What is known even if the folder is gone since; the picture only if rounds were scored."""
    facts = summary_lines(folder, summary)
    try:
        config = read_config(folder)
        title = f"{label_of(config)} on {data_of(config)}, seed {config.get('seed', 0)}"
        facts = [*facts, ("leak, %", leak_shown(*compare([folder])))]
    except UserError as gone:
        return card(folder.name, facts, [], [str(gone)])
    try:
        return card(title, facts, [curves_of_runs([folder], " ")], [])
    except UserError:
        return card(title, facts, [], ["No round has been scored."])


def sweep_card(swept: Swept) -> str:
    columns, rows = sweep_table(swept)
    drawings = [sweep_drawing(swept)] if any(run.validation is not None for run in swept.runs) else []
    count = len(list(swept.runs))
    title = f"{len(rows)} {'combination' if len(rows) == 1 else 'combinations'}, {count} runs"
    return card(title, [], drawings, sweep_notes(swept), columns, rows, swept.chosen)


def card(
    title: str,
    facts: Sequence[tuple[str, str]],
    drawings: Sequence[Drawing],
    notes: Sequence[str],
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
    chosen: int | None = None,  # number of the row to highlight
) -> str:
    pictures = [png_address(drawing) for drawing in drawings]
    return render(
        "card.html",
        title=title,
        facts=facts,
        pictures=pictures,
        notes=notes,
        columns=columns,
        rows=rows,
        chosen=chosen,
    )


def png_address(drawing: Drawing) -> str:
    buffer = io.BytesIO()
    figure = drawing_figure(drawing)
    figure.savefig(buffer, format="png", dpi=SCREEN_DOTS_PER_INCH, facecolor="white", bbox_inches="tight")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
