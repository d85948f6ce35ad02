"""The two networks of a class-conditional GAN for images of 8×8 to 64×64 pixels, without BatchNorm.

Images lie between −1 and 1. Channels double each time the sides are halved, up to four times ``width``.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.synthesis.image_layout import ImageLayout


class Painter(nn.Module):
    """Latent noise and encoded labels -> images."""

    def __init__(self, layout: ImageLayout, told: int, latent: int, width: int) -> None:
        super().__init__()
        self.layout = layout
        channels = _channels(layout, width)[::-1]
        self.dense = nn.Linear(latent + told, channels[0] * layout.rows * layout.columns)
        blocks: list[nn.Module] = [nn.Unflatten(1, (channels[0], layout.rows, layout.columns)), *_norm(channels[0])]
        for before, after in pairwise(channels):
            blocks += [nn.Upsample(scale_factor=2), nn.Conv2d(before, after, 3, padding=1), *_norm(after)]
        self.blocks = nn.Sequential(*blocks, nn.Conv2d(channels[-1], layout.channels, 3, padding=1), nn.Tanh())

    def forward(self, z: Tensor, told: Tensor) -> Tensor:
        grown: Tensor = self.blocks(self.dense(torch.cat([z, told], 1)))
        return grown[:, :, : self.layout.high, : self.layout.wide]


class Judge(nn.Module):
    """Images and encoded labels -> how real they look, (n,).

    The score of cGANs with Projection Discriminator: w·h(x) + ⟨V_y, h(x)⟩, with a row of V for each class.
    """

    def __init__(self, layout: ImageLayout, told: int, width: int, hidden: int) -> None:
        super().__init__()
        self.layout = layout
        channels = _channels(layout, width)
        blocks: list[nn.Module] = [nn.Conv2d(layout.channels, channels[0], 3, padding=1), nn.LeakyReLU(0.2)]
        for before, after in pairwise(channels):
            blocks += [nn.Conv2d(before, after, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
        dense = nn.Linear(channels[-1] * layout.rows * layout.columns, hidden)
        self.features = nn.Sequential(*blocks, nn.Flatten(), dense, nn.LeakyReLU(0.2))
        self.score = nn.Linear(hidden, 1)
        self.of_class = nn.Linear(told, hidden, bias=False)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        padded = functional.pad(x, (0, self.layout.beside, 0, self.layout.below))
        found = self.features(padded)
        score: Tensor = self.score(found)[:, 0] + (self.of_class(told) * found).sum(1)
        return score


def _channels(layout: ImageLayout, width: int) -> list[int]:
    """From the whole image down to the smallest map."""
    return [width * min(4, 2**stage) for stage in range(layout.stages + 1)]


def _norm(channels: int) -> tuple[nn.Module, nn.Module]:
    return nn.GroupNorm(math.gcd(8, channels), channels), nn.ReLU()
