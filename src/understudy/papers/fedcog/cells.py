"""From lines and runs to the cells of a table."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.fedcog.main_experiment import Group, split_of
from understudy.papers.study import StudyLine, StudyTable, TableCell
from understudy.runs.folder import RunFolder

ValueCells = dict[TableCell, Sequence[float]]


def percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def filled(lines: Mapping[str, StudyLine], labels: Mapping[TableCell, str]) -> ValueCells:
    """Accuracies after the last round, in %, of the cells whose line is there."""
    found = {cell: lines.get(label) for cell, label in labels.items()}
    return {cell: percent(line.accuracies) for cell, line in found.items() if line is not None}


def by_name(cells: Iterable[TableCell]) -> dict[TableCell, str]:
    """Lines that are called "row, column"."""
    return {(row, column): f"{row}, {column}" for row, column in cells}


def by_split(rows: Iterable[str], groups: Sequence[Group]) -> dict[TableCell, str]:
    """ValueCells in columns NIID-1 and NIID-2, whatever the data set."""
    settings = [one for group in groups for one in group]
    return {(row, split_of(one)): one.label(row) for row in rows for one in settings}


def last_metrics(lines: PlayedLines, keys: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """By line and metric, of the last round, by seed: from the runs, or as stored earlier. What is a list, by label of
    the records, becomes its mean; a label that was never predicted has precision 0."""
    stored: Mapping[str, Any] = lines.numbers.get("last_round", {})
    found: dict[str, dict[str, list[float]]] = {label: dict(stored[label]) for label in stored if label in lines}
    for label in lines:
        runs = [RunFolder(folder).metrics()[-1] for (name, _), folder in lines.folders.items() if name == label]
        there = {key: [_mean(run[key]) for run in runs] for key in keys if _all_have(runs, key)}
        if there:
            found[label] = there
    return found


def _all_have(runs: Sequence[Mapping[str, Any]], key: str) -> bool:
    return bool(runs) and all(run.get(key) is not None for run in runs)


def _mean(value: Any) -> float:
    return statistics.fmean(each or 0.0 for each in value) if isinstance(value, list) else float(value)


def rounds_table(lines: Iterable[StudyLine], since: int) -> StudyTable:
    """What a single round hides: the best one, and the mean of those after round ``since``."""
    rows = []
    for line in lines:
        later = [statistics.fmean(seed[line.rounds.index(since) + 1 :]) for seed in line.values if since in line.rounds]
        means = f"{100 * statistics.fmean(later):.1f}" if later else "–"
        best = f"{100 * statistics.fmean(line.best):.1f}" if line.best else "–"
        rows.append([line.label, f"{100 * line.mean:.1f}", best, means])
    return StudyTable(["line", "last round (%)", "best round", f"mean since round {since}"], rows)
