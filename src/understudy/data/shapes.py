"""`shapes`: squares, ellipses and hearts drawn by code, on the grid of dSprites.

Every image is one point of a grid of factors: shape (the label) × scale × rotation × x × y, as in dSprites
(3 × 6 × 40 × 32 × 32), plus colour. The grid may be thinned, and images can have any size.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.strata import draw_share
from understudy.randomness import numpy_generator

SHAPES = ("square", "ellipse", "heart")
REACH = 0.5  # of the largest shape from its centre, where the image spans −1 to 1
TEST_SHARE = 0.1
POINTS_AT_ONCE = 1 << 20


class ShapesSettings(Settings):
    """How many levels each factor has; dSprites has 6, 40, 32 and one colour, at size 64, not smoothed."""

    size: int = Field(default=16, ge=8, le=256)  # side of an image, in pixels
    scales: int = Field(default=3, ge=1, le=64)  # sizes of a shape
    rotations: int = Field(default=8, ge=1, le=360)  # angles of a shape
    positions: int = Field(default=8, ge=1, le=128)  # places of a shape along each axis
    colours: int = Field(default=1, ge=1, le=64)  # 1: white, in one channel; more: evenly spaced hues, in three
    smooth: bool = True  # grey edges in small images; false: black and white only


Factors = dict[str, NDArray[np.int64]]


def grid(settings: ShapesSettings) -> Factors:
    """Every combination of levels, and the quadrant the centre lies in."""
    levels = {
        "shape": len(SHAPES),
        "scale": settings.scales,
        "rotation": settings.rotations,
        "x": settings.positions,
        "y": settings.positions,
        "colour": settings.colours,
    }
    meshes = np.meshgrid(*(np.arange(n) for n in levels.values()), indexing="ij")
    factors = {name: mesh.ravel() for name, mesh in zip(levels, meshes, strict=True)}
    right, low = (2 * factors[axis] >= settings.positions for axis in ("x", "y"))
    factors["quadrant"] = (2 * low + right).astype(np.int64)
    return factors


def inside(shape: int, across: Tensor, up: Tensor) -> Tensor:
    """Whether points, in a shape's own coordinates, lie inside it; each shape reaches about 1 from its centre."""
    if SHAPES[shape] == "square":
        return torch.maximum(across.abs(), up.abs()) <= math.sqrt(0.5)
    if SHAPES[shape] == "ellipse":
        return across.square() + (2 * up).square() <= 1
    # The classical heart curve (a² + b² − 1)³ = a²b³, shrunk and lowered to fit too.
    a, b = across * 1.35, up * 1.35 + 0.1
    square, rest = a.square(), a.square() + b.square() - 1
    return rest * rest.square() <= square * b * b.square()


def _at(factors: Factors, name: str, levels: int, first: float, last: float) -> Tensor:
    middle = (first + last) / 2
    values = torch.linspace(first, last, levels) if levels > 1 else torch.tensor([middle])
    return values[torch.from_numpy(factors[name])].view(-1, 1, 1)


def draw(shape: int, factors: Factors, settings: ShapesSettings) -> Tensor:
    """(n, size, size) uint8: one shape in white on black, at the levels given for each image."""
    finer = fineness(settings)
    fine = settings.size * finer
    ticks = (torch.arange(fine) + 0.5) / fine * 2 - 1
    right = ticks.view(1, 1, -1) - _at(factors, "x", settings.positions, -REACH, REACH)
    up = _at(factors, "y", settings.positions, -REACH, REACH) - ticks.view(1, -1, 1)
    angle = 2 * math.pi * torch.from_numpy(factors["rotation"]).view(-1, 1, 1) / settings.rotations
    reach = _at(factors, "scale", settings.scales, 0.5, 1.0) * REACH
    cos, sin = angle.cos() / reach, angle.sin() / reach
    drawn = inside(shape, right * cos + up * sin, up * cos - right * sin)
    covered = drawn.view(-1, settings.size, finer, settings.size, finer).sum((2, 4))
    return (covered * 255 // finer**2).to(torch.uint8)


def fineness(settings: ShapesSettings) -> int:
    """Sample points along each side of a pixel."""
    return min(4, max(2, 64 // settings.size)) if settings.smooth else 1


def hues(number: int) -> Tensor:
    """(number, 3): fully saturated colours, evenly spaced on the wheel, starting at red."""
    wheel = torch.arange(number).view(-1, 1) / number * 6
    return ((wheel - torch.tensor([0.0, 2.0, 4.0]) + 3) % 6 - 3).abs().mul(-1).add(2).clamp(0, 1)


def draw_all(factors: Factors, settings: ShapesSettings) -> Tensor:
    """(n, channels, size, size) uint8, one part at a time, as the full grid takes gigabytes."""
    total = len(factors["shape"])
    at_once = max(1, POINTS_AT_ONCE // (settings.size * fineness(settings)) ** 2)
    channels = 1 if settings.colours == 1 else 3
    images = torch.empty(total, channels, settings.size, settings.size, dtype=torch.uint8)
    palette = hues(settings.colours)
    for shape in range(len(SHAPES)):
        of_shape = np.flatnonzero(factors["shape"] == shape)
        for start in range(0, len(of_shape), at_once):
            at = of_shape[start : start + at_once]
            part = {name: levels[at] for name, levels in factors.items()}
            white = draw(shape, part, settings).unsqueeze(1)
            tint = palette[torch.from_numpy(part["colour"])].view(-1, 3, 1, 1)
            images[torch.from_numpy(at)] = white if channels == 1 else (white * tint).round().to(torch.uint8)
    return images


def read_shapes(settings: ShapesSettings | None = None) -> Dataset:
    """The test set is a tenth of each cell (shape, quadrant, colour), so cells stay equal in training."""
    settings = settings or ShapesSettings()
    factors = grid(settings)
    rng = numpy_generator("shapes", "test")
    order = rng.permutation(len(factors["shape"]))
    factors = {name: levels[order] for name, levels in factors.items()}
    images = draw_all(factors, settings)
    cell = (factors["colour"] * len(SHAPES) + factors["shape"]) * 4 + factors["quadrant"]
    test, train = draw_share(cell, TEST_SHARE, rng)
    labels = torch.from_numpy(factors["shape"])
    channels = images.shape[1]
    return Dataset(
        "shapes",
        Problem(tuple(images.shape[1:]), len(SHAPES), mean=(0.5,) * channels, std=(0.5,) * channels),
        train=Examples(images[train], labels[train]),
        test=Examples(images[test], labels[test]),
        factors={name: torch.from_numpy(levels[train]) for name, levels in factors.items()},
        label_names=SHAPES,
    )
