"""Figure A.3: softmax regression on MNIST with ten workers, alike or with one class each, a share p of all records
shuffled, E = 1 and 5 local steps, without and with noise. The test loss of the server's model over rounds.

The rate is tuned for each setting by the training loss of the last five rounds; the test set chooses nothing. The paper
does not give its rates, shares, noise and rounds.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.sets import load
from understudy.papers.study import Drawing, Findings, Panel, StudyTable, Style, TableCell, Trace, spread
from understudy.papers.theory.softmax import (
    Shards,
    dissimilarity,
    federated,
    rows_alike,
    rows_by_class,
    shards,
    shuffled_rows,
)
from understudy.randomness import generator
from understudy.runs.watching import Observer
from understudy.threads import one_thread

RATES = (0.03, 0.1, 0.3, 0.6, 1.0)
LOCAL_STEPS = (1, 5)
ALIKE, APART = "iid", "split by class"
LAST = 5  # rounds that rates are tuned by
STYLES: tuple[Style, ...] = ("line", "dashed", "dotted")


@dataclass(frozen=True)
class SoftmaxPlan:
    data: str
    records: int  # per worker
    rounds: int
    seeds: Sequence[int]
    splits: Mapping[str, Sequence[float]]  # by split: the shares p shuffled, beginning with 0
    rates: Sequence[float] = RATES
    sigma2: float = 30.0

    @property
    def about(self) -> str:
        return f"Softmax regression on {self.data}: ten workers with {self.records} records each, tuned rates"


@dataclass(frozen=True)
class SoftmaxLine:
    """One setting: rate and test loss over rounds, by seed."""

    split: str
    p: float
    steps: int  # E
    sigma2: float
    rates: Sequence[float]
    losses: Sequence[Sequence[float]]
    zeta2: Sequence[float]  # at w = 0

    @property
    def cell(self) -> TableCell:
        return workers(self.split, self.p), training(self.steps, self.sigma2 > 0)


def workers(split: str, p: float) -> str:
    """A row."""
    return f"{split}, p = {p:g}"


def gained(split: str, p: float) -> str:
    """A row: how many times smaller the mean loss over rounds is than without shuffling."""
    return f"{split}: loss at p = 0 over that at p = {p:g}"


def after_last(row: str) -> str:
    """A row: the loss after the last round, which tells less about speed: fast lines have stopped falling by then."""
    return f"{row}, last round"


def training(steps: int, noisy: bool) -> str:
    """A column."""
    return f"E = {steps}, {'with noise' if noisy else 'no noise'}"


def softmax_regression(plan: SoftmaxPlan, _: Path, observer: Observer) -> Findings:
    both = load(plan.data)
    assert both.test is not None
    with one_thread():
        test = shards(both.test, torch.arange(len(both.test))[None])
        lines = [
            line
            for split, shares in plan.splits.items()
            for p in shares
            for steps in LOCAL_STEPS
            for line in _lines(plan, both.train, test, split, p, steps, observer)
        ]
    return softmax_findings(plan, lines)


def _lines(
    plan: SoftmaxPlan, train: Examples, test: Shards, split: str, p: float, steps: int, observer: Observer
) -> list[SoftmaxLine]:
    """Without noise and with."""
    observer.says(f"{workers(split, p)}, E = {steps}")
    found = []
    for seed in plan.seeds:
        rows = rows_by_class(train.y, plan.records, seed)
        rows = shuffled_rows(rows_alike(rows, seed) if split == ALIKE else rows, p, seed)
        mine = shards(train, rows)
        noise = generator(seed, "softmax regression", "noise", steps)  # the same for every split
        found.append((dissimilarity(mine), _tuned(plan, mine, test, steps, noise)))
    zeta2 = [each for each, _ in found]
    return [
        SoftmaxLine(
            split,
            p,
            steps,
            sigma2,
            [best[sigma2][0] for _, best in found],
            [best[sigma2][1] for _, best in found],
            zeta2,
        )
        for sigma2 in (0.0, plan.sigma2)
    ]


def _tuned(
    plan: SoftmaxPlan, mine: Shards, test: Shards, steps: int, rng: torch.Generator
) -> dict[float, tuple[float, list[float]]]:
    """By noise: the best rate, and the test losses with it."""
    noises = (0.0, plan.sigma2)
    pairs = [(sigma2, rate) for sigma2 in noises for rate in plan.rates]
    sigma2, rates = torch.tensor(pairs).T
    curves = federated(mine, test, steps, sigma2, rates, plan.rounds, rng)
    found = {}
    for noise in noises:
        at = best_run(curves.train, [at for at, (sigma2, _) in enumerate(pairs) if sigma2 == noise])
        found[noise] = (pairs[at][1], curves.test[:, at].tolist())
    return found


def best_run(train: Tensor, runs: Sequence[int]) -> int:
    """The one with the least training loss over the last rounds."""
    return min(runs, key=lambda at: float(train[-LAST:, at].mean()))


# ---- results


def softmax_findings(plan: SoftmaxPlan, lines: Sequence[SoftmaxLine]) -> Findings:
    values: dict[TableCell, Sequence[float]] = {one.cell: list(map(statistics.fmean, one.losses)) for one in lines}
    for one in lines:
        if one.p > 0:
            row, column = one.cell
            before = values[workers(one.split, 0), column]
            values[gained(one.split, one.p), column] = [a / b for a, b in zip(before, values[row, column], strict=True)]
    for one in lines:
        row, column = one.cell
        values[after_last(row), column] = [seed[-1] for seed in one.losses]
    panels = [
        _panel([one for one in lines if one.cell[1] == training(steps, noisy)], training(steps, noisy))
        for noisy in (False, True)
        for steps in LOCAL_STEPS
    ]
    numbers = {"lines": [vars(one) for one in lines], "sigma2": plan.sigma2}
    return Findings(
        plan.about,
        (),
        {"table": [_table(lines)]},
        {"table": Drawing(plan.about, panels, across=2)},
        notes=_notes(lines),
        numbers=numbers,
        values=values,
    )


def _table(lines: Sequence[SoftmaxLine]) -> StudyTable:
    rows = [
        [
            *one.cell,
            f"{statistics.fmean(one.zeta2):.2f}",
            ", ".join(dict.fromkeys(f"{rate:g}" for rate in one.rates)),
            _said([seed[-1] for seed in one.losses]),
        ]
        for one in lines
    ]
    return StudyTable(["workers", "training", "ζ² at w = 0", "tuned rates", "test loss, last round"], rows, words=2)


def _said(losses: Sequence[float]) -> str:
    return f"{statistics.fmean(losses):.3f} ± {spread(losses):.3f}"


def _panel(lines: Sequence[SoftmaxLine], heading: str) -> Panel:
    traces = []
    for look, one in enumerate(lines):
        mean, low, high = (
            [of(seeds) for seeds in zip(*one.losses, strict=True)] for of in (statistics.fmean, min, max)
        )
        rounds = range(1, len(mean) + 1)
        style = STYLES[look % len(STYLES)]  # lines may overlap
        traces.append(Trace(workers(one.split, one.p), rounds, mean, look, style, low, high))
    return Panel(heading, "round", "test loss of the server's model", traces, log_y=True)


def _notes(lines: Sequence[SoftmaxLine]) -> list[str]:
    kept = {one.p: statistics.fmean(one.zeta2) for one in lines if one.split == APART}
    shares = ", ".join(f"{value / kept[0.0]:.3f} at p = {p:g} ({(1 - p) ** 2:.3f})" for p, value in kept.items() if p)
    return [f"With one class each, shuffling leaves of ζ² at w = 0, beside (1 − p)²: {shares}."]
