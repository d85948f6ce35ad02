"""A linear feature layer and a softmax on top, in plain numpy and float64: slow, obvious, and from the papers alone.

Gradients are central differences, so that a method's slow version is nothing but its loss. Only the order of the
records is the library's.
"""

from collections.abc import Callable, Sequence

import numpy as np
from softmax_by_numpy import Numbers, Vector
from stage import Body
from torch import nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.models.network import Network

INPUTS, WIDTH, CLASSES = 3, 4, 3
Loss = Callable[[Vector], float]


def layered_net() -> Network:
    """Four linear features of three inputs, then a softmax over three classes: 16 + 15 parameters."""
    return Network(
        lambda: Body(nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, CLASSES)), Problem(shape=(INPUTS,), classes=CLASSES)
    )


def features(w: Vector, x: Vector) -> Vector:
    return x @ w[: WIDTH * INPUTS].reshape(WIDTH, INPUTS).T + w[WIDTH * INPUTS : WIDTH * (INPUTS + 1)]


def probabilities(w: Vector, x: Vector) -> Vector:
    head = w[WIDTH * (INPUTS + 1) :]
    logits = features(w, x) @ head[: CLASSES * WIDTH].reshape(CLASSES, WIDTH).T + head[CLASSES * WIDTH :]
    p: Vector = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p


def cross_entropy(w: Vector, x: Vector, targets: Vector) -> float:
    """The mean over records; targets are distributions over classes."""
    return float(-(targets * np.log(probabilities(w, x))).sum(1).mean())


def one_hot(y: Sequence[int]) -> Vector:
    return np.eye(CLASSES)[list(y)]


def by_differences(loss: Loss, w: Vector, h: float = 1e-6) -> Vector:
    slope = np.zeros_like(w)
    for at in np.ndindex(*w.shape):
        ahead, behind = w.copy(), w.copy()
        ahead[at] += h
        behind[at] -= h
        slope[at] = (loss(ahead) - loss(behind)) / (2 * h)
    return slope


def average(
    sites: dict[str, Examples],
    w: Vector,
    cohorts: Sequence[Sequence[str]],
    local: Local,
    step: Callable[[str, Vector, Vector, Vector, Vector], Vector],
    after: Callable[[str, Vector], None] = lambda name, y: None,
    uniform: bool = False,
) -> Vector:
    """``step(name, w, y, x, targets)`` is what a batch makes of the local model y, w being the broadcast one."""
    for round, cohort in enumerate(cohorts, start=1):
        models, sizes = [], []
        for name in cohort:
            own = Numbers.of(sites[name], classes=CLASSES)
            y = w.copy()
            for rows in own.batches(name, round, local.epochs or 0, local.batch):
                y = step(name, w, y, own.x[rows], one_hot(own.y[rows].tolist()))
            after(name, y)
            models.append(y)
            sizes.append(1 if uniform else len(own.y))
        w = np.average(models, axis=0, weights=sizes)
    return w
