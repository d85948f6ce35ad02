"""Figure A.3: softmax regression on MNIST with ten workers, alike or with one class each, a share p of all records
shuffled, E = 1 and 5 local steps, without and with noise. The test loss of the server's model over rounds.

The rate is tuned for each setting by the training loss of the last five rounds; the test set chooses nothing. The paper
does not give its rates, shares, noise and rounds.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.sets import load
from understudy.papers.kept_parts import part
from understudy.papers.study import Drawing, Findings, Panel, StudyTable, Style, TableCell, Trace, mean_and_spread
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


def softmax_regression(plan: SoftmaxPlan, folder: Path, observer: Observer) -> Findings:
    """Every setting and seed is kept in ``folder`` when it is done."""
    both = load(plan.data)
    assert both.test is not None
    with one_thread():
        test = shards(both.test, torch.arange(len(both.test))[None])
        done = [
            _lines(plan, both.train, test, SoftmaxSetting(split, p, steps), folder, observer)
            for split, shares in plan.splits.items()
            for p in shares
            for steps in LOCAL_STEPS
        ]
    makers = dict.fromkeys(maker for _, by in done for maker in by)
    return replace(softmax_findings(plan, [line for lines, _ in done for line in lines]), made_by="; ".join(makers))


@dataclass(frozen=True)
class SoftmaxSetting:
    split: str
    p: float
    steps: int


def _lines(
    plan: SoftmaxPlan, train: Examples, test: Shards, at: SoftmaxSetting, folder: Path, observer: Observer
) -> tuple[list[SoftmaxLine], list[str]]:
    """Without noise and with; and who made them."""
    observer.says(f"{workers(at.split, at.p)}, E = {at.steps}")
    about_all = {"data": plan.data, "records": plan.records, "rounds": plan.rounds, "rates": plan.rates}
    about_all |= {"sigma2": plan.sigma2, **vars(at)}
    found = [
        part(folder, {**about_all, "seed": seed}, partial(_tuned, plan, train, test, at, seed)) for seed in plan.seeds
    ]
    lines = []
    for number, sigma2 in enumerate((0.0, plan.sigma2)):
        best = [one.result["best"][number] for one in found]
        zeta2 = [one.result["zeta2"] for one in found]
        rates, losses = [one["rate"] for one in best], [one["losses"] for one in best]
        lines.append(SoftmaxLine(at.split, at.p, at.steps, sigma2, rates, losses, zeta2))
    return lines, [one.made_by for one in found]


def _tuned(plan: SoftmaxPlan, train: Examples, test: Shards, at: SoftmaxSetting, seed: int) -> dict[str, Any]:
    """ζ² at w = 0, and, without noise and with, the best rate and the test losses with it."""
    rows = rows_by_class(train.y, plan.records, seed)
    mine = shards(train, shuffled_rows(rows_alike(rows, seed) if at.split == ALIKE else rows, at.p, seed))
    pairs = [(sigma2, rate) for sigma2 in (0.0, plan.sigma2) for rate in plan.rates]
    sigma2, rates = torch.tensor(pairs).T
    noise = generator(seed, "softmax regression", "noise", at.steps)  # the same for every split
    curves = federated(mine, test, at.steps, sigma2, rates, plan.rounds, noise)
    half = len(plan.rates)
    chosen = [best_run(curves.train, runs) for runs in (range(half), range(half, 2 * half))]
    best = [{"rate": pairs[run][1], "losses": curves.test[:, run].tolist()} for run in chosen]
    return {"zeta2": dissimilarity(mine), "best": best}


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
            mean_and_spread([seed[-1] for seed in one.losses], 3),
        ]
        for one in lines
    ]
    return StudyTable(["workers", "training", "ζ² at w = 0", "tuned rates", "test loss, last round"], rows, words=2)


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
