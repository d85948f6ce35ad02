"""From the lines of comparisons to the cells of a published table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.compared import compared
from understudy.papers.comparison import Comparison
from understudy.papers.published import FromRuns
from understudy.papers.study import Findings, StudyLine, TableCell

FilledBy = Mapping[TableCell, str]  # the label of the line that fills each


def in_percent(lines: Mapping[str, StudyLine], cells: FilledBy) -> dict[TableCell, list[float]]:
    """Accuracy after the last round, by seed; cells of lines that are not there stay out."""
    return {cell: percent(lines[label].accuracies) for cell, label in cells.items() if label in lines}


def percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def joined(about: str, comparisons: Sequence[Comparison]) -> Comparison:
    """Several comparisons in one table and one picture, where their labels differ."""
    first = comparisons[0]
    contenders = [one for plan in comparisons for one in plan.contenders]
    panels = {heading: labels for plan in comparisons for heading, labels in plan.panels.items()}
    return replace(first, about=about, contenders=contenders, panels=panels)


def tabulated(about: str, comparisons: Sequence[Comparison], cells: FilledBy, lines: PlayedLines) -> Findings:
    """Every line with its rate and megabytes, curves where there are panels, and the cells."""
    if not lines:
        return Findings(about)
    return replace(compared(joined(about, comparisons), lines), values=in_percent(lines, cells))


def tabulating(about: str, comparisons: Sequence[Comparison], cells: FilledBy) -> FromRuns:
    return FromRuns(comparisons, partial(tabulated, about, comparisons, cells))
