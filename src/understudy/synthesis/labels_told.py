"""How labels are given to a generator, and whether it has seen them."""

import torch
from torch import Tensor
from torch.nn import functional

from understudy.data.problem import Problem
from understudy.errors import UserError


def told_in_full(y: Tensor, problem: Problem) -> Tensor:
    """(n, classes) of zeros and ones."""
    return y.to(torch.float32) if problem.multilabel else functional.one_hot(y, problem.classes).float()


def groups_of(y: Tensor, problem: Problem) -> tuple[Tensor, int]:
    """Which group each record belongs to, and how many groups there are: its class, or one for all if records have
    several labels."""
    return (torch.zeros(len(y), dtype=torch.int64), 1) if problem.multilabel else (y, problem.classes)


def require_seen(group: Tensor, count: Tensor) -> None:
    """``count``: how many records of each group a generator was fitted on."""
    unseen = sorted(set(group[count[group] == 0].tolist()))
    if unseen:
        raise UserError(f"The generator has seen no record of class {unseen[0]}; ask for others.")
