"""Claims of a paper as tests on numbers, and the verdict that follows from seeds.

Two numbers differ if their difference exceeds its spread over the seeds that both have, paired: where one was run with
the first seed alone, the other's first seed is what it is held against, since a seed is also a split. With one
seed the spread is unknown, and ``grain`` stands for it: one point of accuracy unless a study says otherwise. The same
tests judge what the paper printed (there the grain is 0), so that a claim which the paper's own table does not bear out
is noticed.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from understudy.papers.study import Scale, TableCell

VerdictWord = Literal["holds", "does not hold", "not settled", "not run"]
WORST_FIRST: tuple[VerdictWord, ...] = ("does not hold", "not run", "not settled", "holds")
ONE_POINT = 1.0


@dataclass(frozen=True)
class Verdict:
    word: VerdictWord
    because: str  # the numbers that decided


@dataclass(frozen=True)
class Evidence:
    values: Mapping[TableCell, Sequence[float]]  # by seed
    printed: Mapping[TableCell, float]
    grain: float = ONE_POINT  # what counts as the spread of a single run

    def of(self, cell: TableCell) -> Sequence[float]:
        return self.values.get(cell, ())


ClaimTest = Callable[[Evidence], Verdict]


@dataclass(frozen=True)
class PaperClaim:
    sentence: str
    test: ClaimTest
    scales: Sequence[Scale] = ("smoke", "desk", "paper")  # at which it can be judged
    likely_cause: str = ""  # of what we found where it does not hold; shown only there


def in_print(claim: PaperClaim, printed: Mapping[TableCell, float]) -> Verdict:
    """Whether the paper's own numbers bear it out; "not run" where it prints none for it."""
    return claim.test(Evidence({cell: [value] for cell, value in printed.items()}, printed, 0.0))


# ---- tests


def above(higher: TableCell, lower: TableCell, by: float = 0.0) -> ClaimTest:
    """One number above another, by more than ``by``."""

    def test(evidence: Evidence) -> Verdict:
        a, b = evidence.of(higher), evidence.of(lower)
        if not a or not b:
            return _not_run([cell for cell, found in ((higher, a), (lower, b)) if not found])
        a, b = _of_common_seeds(a, b)
        difference, spread = _difference(a, b, evidence.grain)
        word = _settled(difference - by, spread)
        return Verdict(word, f"{_said(higher)} {_mean(a)} against {_said(lower)} {_mean(b)}")

    return test


def below(lower: TableCell, higher: TableCell, by: float = 0.0) -> ClaimTest:
    """For what should be small: rounds, losses, distances."""
    return above(higher, lower, by)


def all_of(tests: Iterable[ClaimTest]) -> ClaimTest:
    """The worst of all; the sentence tells how many went which way, and what decided."""
    every = list(tests)

    def test(evidence: Evidence) -> Verdict:
        found = [one(evidence) for one in every]
        if len(found) == 1:
            return found[0]
        words = [one.word for one in found]
        word = next(word for word in WORST_FIRST if word in words)
        deciding = next(one.because for one in found if one.word == word)
        return Verdict(word, _counted(words) + ("" if word == "holds" else f"; {deciding}"))

    return test


def _counted(words: Sequence[VerdictWord]) -> str:
    """As in "all 3 comparisons hold" and "3 comparisons: 2 hold, 1 does not"."""
    if set(words) == {"holds"}:
        return f"all {len(words)} comparisons hold"
    several: dict[VerdictWord, str] = {"holds": "hold", "does not hold": "do not"}
    single: dict[VerdictWord, str] = {"holds": "holds", "does not hold": "does not"}
    counts = [(each, words.count(each)) for each in reversed(WORST_FIRST) if each in words]
    parts = [f"{many} {(single if many == 1 else several).get(each, each)}" for each, many in counts]
    return f"{len(words)} comparisons: {', '.join(parts)}"


def row_above(row: str, others: Sequence[str], columns: Sequence[str], by: float = 0.0) -> ClaimTest:
    """A row above every other row in every column."""
    return all_of(above((row, column), (other, column), by) for column in columns for other in others if other != row)


