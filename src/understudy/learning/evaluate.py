"""How good a network is on some records: full scores, and counts that can be added up across clients."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.losses import per_record_loss
from understudy.learning.scores import Scores, right_decisions, score

__all__ = ["Predict", "Scores", "Tally", "evaluate", "score", "tally"]

Predict = Callable[[Tensor], Tensor]  # raw records -> logits; no_grad and eval mode are the caller's matter


@dataclass(frozen=True)
class Tally:
    """Clients score at home, and only these counts travel."""

    count: int = 0
    correct: float = 0.0  # a record with several labels counts by its share of right ones
    loss_sum: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.count + other.count, self.correct + other.correct, self.loss_sum + other.loss_sum)

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.count if self.count else None

    @property
    def loss(self) -> float | None:
        return self.loss_sum / self.count if self.count and math.isfinite(self.loss_sum) else None

    def to_tensor(self) -> Tensor:
        """(3,) float64, as a part of a message."""
        return torch.tensor([self.count, self.correct, self.loss_sum], dtype=torch.float64)

    @classmethod
    def from_tensor(cls, numbers: Tensor) -> "Tally":
        count, correct, loss_sum = numbers.tolist()
        return cls(int(count), correct, loss_sum)


def evaluate(predict: Predict, examples: Examples, problem: Problem, *, batch: int = 500) -> Scores:
    if not len(examples):
        return Scores(0)
    logits = torch.cat([found for found, _ in _in_batches(predict, examples, batch)])
    return score(problem, logits, examples.y)


def tally(predict: Predict, examples: Examples, problem: Problem, *, batch: int = 500) -> Tally:
    total = Tally()
    for logits, y in _in_batches(predict, examples, batch):
        right = right_decisions(problem, logits, y).double().view(len(y), -1).mean(1)
        losses = per_record_loss(problem, logits.double(), y)
        total += Tally(len(y), float(right.sum()), float(losses.sum()))
    return total


def _in_batches(predict: Predict, examples: Examples, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, len(examples), batch):
        x, y = examples.x[start : start + batch], examples.y[start : start + batch]
        yield predict(x).detach().cpu(), y.cpu()
