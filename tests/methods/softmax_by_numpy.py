"""Softmax regression in plain numpy and float64: slow, obvious, and written from the papers alone.

Only the order of the records is the library's: a plan is an input to training, not a part of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from stage import SEED

from understudy.data.examples import Examples
from understudy.learning.plan import passes
from understudy.randomness import generator

Vector = npt.NDArray[np.float64]


@dataclass
class Numbers:
    """A client's records as numpy, and what it keeps."""

    x: Vector
    y: npt.NDArray[np.int64]
    classes: int
    control: Vector = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, own: Examples, classes: int) -> "Numbers":
        return cls(own.x.numpy().astype(np.float64), own.y.numpy(), classes)

    def gradient(self, w: Vector, rows: Sequence[int]) -> Vector:
        """Of the mean cross-entropy over ``rows``; w is W row by row, then b."""
        x, y = self.x[list(rows)], self.y[list(rows)]
        split = self.classes * x.shape[1]
        logits = x @ w[:split].reshape(self.classes, -1).T + w[split:]
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        return np.concatenate([(p.T @ x).ravel(), p.sum(0)]) / len(y)

    def batches(self, name: str, round: int, epochs: int, batch: int) -> list[list[int]]:
        steps = epochs * -(-len(self.y) // batch)
        plan = passes(len(self.y), steps, batch, generator(SEED, round, name, "batches"))
        return [[i for i in row if i >= 0] for row in plan.tolist()]
