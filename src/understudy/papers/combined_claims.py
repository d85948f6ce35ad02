"""Further tests for claims: over columns of which only some were run, over falls, and over how close numbers are."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from understudy.papers.claims import ClaimTest, Evidence, Verdict, above, all_of, at_most
from understudy.papers.study import TableCell


def wherever_run(columns: Sequence[str], test_of: Callable[[str], ClaimTest]) -> ClaimTest:
    """In all columns of which there are numbers; which ones are missing is told."""

    def test(evidence: Evidence) -> Verdict:
        found = {column: test_of(column)(evidence) for column in columns}
        there = [column for column in columns if found[column].word != "not run"]
        if not there:
            return found[columns[0]]
        verdict = all_of([_already(found[column]) for column in there])(evidence)
        missing = [column for column in columns if column not in there]
        return Verdict(verdict.word, verdict.because + (f"; not run: {', '.join(missing)}" if missing else ""))

    return test


def _already(verdict: Verdict) -> ClaimTest:
    return lambda _: verdict


def falls_less(row: str, others: Sequence[str], before: str, after: str) -> ClaimTest:
    """From one column to another, a row loses less than each of the others."""
    fall = f"lost from {before} to {after}"

    def test(evidence: Evidence) -> Verdict:
        values = {(name, fall): _fall(evidence.values, name, before, after) for name in (row, *others)}
        falls = Evidence(values, {}, evidence.grain)
        return all_of(above((other, fall), (row, fall)) for other in others)(falls)

    return test


def _fall(values: Mapping[TableCell, Sequence[float]], row: str, before: str, after: str) -> list[float]:
    """By seed; empty where either is missing."""
    return [x - y for x, y in zip(values.get((row, before), ()), values.get((row, after), ()), strict=False)]


def close_together(cells: Sequence[TableCell], by: float) -> ClaimTest:
    """The largest and the smallest mean are at most ``by`` apart."""
    apart = ("largest less smallest", "")

    def test(evidence: Evidence) -> Verdict:
        means = {cell: statistics.fmean(evidence.of(cell)) for cell in cells if evidence.of(cell)}
        if len(means) < len(cells):
            return Verdict("not run", f"{len(means)} of {len(cells)} numbers are there")
        top, bottom = max(means, key=lambda cell: means[cell]), min(means, key=lambda cell: means[cell])
        seeds = [x - y for x, y in zip(evidence.of(top), evidence.of(bottom), strict=False)]
        return at_most(apart, by)(Evidence({apart: seeds}, {}, evidence.grain))

    return test