def wider(gap: tuple[TableCell, TableCell], than: tuple[TableCell, TableCell]) -> ClaimTest:
    """The first of ``gap`` above its second by more than the first of ``than`` above its second."""

    def test(evidence: Evidence) -> Verdict:
        cells = (*gap, *than)
        found = [evidence.of(cell) for cell in cells]
        if any(not values for values in found):
            return _not_run([cell for cell, values in zip(cells, found, strict=True) if not values])
        (here, spread), (there, other) = (_difference(found[at], found[at + 1], evidence.grain) for at in (0, 2))
        word = _settled(here - there, math.hypot(spread, other))
        return Verdict(word, f"{_said(gap[0])} {here:+.3g} and {_said(than[0])} {there:+.3g}")

    return test


def rising(cells: Sequence[TableCell]) -> ClaimTest:
    """From the first to the last, and never clearly down on the way."""
    ends = above(cells[-1], cells[0])
    steps = [above(after, before) for before, after in pairwise(cells)]

    def test(evidence: Evidence) -> Verdict:
        whole, found = ends(evidence), [step(evidence) for step in steps]
        if lost := next((one for one in found if one.word in ("does not hold", "not run")), None):
            return lost
        return Verdict(whole.word, " < ".join(f"{_said(cell)} {_mean(evidence.of(cell))}" for cell in cells))

    return test


def falling(cells: Sequence[TableCell]) -> ClaimTest:
    return rising(list(reversed(cells)))


def best_of(best: TableCell, others: Sequence[TableCell]) -> ClaimTest:
    """No other cell is above it: within the spread is good enough, since papers choose settings so."""

    def test(evidence: Evidence) -> Verdict:
        found = [above(best, other)(evidence) for other in others if other != best]
        lost = next((one for one in found if one.word in ("does not hold", "not run")), None)
        return lost or Verdict("holds", f"{_said(best)} {_mean(evidence.of(best))}, none clearly above it")

    return test


def at_least(cell: TableCell, limit: float) -> ClaimTest:
    return _limited(cell, limit, 1.0)


def at_most(cell: TableCell, limit: float) -> ClaimTest:
    return _limited(cell, limit, -1.0)


def _limited(cell: TableCell, limit: float, sign: float) -> ClaimTest:
    def test(evidence: Evidence) -> Verdict:
        found = evidence.of(cell)
        if not found:
            return _not_run([cell])
        spread = statistics.stdev(found) if len(found) > 1 else evidence.grain
        word = _settled(sign * (statistics.fmean(found) - limit), spread)
        return Verdict(word, f"{_said(cell)} {_mean(found)} against {limit:g}")

    return test


def times(larger: TableCell, smaller: TableCell, factor: float) -> ClaimTest:
    """One number at least ``factor`` times another, in the mean over seeds and in every seed that both have."""

    def test(evidence: Evidence) -> Verdict:
        a, b = evidence.of(larger), evidence.of(smaller)
        if not a or not b:
            return _not_run([cell for cell, found in ((larger, a), (smaller, b)) if not found])
        ratio = statistics.fmean(a) / statistics.fmean(b) if statistics.fmean(b) else math.inf
        each = [x >= factor * y for x, y in zip(a, b, strict=False)]
        word: VerdictWord = "holds" if all(each) else "not settled" if any(each) else "does not hold"
        return Verdict(word, f"{_said(larger)} is {ratio:.3g} times {_said(smaller)}; {factor:g} claimed")

    return test


def as_printed(cells: Sequence[TableCell], within: float) -> ClaimTest:
    """Our means near what the paper printed. For numbers at the paper's own scale, or worked out exactly."""

    def test(evidence: Evidence) -> Verdict:
        absent = [cell for cell in cells if not evidence.of(cell) or cell not in evidence.printed]
        if absent:
            return _not_run(absent)
        off = {cell: statistics.fmean(evidence.of(cell)) - evidence.printed[cell] for cell in cells}
        worst = max(off, key=lambda cell: abs(off[cell]))
        word: VerdictWord = "holds" if abs(off[worst]) <= within else "does not hold"
        ours, theirs = statistics.fmean(evidence.of(worst)), evidence.printed[worst]
        digits = 12 if ours != theirs and f"{ours:.6g}" == f"{theirs:.6g}" else 6
        return Verdict(word, f"furthest off: {_said(worst)}, {ours:.{digits}g} here and {theirs:.{digits}g} printed")

    return test


