"""How well a network does on some records: full scores, and counts that can be added up across clients."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.losses import per_record_loss
from understudy.learning.scores import LabelScores, Scores, label_counts, record_f1, right_decisions, score

Predict = Callable[[Tensor], Tensor]  # raw records -> logits; no_grad and eval mode are up to the caller


@dataclass(frozen=True)
class Tally:
    """Clients score at home and send only these counts."""

    count: int = 0
    correct: float = 0.0  # a record with several labels counts by its share of correct ones
    loss_sum: float = 0.0
    # Only if records have several labels: F1 summed over records, and for each label in turn how often it was
    # correctly predicted, predicted and present.
    f1_sum: float = 0.0
    labels: tuple[int, ...] = ()

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.count + other.count,
            self.correct + other.correct,
            self.loss_sum + other.loss_sum,
            self.f1_sum + other.f1_sum,
            tuple(a + b for a, b in zip_longest(self.labels, other.labels, fillvalue=0)),  # an empty one has no labels
        )

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.count if self.count else None

    @property
    def loss(self) -> float | None:
        return self.loss_sum / self.count if self.count and math.isfinite(self.loss_sum) else None

    def as_dict(self) -> dict[str, Any]:
        """As in a line of metrics; with several labels per record, their scores are added."""
        found: dict[str, Any] = {"accuracy": self.accuracy, "loss": self.loss}
        if self.labels and self.count:
            of_label = LabelScores.of(*torch.tensor(self.labels).view(-1, 3).T)
            found |= {key: list(v) if isinstance(v, tuple) else v for key, v in vars(of_label).items()}
            found["sample_f1"] = self.f1_sum / self.count
        return found

    def to_tensor(self) -> Tensor:
        """(3,) float64, as a part of a message; (4 + 3·classes,) if records have several labels."""
        several = [self.f1_sum, *self.labels] if self.labels else []
        return torch.tensor([self.count, self.correct, self.loss_sum, *several], dtype=torch.float64)

    @classmethod
    def from_tensor(cls, numbers: Tensor, problem: Problem, most: int) -> "Tally":
        """From another party that holds out ``most`` records; a UserError if these cannot be its counts.

        The loss must only not be negative: that of a diverged model is not a number.
        """
        wanted = 4 + 3 * problem.classes if problem.multilabel else 3
        if tuple(numbers.shape) != (wanted,):
            raise UserError("its scores have the wrong length")
        count, correct, loss_sum, *several = numbers.to(torch.float64).tolist()
        if count > most:
            raise UserError(f"its scores claim more held-out records than the {most} it may have")
        f1_sum, labels = (several[0], several[1:]) if several else (0.0, [])
        whole = all(number.is_integer() and 0 <= number <= count for number in (count, *labels))
        found = zip(labels[0::3], labels[1::3], labels[2::3], strict=True)  # correctly predicted, predicted, present
        if not whole or any(hits > min(predicted, borne) for hits, predicted, borne in found):
            raise UserError("its scores are impossible: not counts, or more labels found than there are")
        if not (0 <= correct <= count and 0 <= f1_sum <= count) or loss_sum < 0:
            raise UserError("its scores are impossible: more is correct than was counted, or the loss is below 0")
        return cls(int(count), correct, loss_sum, f1_sum, tuple(map(int, labels)))


def evaluate(predict: Predict, examples: Examples, problem: Problem, *, batch: int = 500) -> Scores:
    if not len(examples):
        return Scores(0)
    logits = torch.cat([found for found, _ in _in_batches(predict, examples, batch)])
    return score(problem, logits, examples.y)


def tally(predict: Predict, examples: Examples, problem: Problem, *, batch: int = 500) -> Tally:
    total = Tally()
    if not len(examples):
        return total
    for logits, y in _in_batches(predict, examples, batch):
        right = right_decisions(problem, logits, y).double().view(len(y), -1).mean(1)
        losses = per_record_loss(problem, logits.double(), y)
        total += Tally(len(y), float(right.sum()), float(losses.sum()), *_of_labels(problem, logits, y))
    return total


def _of_labels(problem: Problem, logits: Tensor, y: Tensor) -> tuple[float, tuple[int, ...]]:
    if not problem.multilabel:
        return 0.0, ()
    return float(record_f1(logits, y).sum()), tuple(torch.stack(label_counts(logits, y), 1).flatten().tolist())


def _in_batches(predict: Predict, examples: Examples, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits and labels; a device is waited for once, after the last batch."""
    logits = torch.cat([predict(some.x).detach() for some in examples.batches(batch)]).cpu()
    yield from zip(torch.split(logits, batch), torch.split(examples.y.cpu(), batch), strict=True)
