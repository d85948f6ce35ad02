"""Softmax regression over ten workers, the logistic check of "Synthetic data shuffling accelerates the convergence of
federated learning under data heterogeneity" (appendix A.3.1): E local steps of full gradients, with and without
Gaussian noise N(0, σ²/784) on each coordinate of the 784×10 gradient, so E‖noise‖² = 10σ².

The loss is the plain mean cross-entropy. The paper's is a tenth of it, a mean over the classes too, and is printed
without its minus sign. Without noise the tenth only rescales the rate. With noise s it does not: η(g/10 + s) is
(η/10)(g + 10s), so the paper's σ² is 100σ² here.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from understudy.data.examples import Examples
from understudy.randomness import generator

WORKERS, CLASSES = 10, 10


@dataclass(frozen=True)
class Shards:
    x: Tensor  # (workers, records, pixels)
    y: Tensor  # (workers, records, classes), ones and zeros


def shards(examples: Examples, rows: Tensor) -> Shards:
    """``rows``: (workers, records)."""
    x = examples.x[rows].flatten(2).to(torch.float32) / 255
    return Shards(x, functional.one_hot(examples.y[rows], CLASSES).float())


def rows_by_class(y: Tensor, records: int, seed: int) -> Tensor:
    """(workers, records): each worker has one class."""
    rng = generator(seed, "softmax regression", "records")
    mine = [(y == label).nonzero()[:, 0] for label in range(CLASSES)]
    return torch.stack([rows[torch.randperm(len(rows), generator=rng)[:records]] for rows in mine])


def rows_alike(by_class: Tensor, seed: int) -> Tensor:
    """The same records, dealt out at random."""
    return shuffled_rows(by_class, 1.0, seed, "alike")


def shuffled_rows(rows: Tensor, p: float, seed: int, stream: str = "shuffle") -> Tensor:
    """A share p of every worker's records is pooled, shuffled and dealt out again."""
    moved = round(p * rows.shape[1])
    order = torch.randperm(len(rows) * moved, generator=generator(seed, "softmax regression", stream))
    found = rows.clone()
    found[:, :moved] = rows[:, :moved].reshape(-1)[order].view(len(rows), moved)
    return found


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


@dataclass(frozen=True)
class LossCurves:
    """(rounds, runs) of the server's model."""

    train: Tensor  # on all workers' records
    test: Tensor


def federated(
    workers: Shards, test: Shards, steps: int, sigma2: Tensor, rates: Tensor, rounds: int, rng: torch.Generator
) -> LossCurves:
    """Both losses after each round from w = 0; every run has its rate and its noise."""
    pixels, runs = workers.x.shape[2], len(rates)
    w = torch.zeros(pixels, runs, CLASSES)
    found = LossCurves(torch.empty(rounds, runs), torch.empty(rounds, runs))
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
        found.train[round], found.test[round] = loss(workers, w), loss(test, w)
    return found