def drawn_like(cells: Sequence[TableCell], deviations: float = 2.0) -> ClaimTest:
    """For printed numbers of a single random draw: one that our seeds could have given."""

    def test(evidence: Evidence) -> Verdict:
        absent = [cell for cell in cells if len(evidence.of(cell)) < 2 or cell not in evidence.printed]
        if absent:
            return _not_run(absent)
        off = {
            cell: abs(statistics.fmean(seeds) - evidence.printed[cell]) / (statistics.stdev(seeds) or math.inf)
            for cell in cells
            if (seeds := evidence.of(cell))
        }
        worst = max(off, key=lambda cell: off[cell])
        word: VerdictWord = "holds" if off[worst] <= deviations else "does not hold"
        said = f"{off[worst]:.1f} standard deviations of our seeds from the mean; at most {deviations:g} expected"
        return Verdict(word, f"furthest off: {_said(worst)}, {said}")

    return test


def near(one: TableCell, other: TableCell, within: float) -> ClaimTest:
    """One number off another by at most this share of it; within the spread of that limit nothing is settled."""

    def test(evidence: Evidence) -> Verdict:
        a, b = evidence.of(one), evidence.of(other)
        if not a or not b:
            return _not_run([cell for cell, found in ((one, a), (other, b)) if not found])
        limit = within * abs(statistics.fmean(b))
        difference, spread = _difference(a, b, evidence.grain)
        word = _settled(limit - abs(difference), spread)
        return Verdict(word, f"{_said(one)} {_mean(a)} against {_said(other)} {_mean(b)}, {within:.0%} allowed")

    return test


def closer(one: TableCell, to: TableCell, than: TableCell) -> ClaimTest:
    """One number closer to the second than to the third, compared in each seed."""

    def test(evidence: Evidence) -> Verdict:
        found = [evidence.of(cell) for cell in (one, to, than)]
        if not all(found) or len({len(each) for each in found}) > 1:
            return _not_run([cell for cell, each in zip((one, to, than), found, strict=True) if not each])
        nearer = [abs(a - c) - abs(a - b) for a, b, c in zip(*found, strict=True)]
        spread = statistics.stdev(nearer) if len(nearer) > 1 else evidence.grain
        said = f"{_said(one)} {_mean(found[0])}; {_said(to)} {_mean(found[1])}, {_said(than)} {_mean(found[2])}"
        return Verdict(_settled(statistics.fmean(nearer), spread), said)

    return test


# ---- how two numbers compare


def _of_common_seeds(a: Sequence[float], b: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Every line begins with the first seed, so the shorter one has the first seeds of the longer."""
    many = min(len(a), len(b))
    return a[:many], b[:many]


def _difference(a: Sequence[float], b: Sequence[float], grain: float) -> tuple[float, float]:
    """Of the means over the seeds that both have, and its spread over these."""
    a, b = _of_common_seeds(a, b)
    difference = statistics.fmean(a) - statistics.fmean(b)
    if len(a) > 1:
        return difference, statistics.stdev(x - y for x, y in zip(a, b, strict=True))
    return difference, grain


def _settled(difference: float, spread: float) -> VerdictWord:
    if math.isnan(difference):
        return "not run"
    if difference > spread:
        return "holds"
    return "not settled" if abs(difference) <= spread and spread > 0 else "does not hold"


def _not_run(cells: Sequence[TableCell]) -> Verdict:
    return Verdict("not run", f"nothing for {', '.join(map(_said, cells[:3]))}{' and more' if len(cells) > 3 else ''}")


def _said(cell: TableCell) -> str:
    return ", ".join(part for part in cell if part)


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.4g}" if values else "–"
