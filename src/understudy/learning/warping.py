"""Small random changes of shape: every image turned, scaled, slanted and shifted a little, all at once."""

import math

import torch
from torch import Tensor
from torch.nn import functional

TURN = math.radians(100)  # per unit of warp
SHIFT = 1.0  # of half the side, per unit of warp


def warped(x: Tensor, most: float, rng: torch.Generator) -> Tensor:
    """(n, channels, height, width). At 0.15: turns by up to 15°, scales and slants by up to 0.15, shifts by up to 7.5 %
    of the side, each drawn for each image; the border is continued outwards."""
    if not most or not len(x):
        return x
    return warped_by(x, drawn_warps(len(x), most, rng))


def drawn_warps(images: int, most: float, rng: torch.Generator) -> Tensor:
    """(6, n): for each image how far it is turned, widened, heightened, slanted and shifted right and down."""
    return (2 * torch.rand(6, images, generator=rng) - 1) * most


def warped_by(x: Tensor, draws: Tensor) -> Tensor:
    """``x``: floats."""
    if not len(x):
        return x
    turn, wide, high, slant, right, down = draws
    turn, wide, high = turn * TURN, 1 + wide, 1 + high
    across = torch.stack([wide * turn.cos(), slant - high * turn.sin(), right * SHIFT], 1)
    along = torch.stack([wide * turn.sin(), high * turn.cos(), down * SHIFT], 1)
    grid = functional.affine_grid(torch.stack([across, along], 1), list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, padding_mode="border", align_corners=False)
