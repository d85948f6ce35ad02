"""Our numbers beside the printed ones, cell by cell, and the verdicts on the claims."""

import statistics
from collections.abc import Mapping, Sequence

from understudy.papers.claims import Verdict
from understudy.papers.published import Published
from understudy.papers.study import Findings, StudyTable, TableCell, spread

SMALL, LARGE = 0.1, 1000.0  # numbers outside these have three significant digits
RATIOS = 2.0  # below it, one digit after the point would hide the spread


def beside_printed(published: Published, found: Findings) -> StudyTable:
    """Rows and columns in the order in which the paper has them, then those that only we have."""
    every = dict.fromkeys((*published.cells, *found.values))
    rows, columns = dict.fromkeys(row for row, _ in every), dict.fromkeys(column for _, column in every)
    shown = {
        column: ("printed", "ours") if any(cell[1] == column for cell in published.cells) else ("ours",)
        for column in columns
    }
    heads = [f"{column}{', ' if column else ''}{which}" for column in columns for which in shown[column]]
    leaks = {row: leak_of(published, found, row) for row in rows}
    shows_leaks = any(leaks.values())
    body = []
    for row in rows:
        cells = [
            text
            for column in columns
            for text in _pair(published.cells, found.values, (row, column))[-len(shown[column]) :]
        ]
        body.append([row or published.place, *cells, *([leaks[row] or "–"] if shows_leaks else [])])
    last = ["leak"] if shows_leaks else []
    return StudyTable([f"{published.place} ({published.unit})", *heads, *last], body)


def leak_of(published: Published, found: Findings, row: str) -> str:
    """What a stand-in gives away; empty for rows that are none."""
    if row not in published.stand_ins:
        return ""
    lines = [line for line in found.lines if line.label == row]
    others = set(published.stand_ins) - {row}  # a line that has a row's whole name is that row's alone
    lines = lines or [one for one in found.lines if row in one.label.split(", ") and one.label not in others]
    if leaks := [line.leak for line in lines if line.leak is not None]:
        return f"{100 * max(leaks):.1f} %"
    if lines and all(line.epsilon is not None for line in lines):
        return f"≤ ε = {max(line.epsilon for line in lines if line.epsilon is not None):.3g}"
    return "not audited"


def _pair(
    printed: Mapping[TableCell, float], ours: Mapping[TableCell, Sequence[float]], cell: TableCell
) -> tuple[str, str]:
    return number(printed[cell]) if cell in printed else "–", measured(ours.get(cell, ()))


def number(value: float) -> str:
    """As printed: no more digits than it has, and not in powers of ten."""
    if value == int(value) and abs(value) >= LARGE:
        return f"{int(value):,}".replace(",", " ")
    return f"{value:.3g}" if value and abs(value) < SMALL else f"{value:.2f}".rstrip("0").rstrip(".")


def measured(values: Sequence[float]) -> str:
    """Mean ± spread over seeds; "–" where nothing was run."""
    if not values:
        return "–"
    mean = statistics.fmean(values)
    if len(values) == 1:
        return number(mean)
    digits = "{:.3g}" if abs(mean) < SMALL or abs(mean) >= LARGE else "{:.3f}" if abs(mean) < RATIOS else "{:.1f}"
    return f"{digits.format(mean)} ± {digits.format(spread(values))}"


def verdict_lines(published: Published, verdicts: Sequence[Verdict]) -> list[str]:
    """A sentence per claim, with its verdict and the numbers behind it; the likely cause of one that does not hold."""
    return [
        f"{claim.sentence} **{verdict.word}**: {verdict.because}."
        + (f" {claim.likely_cause}" if verdict.word == "does not hold" and claim.likely_cause else "")
        for claim, verdict in zip(published.claims, verdicts, strict=True)
    ]
