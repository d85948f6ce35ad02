"""A small network from noise to images: the learnable generator of FedCOG's variant and of DENSE.

z (256) → linear → 128 maps of a quarter of each side → BN → twice (double the size, conv 3×3, BN, LeakyReLU 0.2; 128,
then 64 channels) → conv 3×3 → sigmoid. A side not divisible by 4 is rounded up and cropped. BatchNorm always uses the
batch being made; there is no other, since network and noise are created anew for each set.
"""

import math

import torch
from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.randomness import private_global_stream

NOISE = 256  # numbers in z
WIDE, NARROW = 128, 64  # channels


class ImageNetwork(nn.Module):
    """Images as a classifier of ``problem`` expects them, from noise of (n, 256)."""

    shift: Tensor
    unit: Tensor

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        if len(problem.shape) != 3:
            raise UserError(f"A network can generate only images, but the records have shape {problem.shape}.")
        channels, self.height, self.width = problem.shape
        self.quarter = (math.ceil(self.height / 4), math.ceil(self.width / 4))
        self.linear = nn.Linear(NOISE, WIDE * math.prod(self.quarter))
        self.blocks = nn.Sequential(
            _norm(WIDE), *_doubled(WIDE, WIDE), *_doubled(WIDE, NARROW), nn.Conv2d(NARROW, channels, 3, padding=1)
        )
        # The released code passes pixels in [0, 1] to a classifier that was trained on scaled ones; here they are
        # scaled as the problem requires, so that black is black.
        self.register_buffer("shift", torch.tensor(problem.mean or (0.0,)).view(-1, 1, 1))
        self.register_buffer("unit", torch.tensor(problem.std or (1.0,)).view(-1, 1, 1))

    def forward(self, z: Tensor) -> Tensor:
        return (self.pixels(z) - self.shift) / self.unit

    def pixels(self, z: Tensor) -> Tensor:
        """Between 0 and 1."""
        maps = self.linear(z).view(len(z), WIDE, *self.quarter)
        found: Tensor = self.blocks(maps).sigmoid()
        return found[..., : self.height, : self.width]


def new_image_network(problem: Problem, rng: torch.Generator) -> ImageNetwork:
    """With initial weights that depend only on ``rng``."""
    word = int(torch.randint(2**62, (), generator=rng))
    with private_global_stream(word, "image network"):
        return ImageNetwork(problem)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, track_running_stats=False)


def _doubled(channels: int, after: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels, after, 3, padding=1, bias=False)  # BatchNorm would cancel a bias
    return nn.Upsample(scale_factor=2), convolution, _norm(after), nn.LeakyReLU(0.2)
