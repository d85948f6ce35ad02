"""Softmax regression, the logistic check of "Synthetic data shuffling accelerates the convergence of federated learning
under data heterogeneity": ten workers on MNIST, alike or with one class each, E local steps of full gradients, with and
without Gaussian noise N(0, σ²/784) on each coordinate of the 784×10 gradient, so E‖noise‖² = 10σ².

The loss is the plain mean cross-entropy. The paper's is a tenth of it, a mean over the classes too, and is printed
without its minus sign. Without noise the tenth only rescales the rate. With noise s it does not: η(g/10 + s) is
(η/10)(g + 10s), so the paper's σ² is 100σ² here.

A third split shuffles half of every worker's records. The rate is tuned for each setting by the mean loss of the last
five rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from understudy.data.sets import load
from understudy.papers.study import Drawing, Findings, Panel, StudyTable, Style, Trace
from understudy.randomness import generator
from understudy.runs.watching import Observer
from understudy.threads import one_thread

WORKERS, CLASSES = 10, 10
RATES = (0.03, 0.1, 0.3, 0.6, 1.0)
LOCAL_STEPS = (1, 5)
SPLITS = ("iid", "half shuffled", "one class each")
STYLES: tuple[Style, ...] = ("line", "dashed", "dotted")


@dataclass(frozen=True)
class Shards:
    x: Tensor  # (workers, records, pixels)
    y: Tensor  # (workers, records, classes), ones and zeros


@dataclass(frozen=True)
class Setting:
    split: str
    steps: int  # E
    sigma2: float

    @property
    def label(self) -> str:
        return f"{self.split}, E = {self.steps}" + (f", σ² = {self.sigma2:g}" if self.sigma2 else "")


@dataclass(frozen=True)
class SoftmaxPlan:
    data: str
    records: int  # per worker
    rounds: int
    rates: Sequence[float] = RATES
    sigma2: float = 30.0

    @property
    def about(self) -> str:
        workers = f"ten workers with {self.records} records each"
        return f"Softmax regression on {self.data}: {workers}, E local steps, tuned rates"


def softmax_regression(plan: SoftmaxPlan, _: Path, observer: Observer) -> Findings:
    rows = []
    with one_thread():
        sites = _splits(plan.data, plan.records)
        for split, workers in sites.items():
            for steps in LOCAL_STEPS:
                observer.says(f"{split}, E = {steps}")
                rows += _tuned(workers, split, steps, (0.0, plan.sigma2), plan.rounds, plan.rates)
        zeta2 = {split: dissimilarity(workers) for split, workers in sites.items()}
    return _findings(plan, rows, zeta2)


def _splits(data: str, records: int) -> dict[str, Shards]:
    train = load(data).train
    x, y = train.x.flatten(1).to(torch.float32) / 255, train.y
    by_class = torch.stack([(y == label).nonzero()[:, 0][:records] for label in range(CLASSES)])  # (workers, records)
    order = torch.randperm(by_class.numel(), generator=generator("softmax regression", "split"))
    iid = by_class.reshape(-1)[order].view(by_class.shape)
    half = by_class.clone()
    moved = records // 2
    order = torch.randperm(WORKERS * moved, generator=generator("softmax regression", "shuffle"))
    half[:, :moved] = half[:, :moved].reshape(-1)[order].view(WORKERS, moved)
    chosen = dict(zip(SPLITS, (iid, half, by_class), strict=True))
    return {name: Shards(x[rows], functional.one_hot(y[rows], CLASSES).float()) for name, rows in chosen.items()}


def gradient(workers: Shards, w: Tensor) -> Tensor:
    """(workers, pixels, runs, classes) of each worker's mean loss at its own ``w`` of that shape."""
    runs = w.shape[2]
    logits = (workers.x @ w.flatten(2)).view(*workers.x.shape[:2], runs, CLASSES)
    off = logits.softmax(-1) - workers.y[:, :, None]
    return (workers.x.transpose(1, 2) @ off.flatten(2)).view_as(w) / workers.x.shape[1]


def loss(workers: Shards, w: Tensor) -> Tensor:
    """(runs,) mean over workers at a shared (pixels, runs, classes)."""
    logits = (workers.x @ w.flatten(1)).view(*workers.x.shape[:2], w.shape[1], CLASSES)
    return -(logits.log_softmax(-1) * workers.y[:, :, None]).sum(-1).mean((0, 1))


def dissimilarity(workers: Shards) -> float:
    """ζ² at w = 0."""
    each = gradient(workers, torch.zeros(WORKERS, workers.x.shape[2], 1, CLASSES)).flatten(1)
    return float((each - each.mean(0)).square().sum(1).mean())


