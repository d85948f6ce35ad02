"""What is to be learnt, without any records: shapes, classes and pixel scaling.

It is part of the resolved config and never comes from a client's data, so it reveals nothing about them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError


@dataclass(frozen=True)
class Problem:
    """What a network must take and give: the shape of a record, how many classes, how pixels are scaled.

    >>> import numpy as np, understudy as us
    >>> us.Federation.from_arrays({"north": (np.zeros((4, 8, 8), np.uint8), [0, 1, 2, 0])}).problem.classes
    3
    """

    shape: tuple[int, ...]  # of one record, channels first
    classes: int
    multilabel: bool = False
    # Per channel, of pixels between 0 and 1; empty: pixels are only divided by 255. Floats came in scaled by them.
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def scale(self, x: Tensor) -> Tensor:
        """Pixels (uint8) as the network takes them; floats stay as they are."""
        if x.dtype != torch.uint8:
            return x
        scaled = x.to(torch.float32)
        if not self.mean:
            return scaled.div_(255)
        mean, std = self._statistics(x)
        return scaled.sub_(mean * 255).div_(std * 255)

    def unscale(self, x: Tensor) -> Tensor:
        """What the network sees, as pixels again: rounded and clipped to 0 … 255."""
        if x.dtype == torch.uint8:
            return x
        unit = x
        if self.mean:
            mean, std = self._statistics(x)
            unit = x * std + mean
        return unit.mul(255).round_().clamp_(0, 255).to(torch.uint8)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        across = (-1, *[1] * (len(self.shape) - 1))
        return (
            torch.tensor(self.mean, device=x.device).view(across),
            torch.tensor(self.std, device=x.device).view(across),
        )

    def check(self, examples: Examples, who: str) -> None:
        """Raises one clear sentence if ``who``'s records do not fit."""
        x, y = examples.x, examples.y
        if tuple(x.shape[1:]) != self.shape:
            raise UserError(f"{who}: records have shape {tuple(x.shape[1:])}, but the problem has {self.shape}.")
        if x.dtype != torch.uint8 and not bool(torch.isfinite(x).all()):
            raise UserError(f"{who}: some records hold values that are not finite; remove or repair them.")
        if examples.multilabel != self.multilabel:
            kinds = ("one label per record, (n,)", f"zeros and ones, (n, {self.classes})")
            raise UserError(f"{who}: labels have shape {tuple(y.shape)}; give {kinds[self.multilabel]}.")
        if self.multilabel and y.shape[1] != self.classes:
            raise UserError(f"{who}: labels have {y.shape[1]} columns, but the problem has {self.classes} classes.")
        if self.multilabel and not bool(((y == 0) | (y == 1)).all()):
            raise UserError(f"{who}: multi-label values must be 0 or 1.")
        if not self.multilabel and len(y) and not 0 <= int(y.min()) <= int(y.max()) < self.classes:
            raise UserError(
                f"{who}: labels run from {int(y.min())} to {int(y.max())}; "
                f"with {self.classes} classes they must lie between 0 and {self.classes - 1}."
            )
