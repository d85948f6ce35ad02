"""How pictures of any size, grey or in colour, become records of one shape."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from understudy.data.resize import average

Fit = Literal["crop", "pad", "stretch"]
Mode = Literal["grey", "rgb"]
CHANNELS: dict[Mode, int] = {"grey": 1, "rgb": 3}


@dataclass(frozen=True)
class Framing:
    """What every picture becomes."""

    size: int | None = None  # the side of the square it is brought to; None: as it is, but all must have one size
    fit: Fit = "crop"
    mode: Mode | None = None  # None: rgb if any picture is in colour

    def fitted(self, image: Tensor) -> Tensor:
        """A (channels, height, width) picture as (channels, size, size)."""
        if self.size is None:
            return image
        if self.fit == "crop":
            image = _middle(image)
        elif self.fit == "pad":
            image = _padded(image)
        return image if image.shape[1:] == (self.size, self.size) else average(image[None], self.size)[0]


AS_IT_IS = Framing()


def _middle(image: Tensor) -> Tensor:
    """The largest square in the middle."""
    height, width = image.shape[1:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return image[:, top : top + side, left : left + side]


def _padded(image: Tensor) -> Tensor:
    """In the middle of a black square."""
    channels, height, width = image.shape
    side = max(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    square = torch.zeros(channels, side, side, dtype=image.dtype)
    square[:, top : top + height, left : left + width] = image
    return square
