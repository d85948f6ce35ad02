"""What is to be learnt, without any records: shapes, classes and pixel scaling.

It is part of the resolved config and never comes from a client's data, so it reveals nothing about them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.kinds import RecordKind, of_shape
from understudy.errors import UserError

Categories = tuple[tuple[int, int], ...]


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
    tokens: int = 0  # how many token ids there are, with 0, the padding; 0: records are numbers
    floats: bool = False  # records are float32; False: uint8 pixels, or tokens
    # Of a vector: where a category begins and how many words it has, of which one is 1 and the others are 0.
    categories: Categories = ()

    @classmethod
    def from_words(cls, said: Mapping[str, Any]) -> Self:
        """As `words` put it; older ones know fewer fields."""
        shape, classes, multilabel = tuple(said["shape"]), said["classes"], said["multilabel"]
        categories = tuple((first, words) for first, words in said.get("categories", ()))
        tokens, floats = said.get("tokens", 0), said.get("floats", False)
        return cls(shape, classes, multilabel, tuple(said["mean"]), tuple(said["std"]), tokens, floats, categories)

    def words(self) -> dict[str, Any]:
        """For a config; what only some records have is left out where it does not apply."""
        plain = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        plain["categories"] = [list(place) for place in self.categories]
        return {key: value for key, value in plain.items() if value or key not in ("tokens", "floats", "categories")}

    @property
    def kind(self) -> RecordKind:
        return of_shape(self.shape, bool(self.tokens))

    @property
    def dtype(self) -> torch.dtype:
        return torch.int32 if self.tokens else torch.float32 if self.floats else torch.uint8

    def blank(self, records: int) -> Tensor:
        """(n, …): records of nothing, as a network takes them, to try it on."""
        return torch.zeros(records, *self.shape, dtype=torch.int32 if self.tokens else torch.float32)

    def scale(self, x: Tensor) -> Tensor:
        """Pixels (uint8) as the network takes them; floats and tokens stay as they are."""
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
            raise UserError(
                f"{who}: some records hold values that are missing (NaN) or infinite; fill them in or leave those out."
            )
        if bool(self.tokens) != (x.dtype == torch.int32):
            there, here = ("tokens", "numbers") if self.tokens else ("numbers", "tokens")
            raise UserError(f"{who}: records are {here}, but the problem has {there}; write data.kind.")
        if self.tokens and x.numel() and int(x.max()) >= self.tokens:
            raise UserError(
                f"{who}: token ids run up to {int(x.max())}, but there are only {self.tokens}, with 0; write "
                f"data.tokens: {int(x.max()) + 1} or more."
            )
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
