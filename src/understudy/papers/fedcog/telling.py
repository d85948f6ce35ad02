"""From lines to the cells of a table: a line called "row, column" fills the cell of that row and column."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from understudy.papers.study import StudyLine, StudyTable, TableCell


def percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def filled(lines: Mapping[str, StudyLine], cells: Iterable[TableCell]) -> dict[TableCell, list[float]]:
    """Accuracies after the last round, in %, of the cells whose line is there."""
    found = {cell: lines.get(f"{cell[0]}, {cell[1]}") for cell in cells}
    return {cell: percent(line.accuracies) for cell, line in found.items() if line is not None}


def rounds_table(lines: Iterable[StudyLine], since: int) -> StudyTable:
    """What a single round hides: the best one, and the mean of those after round ``since``."""
    rows = []
    for line in lines:
        later = [statistics.fmean(seed[line.rounds.index(since) + 1 :]) for seed in line.values if since in line.rounds]
        means = f"{100 * statistics.fmean(later):.1f}" if later else "–"
        best = f"{100 * statistics.fmean(line.best):.1f}" if line.best else "–"
        rows.append([line.label, f"{100 * line.mean:.1f}", best, means])
    return StudyTable(["line", "last round (%)", "best round", f"mean since round {since}"], rows)
