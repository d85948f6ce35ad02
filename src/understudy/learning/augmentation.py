"""Random flips and crops, drawn anew for every image from an explicit generator."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from understudy.errors import UserError

Augmentation = Literal["flip", "crop"]

PADDING = 4  # pixels on each side before a crop of the image's own size


def augment(x: Tensor, kinds: Sequence[Augmentation], rng: torch.Generator) -> Tensor:
    """Images (n, channels, height, width), each changed by ``kinds`` in the order given.

    Give it raw uint8 pixels: the border that a crop lets in is 0, which is black only before normalisation.
    """
    if kinds and x.ndim != 4:
        raise UserError(
            f"Augmentation {', '.join(kinds)} needs images (channels, height, width), "
            f"and records here have shape {tuple(x.shape[1:])}; leave augmentation empty."
        )
    for kind in kinds:
        if kind == "flip":
            x = _flip(x, rng)
        elif kind == "crop":
            x = _crop(x, rng)
        else:
            raise UserError(f"There is no augmentation {kind!r}; there are flip and crop.")
    return x


def _flip(x: Tensor, rng: torch.Generator) -> Tensor:
    mirrored = torch.rand(len(x), generator=rng, device=rng.device) < 0.5
    return torch.where(mirrored.to(x.device).view(-1, 1, 1, 1), x.flip(-1), x)


def _crop(x: Tensor, rng: torch.Generator) -> Tensor:
    """A window of the image's own size, anywhere in the padded image."""
    n, _, high, wide = x.shape
    padded = functional.pad(x, [PADDING] * 4)
    corners = torch.randint(0, 2 * PADDING + 1, (2, n), generator=rng, device=rng.device).to(x.device)
    windows = padded.unfold(2, high, 1).unfold(3, wide, 1)  # (n, channels, top, left, high, wide), a view
    return windows[torch.arange(n, device=x.device), :, corners[0], corners[1]]
