"""One loss per record, from its logits and its label or labels."""

from torch import Tensor
from torch.nn import functional

from understudy.data.problem import Problem


def per_record_loss(problem: Problem, logits: Tensor, y: Tensor) -> Tensor:
    """(n,) losses: cross-entropy, or the mean binary cross-entropy over labels if there are several."""
    if problem.multilabel:
        wanted = y.to(logits.dtype)
        return functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none").mean(1)
    return functional.cross_entropy(logits, y, reduction="none")
