"""What every network here consists of: a body that computes features, and a head that reads them."""

from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.errors import UserError


class Classifier(nn.Module):
    """``forward(x) = head(features(x))``; ``features`` is (n, …) scaled records -> (n, d)."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


class RawLogits(nn.Module):
    """Raw records in, logits out, through a network's plain layers: without memory layout and compiled code."""

    def __init__(self, module: nn.Module, problem: Problem) -> None:
        super().__init__()
        self.module, self._problem = module, problem

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.module.head(self.module.features(self._problem.scale(x)))  # type: ignore[operator]
        return logits


def image_shape(problem: Problem, name: str, *, smallest: int, instead: str) -> tuple[int, int, int]:
    """Channels, height and width, or an error if ``name`` cannot take such records."""
    shape = problem.shape
    if len(shape) != 3:
        raise UserError(
            f"Model {name!r} takes images (channels, height, width), "
            f"but the records have shape {shape}; use 'mlp' or 'softmax'."
        )
    if min(shape[1:]) < smallest:
        raise UserError(
            f"Model {name!r} takes images of at least {smallest}×{smallest} pixels, "
            f"but the records have shape {shape}; use {instead}."
        )
    channels, height, width = shape
    return channels, height, width
