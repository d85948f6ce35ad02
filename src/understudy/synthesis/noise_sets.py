"""Labelled noise that any number of parties can make identically from a public seed: it reveals nothing about anyone's
records.

From "Virtual Homogeneity Learning: Defending against Data Heterogeneity in Federated Learning": each class has its own
distribution over latents, z ~ N(μ_c, spread²) with μ_c ~ N(0, spread²), and an image is what an *untrained* generator
makes of z. The paper uses an untrained StyleGAN-v2; this is a small generator of that kind, with its defining parts: a
mapping from z to styles, a constant input, convolutions whose inputs are scaled by the style and whose outputs are
normalised to unit size, and an image summed over resolutions. ``gaussian`` leaves the generator out: latents of a
record's shape are the records.
"""

import math
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.randomness import generator

Noise = Literal["style", "gaussian"]
LATENT, CHANNELS, SMALLEST, MAPPING_LAYERS = 64, 16, 4, 3
AT_ONCE = 50  # images per pass: they stay in the cache


@lru_cache(maxsize=2)
def noise_set(noise: Noise, problem: Problem, per_class: int, spread: float, seed: int) -> Examples:
    """``per_class`` records per class, grouped by class: uint8 images, or floats as the network expects them."""
    rng = generator("noise set", noise, seed)
    shape = problem.shape if noise == "gaussian" else (LATENT,)
    means = spread * torch.randn(problem.classes, 1, *shape, generator=rng)
    z = (means + spread * torch.randn(problem.classes, per_class, *shape, generator=rng)).flatten(0, 1)
    y = torch.arange(problem.classes).repeat_interleave(per_class)
    return Examples(z if noise == "gaussian" else _pictures(z, problem, rng), y)


def _pictures(z: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
    if len(problem.shape) != 3:
        raise UserError(
            f"The style generator makes images, but the records have shape {problem.shape}; use gaussian noise."
        )
    channels, height, width = problem.shape
    draw = StyleGenerator(channels, max(height, width), rng)
    raw = torch.cat([draw(some) for some in torch.split(z, AT_ONCE)])
    raw = F.interpolate(raw, (height, width), mode="bilinear", antialias=True)
    standard = (raw - raw.mean((0, 2, 3), keepdim=True)) / raw.std((0, 2, 3), keepdim=True)
    return (127.5 + 64 * standard).round().clamp(0, 255).to(torch.uint8)  # ±2 standard deviations are in range


class StyleGenerator:
    """(n, LATENT) -> (n, channels, side, side), side the first power of two from ``least`` on."""

    def __init__(self, channels: int, least: int, rng: torch.Generator):
        def drawn(*shape: int) -> Tensor:
            """He's initialisation, which preserves the size of activations."""
            return torch.randn(*shape, generator=rng) / math.sqrt(math.prod(shape[1:]))

        doublings = max(0, math.ceil(math.log2(least / SMALLEST)))
        self.mapping = [drawn(LATENT, LATENT) for _ in range(MAPPING_LAYERS)]
        self.constant = torch.randn(1, CHANNELS, SMALLEST, SMALLEST, generator=rng)
        # For each resolution: a style for the kernel, the kernel, a style for the image, the image's kernel.
        self.levels = [
            (
                drawn(CHANNELS, LATENT),
                drawn(CHANNELS, CHANNELS, 3, 3),
                drawn(CHANNELS, LATENT),
                drawn(channels, CHANNELS, 1, 1),
            )
            for _ in range(doublings + 1)
        ]

    def __call__(self, z: Tensor) -> Tensor:
        style = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
        for layer in self.mapping:
            style = F.leaky_relu(style @ layer.T, 0.2) * math.sqrt(2)
        maps, picture = self.constant.expand(len(z), -1, -1, -1), torch.zeros(1)
        for level, (of_kernel, kernel, of_picture, to_picture) in enumerate(self.levels):
            if level:
                maps, picture = _doubled(maps), _doubled(picture)
            maps = F.leaky_relu(modulated(maps, kernel, 1 + style @ of_kernel.T), 0.2) * math.sqrt(2)
            picture = picture + modulated(maps, to_picture, 1 + style @ of_picture.T, unit=False)
        return picture


def modulated(x: Tensor, kernel: Tensor, style: Tensor, *, unit: bool = True) -> Tensor:
    """A convolution with kernels k_n = style_n · kernel, one per image; ``unit`` divides by ‖k_n‖."""
    found = F.conv2d(x * style[:, :, None, None], kernel, padding=kernel.shape[-1] // 2)
    if not unit:
        return found
    lengths = torch.sqrt(style.square() @ kernel.square().sum((2, 3)).T + 1e-8)  # (n, channels out)
    return found / lengths[:, :, None, None]


def _doubled(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear")