def federated(workers: Shards, steps: int, sigma2: Tensor, rates: Tensor, rounds: int, rng: torch.Generator) -> Tensor:
    """(rounds, runs): the loss after each round from w = 0; every run has its rate and its noise."""
    pixels, runs = workers.x.shape[2], len(rates)
    w, found = torch.zeros(pixels, runs, CLASSES), torch.empty(rounds, runs)
    spread = (sigma2 / pixels).sqrt()[:, None]
    noisy = bool(sigma2.any())
    for round in range(rounds):
        local = w.expand(WORKERS, -1, -1, -1).clone()
        for _ in range(steps):
            slope = gradient(workers, local)
            if noisy:
                slope += spread * torch.randn(local.shape, generator=rng)
            local -= rates[:, None] * slope
        w = local.mean(0)
        found[round] = loss(workers, w)
    return found


def _tuned(
    workers: Shards, split: str, steps: int, noises: Sequence[float], rounds: int, rates: Sequence[float]
) -> list[dict[str, Any]]:
    pairs = [(sigma2, rate) for sigma2 in noises for rate in rates]
    sigma2, rate = torch.tensor(pairs).T
    curves = federated(workers, steps, sigma2, rate, rounds, generator("softmax regression", split, steps))
    rows = []
    for noise in noises:
        mine = [at for at, (sigma2, _) in enumerate(pairs) if sigma2 == noise]
        best = min(mine, key=lambda at: float(curves[-5:, at].mean()))
        setting = Setting(split, steps, noise)
        rows.append({**vars(setting), "label": setting.label, "rate": pairs[best][1], "loss": curves[:, best].tolist()})
    return rows


def _findings(plan: SoftmaxPlan, rows: Sequence[dict[str, Any]], zeta2: Mapping[str, float]) -> Findings:
    goal = 1.05 * max(row["loss"][-1] for row in rows if row["sigma2"] == 0)
    for row in rows:
        row["rounds_to_goal"] = next((at + 1 for at, value in enumerate(row["loss"]) if value <= goal), None)
    table = StudyTable(
        ["split", "E", "σ²", "ζ² at w = 0", "tuned rate", "last loss", f"rounds to {goal:.2f}"],
        [
            [
                row["split"],
                str(row["steps"]),
                f"{row['sigma2']:g}",
                f"{zeta2[row['split']]:.2f}",
                f"{row['rate']:g}",
                f"{row['loss'][-1]:.3f}",
                str(row["rounds_to_goal"] or "–"),
            ]
            for row in rows
        ],
    )
    panels = [
        _panel(f"E = {steps}, " + (f"noise σ² = {noise:g}" if noise else "no noise"), rows, steps, noise)
        for noise in (0.0, plan.sigma2)
        for steps in LOCAL_STEPS
    ]
    numbers = {"rows": list(rows), "zeta2": dict(zeta2), "goal": goal}
    pictures = {"table": Drawing(plan.about, panels)}
    return Findings(plan.about, (), {"table": [table]}, pictures, notes=_notes(rows, zeta2), numbers=numbers)


def _panel(heading: str, rows: Sequence[dict[str, Any]], steps: int, noise: float) -> Panel:
    mine = [row for row in rows if row["steps"] == steps and row["sigma2"] == noise]
    traces = [
        Trace(f"{row['split']}, rate {row['rate']:g}", range(1, len(row["loss"]) + 1), row["loss"], look, style)
        for look, (row, style) in enumerate(zip(mine, STYLES, strict=True))  # lines may overlap
    ]
    highest = max(value for row in rows for value in row["loss"])
    lowest = min(value for row in rows for value in row["loss"])
    return Panel(heading, "round", "training loss, all workers", traces, log_y=True, ylim=(0.95 * lowest, highest))


def _notes(rows: Sequence[dict[str, Any]], zeta2: Mapping[str, float]) -> list[str]:
    last = {(row["split"], row["steps"], row["sigma2"] > 0): row["loss"][-1] for row in rows}
    gain = {split: last[split, 1, False] / last[split, 5, False] for split in SPLITS}
    share = zeta2["half shuffled"] / zeta2["one class each"]
    return [
        f"Shuffling half of the records leaves {share:.3f} of ζ² at w = 0; (1 − p)² predicts 0.25.",
        "Five local steps instead of one lower the last loss by a factor of "
        + ", ".join(f"{gain[split]:.2f} ({split})" for split in SPLITS)
        + ", without noise.",
        "With noise, five steps end at "
        + ", ".join(f"{last[split, 5, True]:.3f} ({split})" for split in SPLITS)
        + ", one step at "
        + ", ".join(f"{last[split, 1, True]:.3f}" for split in SPLITS)
        + ".",
        "With one step and no noise, all splits are gradient descent on the same loss; their last losses are "
        + ", ".join(f"{last[split, 1, False]:.4f}" for split in SPLITS)
        + ".",
    ]
