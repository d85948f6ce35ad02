"""Records and shared images as rows of numbers, in the space that the network sees."""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.audits.sighting import Seen
from understudy.data.examples import Examples
from understudy.data.problem import Problem


@dataclass(frozen=True)
class Points:
    x: Tensor  # (n, d) float32: half the memory, and made float64 a block at a time
    y: Tensor  # (n,) int64 classes; all 0 where records have several labels

    def __len__(self) -> int:
        return len(self.y)

    def of(self, c: int) -> Tensor:
        """The rows of one class."""
        return self.x[self.y == c]

    @property
    def classes(self) -> list[int]:
        return [int(c) for c in self.y.unique()]  # type: ignore[no-untyped-call]


def points_of(examples: Examples, problem: Problem) -> Points:
    x = problem.scale(examples.x).flatten(1).to(torch.float32)
    return Points(x, classes_of(examples, problem))


def classes_of(examples: Examples, problem: Problem) -> Tensor:
    """(n,): class numbers; of soft labels the largest; 0 for all where records have several labels."""
    if problem.multilabel:
        return torch.zeros(len(examples), dtype=torch.int64)
    return examples.y.argmax(1) if examples.multilabel else examples.y.to(torch.int64)


def class_count(problem: Problem) -> int:
    return 1 if problem.multilabel else problem.classes


def shared_points(seen: Seen, problem: Problem) -> Points | None:
    """All that a client shared, over all rounds, without what is not finite; None: nothing."""
    found = [points_of(s.examples, problem) for s in seen.sightings if s.examples is not None and len(s.examples)]
    if not found:
        return None
    x, y = torch.cat([rows.x for rows in found]), torch.cat([rows.y for rows in found])
    whole = x.isfinite().all(1)
    return Points(x[whole], y[whole]) if bool(whole.any()) else None
