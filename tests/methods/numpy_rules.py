"""Averaging methods in plain numpy and float64, one function each: slow, obvious, written from the papers alone.

Every function plays the cohorts given, round after round, on softmax regression with three classes, and returns
the server's model with what else is worth a look.
"""

from collections.abc import Callable, Sequence

import numpy as np
from softmax_by_numpy import Numbers, Vector
from stage import cloud

from understudy.data.examples import Examples
from understudy.learning.local import Local

Sites = dict[str, Examples]
Cohorts = Sequence[Sequence[str]]

# Unequal clients, of which two take part in a round and one never does.
SITES: Sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3), "d": cloud("d", 5)}
COHORTS: Cohorts = [["a", "b"], ["b", "c"], ["a", "c"]]


def sgd(
    own: Examples,
    name: str,
    round: int,
    w: Vector,
    local: Local,
    pull: Callable[[Vector], Vector] = np.zeros_like,
) -> tuple[Vector, int]:
    """Local training as every method has it; ``pull`` is one more gradient. The model, and the steps taken."""
    records, y, v, steps = Numbers.of(own, classes=3), w.copy(), np.zeros_like(w), 0
    batches = records.batches(name, round, local.epochs or 1, local.batch)
    for rows in batches[: local.steps]:
        v = local.momentum * v + records.gradient(y, rows) + pull(y)
        y, steps = y - local.rate(round, len(COHORTS)) * v, steps + 1
    return y, steps


def spring(strength: float, anchor: Vector, away: Vector | float = 0.0) -> Callable[[Vector], Vector]:
    """The gradient of strength/2·‖y − anchor‖² − ⟨away, y⟩."""
    return lambda y: strength * (y - anchor) - away


def mean(values: Sequence[Vector] | Sequence[float], sizes: Sequence[int]) -> Vector:
    return np.asarray(np.average(np.array(values), axis=0, weights=sizes))


def fedsgd(sites: Sites, w: Vector, cohorts: Cohorts, local: Local) -> Vector:
    for round, cohort in enumerate(cohorts, start=1):
        steps, sizes = [], []
        for name in cohort:
            records = Numbers.of(sites[name], classes=3)
            first = records.batches(name, round, 1, local.batch)[0]
            steps.append(-local.lr * records.gradient(w, first))
            sizes.append(len(records.y))
        w = w + mean(steps, sizes)
    return w


def fedavgm(
    sites: Sites, w: Vector, cohorts: Cohorts, local: Local, beta: float, server_lr: float, damping: str
) -> tuple[Vector, Vector]:
    v = np.zeros_like(w)
    for round, cohort in enumerate(cohorts, start=1):
        models = [sgd(sites[name], name, round, w, local)[0] for name in cohort]
        back = w - mean(models, [len(sites[name]) for name in cohort])
        v = beta * v + ((1 - beta) * back if damping == "moon" else back)
        w = w - server_lr * (v / (1 + beta) if damping == "fedcog" and round > 1 else v)
    return w, v


def fedprox(sites: Sites, w: Vector, cohorts: Cohorts, local: Local, mu: float) -> Vector:
    for round, cohort in enumerate(cohorts, start=1):
        models = [sgd(sites[name], name, round, w, local, spring(mu, w))[0] for name in cohort]
        w = mean(models, [len(sites[name]) for name in cohort])
    return w


def fednova(sites: Sites, w: Vector, cohorts: Cohorts, local: Local, mu: float) -> Vector:
    """a is counted from its definition: how much of each gradient is in the change, summed over the gradients."""
    for round, cohort in enumerate(cohorts, start=1):
        rate = local.rate(round, len(cohorts))
        directions, normalisers, taken = [], [], []
        for name in cohort:
            model, steps = sgd(sites[name], name, round, w, local, spring(mu, w))
            a = 0.0
            for born in range(steps):  # a gradient of 1 in that step alone: how far does it carry?
                speed = way = 0.0
                for step in range(steps):
                    speed = local.momentum * speed + float(step == born) + mu * way
                    way = way - rate * speed
                a -= way / rate
            directions.append((w - model) / a)
            normalisers.append(float(steps) if mu else a)
            taken.append(len(sites[name]))
        w = w - mean(normalisers, taken) * mean(directions, taken)
    return w


def fedexp(
    sites: Sites, w: Vector, cohorts: Cohorts, local: Local, epsilon: float, times_clients: bool, falls: bool
) -> list[Vector]:
    """All iterates, the first model being none of them."""
    iterates = []
    for round, cohort in enumerate(cohorts, start=1):
        sizes = [len(sites[name]) for name in cohort]
        changes = [sgd(sites[name], name, round, w, local)[0] - w for name in cohort]
        middle = mean(changes, sizes)
        small = epsilon * (len(cohort) if times_clients else 1) * (local.decay ** (2 * (round - 1)) if falls else 1)
        rate = mean([float(d @ d) for d in changes], sizes) / (2 * (middle @ middle + small))
        w = w + max(1.0, float(rate)) * middle
        iterates.append(w)
    return iterates


def feddyn(
    sites: Sites, w: Vector, cohorts: Cohorts, local: Local, alpha: float, scaled: bool
) -> tuple[Vector, Vector, Vector, dict[str, Vector]]:
    """The corrected model, the plain mean, h, and the duals."""
    h, duals = np.zeros_like(w), {name: np.zeros_like(w) for name in sites}
    average = w
    for round, cohort in enumerate(cohorts, start=1):
        models = []
        for name in cohort:
            share = len(sites[name]) / sum(map(len, sites.values()))
            alpha_k = alpha / (len(sites) * share) if scaled else alpha
            models.append(sgd(sites[name], name, round, w, local, spring(alpha_k, w, duals[name]))[0])
            duals[name] = duals[name] - alpha_k * (models[-1] - w)
        h = h - alpha / len(sites) * np.sum([model - w for model in models], axis=0)
        average = np.mean(models, axis=0)
        w = average - h / alpha
    return w, average, h, duals
