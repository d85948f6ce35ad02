"""Random flips, crops and warps, drawn anew for every image from an explicit generator."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from understudy.errors import UserError
from understudy.learning.warping import drawn_warps, warped_by

Augmentation = Literal["flip", "crop", "warp"]

PADDING = 4  # pixels on each side before a crop of the image's own size
WARP = 0.15  # see `warping`: turns by up to 15°, scales, slants, shifts


def draw_changes(images: int, kinds: Sequence[Augmentation], rng: torch.Generator) -> list[Tensor]:
    """For each kind, what its images need: (n,) whether to mirror, (2, n) corners, or (6, n) shapes."""
    drawn = []
    for kind in kinds:
        if kind == "flip":
            drawn.append(torch.rand(images, generator=rng) < 0.5)
        elif kind == "crop":
            drawn.append(torch.randint(0, 2 * PADDING + 1, (2, images), generator=rng))
        elif kind == "warp":
            drawn.append(drawn_warps(images, WARP, rng))
        else:
            raise UserError(f"There is no augmentation {kind!r}; choose flip, crop or warp.")
    return drawn


def changed(x: Tensor, kinds: Sequence[Augmentation], drawn: Sequence[Tensor]) -> Tensor:
    """The images after changes drawn beforehand."""
    if kinds and x.ndim != 4:
        raise UserError(
            f"Augmentation {', '.join(kinds)} needs images (channels, height, width), "
            f"but the records have shape {tuple(x.shape[1:])}; leave augmentation empty."
        )
    for kind, each in zip(kinds, drawn, strict=True):
        x = APPLIED[kind](x, each.to(x.device))
    return x


def _flip(x: Tensor, mirrored: Tensor) -> Tensor:
    return torch.where(mirrored.view(-1, 1, 1, 1), x.flip(-1), x)


def _crop(x: Tensor, corners: Tensor) -> Tensor:
    """A window of the image's own size, anywhere in the padded image."""
    n, _, high, wide = x.shape
    padded = functional.pad(x, [PADDING] * 4)
    windows = padded.unfold(2, high, 1).unfold(3, wide, 1)  # (n, channels, top, left, high, wide), a view
    return windows[torch.arange(n, device=x.device), :, corners[0], corners[1]]


def _warp(x: Tensor, warps: Tensor) -> Tensor:
    """Pixels in bytes stay bytes."""
    if x.is_floating_point():
        return warped_by(x, warps.to(x.dtype))
    return warped_by(x.to(torch.float32), warps).round_().to(x.dtype)


APPLIED = {"flip": _flip, "crop": _crop, "warp": _warp}
