"""Tables of a study in Markdown."""

from collections.abc import Sequence

from understudy.papers.study import StudyTable


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
