"""Differentiable Siamese augmentation: one random change, drawn separately from being applied.

From "Dataset Condensation with Differentiable Siamese Augmentation". A draw is one kind of change, chosen uniformly,
and its parameters: one set for all images (Siamese: the same draw is applied to the real and the synthetic batch, and
again after each image step), or one set per image (plain). Images are scaled (float, as the network sees them) and
never clamped; whatever a crop, cut-out, scale or rotation exposes is 0.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from understudy.errors import UserError
from understudy.learning.ahead import ahead

DsaKind = Literal["colour", "crop", "cutout", "flip", "scale", "rotate"]
ALL: tuple[DsaKind, ...] = ("colour", "crop", "cutout", "flip", "scale", "rotate")
WITHOUT_FLIP: tuple[DsaKind, ...] = ("colour", "crop", "cutout", "scale", "rotate")  # for digits and letters

SHIFT = 0.125  # of the side, in either direction
CUT = 0.5  # of the side
GROWTH = 1.2
TURN = math.radians(15)


@dataclass(frozen=True)
class Draw:
    """What happens to a batch, whatever the size of its images."""

    kind: DsaKind
    u: Tensor  # (1, 3) for all images, or (n, 3) for n: uniform in [0, 1), which each kind turns into parameters
    there: Tensor | None = None  # the same on the device of the images, if sent ahead


def draw(kinds: Sequence[DsaKind], rng: torch.Generator, *, images: int | None = None) -> Draw:
    """A set of numbers for each of ``images`` (plain), or one for all (Siamese); every kind draws equally many."""
    if not kinds:
        raise UserError("Differentiable augmentation needs at least one kind to choose from; leave it out instead.")
    unknown = [kind for kind in kinds if kind not in ALL]
    if unknown:
        raise UserError(f"There is no differentiable augmentation {unknown[0]!r}; choose from {', '.join(ALL)}.")
    chosen = int(torch.randint(len(kinds), (1,), generator=rng))
    u = torch.rand(1 if images is None else images, 3, generator=rng)
    return Draw(kinds[chosen], u)


def sent_ahead(draws: Iterable[Draw], device: torch.device) -> Iterator[Draw]:
    """The same draws, with their numbers on the device."""
    for change, (u,) in ahead(draws, lambda one: [one.u], device):
        yield replace(change, there=u)


def with_changes(
    looks: Iterable[tuple[Tensor, Draw | None]], device: torch.device
) -> Iterator[tuple[Tensor, Draw | None]]:
    """Which records, and their augmentation: the same draws, sent ahead to the device."""
    for (_, change), (rows, *u) in ahead(looks, lambda one: [one[0], *([] if one[1] is None else [one[1].u])], device):
        yield rows, None if change is None else replace(change, there=u[0])


def apply(draw: Draw, x: Tensor) -> Tensor:
    """``x``: (n, channels, height, width), scaled; differentiable in it."""
    if x.ndim != 4 or not x.is_floating_point():
        raise UserError(
            "Differentiable augmentation takes scaled images (n, channels, height, width), "
            f"but got {x.dtype} of shape {tuple(x.shape)}; leave it out for other records."
        )
    if len(draw.u) not in (1, len(x)):
        raise UserError(f"The augmentation was drawn for {len(draw.u)} images but applied to {len(x)}.")
    if not len(x):
        return x  # a Poisson batch may be empty, and that must not show
    if draw.kind == "crop" and len(draw.u) == 1:
        return _shifted(x, *draw.u[0, :2].to(x.dtype))
    u = draw.u if draw.there is None else draw.there
    first, second, third = u.to(x.device, x.dtype).unbind(1)
    if draw.kind == "colour":
        return _colour(x, first - 0.5, second * 2, third + 0.5)
    if draw.kind == "crop":
        return _crop(x, first, second)
    if draw.kind == "cutout":
        return _cut_out(x, first, second)
    if draw.kind == "flip":
        return torch.where(_per_image(first) < 0.5, x.flip(3), x)
    if draw.kind == "scale":
        return _scale(x, _between(1 / GROWTH, GROWTH, first), _between(1 / GROWTH, GROWTH, second))
    return _rotate(x, _between(-TURN, TURN, first))


def _colour(x: Tensor, brightness: Tensor, saturation: Tensor, contrast: Tensor) -> Tensor:
    """Brightness is added; saturation stretches around each pixel's mean, contrast around the image's."""
    x = x + _per_image(brightness)
    grey = x.mean(1, keepdim=True)
    x = (x - grey) * _per_image(saturation) + grey
    middle = x.mean((1, 2, 3), keepdim=True)
    return (x - middle) * _per_image(contrast) + middle


def _shifted(x: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """All by the same number of whole pixels, taken from the processor, which has to know it."""
    tall, broad = (_pixels(side, SHIFT) for side in x.shape[2:])
    dy, dx = int(_whole(down, 2 * tall + 1)) - tall, int(_whole(right, 2 * broad + 1)) - broad
    return functional.pad(x, (dx, -dx, dy, -dy))


def _crop(x: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each shifted by whole pixels."""
    high, wide = x.shape[2:]
    tall, broad = _pixels(high, SHIFT), _pixels(wide, SHIFT)
    down, right = _whole(down, 2 * tall + 1) - tall, _whole(right, 2 * broad + 1) - broad
    padded = functional.pad(x, (broad, broad, tall, tall))
    rows = tall - down.view(-1, 1) + torch.arange(high, device=x.device)
    columns = broad - right.view(-1, 1) + torch.arange(wide, device=x.device)
    each = torch.arange(len(x), device=x.device).view(-1, 1, 1)
    return padded.movedim(1, -1)[each, rows.unsqueeze(2), columns.unsqueeze(1)].movedim(-1, 1)


def _cut_out(x: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Blanks a square centred anywhere on the image; it may extend past the border."""
    inside = []
    for side, u in ((x.shape[2], down), (x.shape[3], right)):
        size = _pixels(side, CUT)
        start = _whole(u, side + 1 - size % 2).view(-1, 1) - size // 2
        at = torch.arange(side, device=x.device)
        inside.append((at >= start) & (at < start + size))
    rows, columns = inside
    return x.masked_fill((rows.unsqueeze(2) & columns.unsqueeze(1)).unsqueeze(1), 0.0)


def _scale(x: Tensor, wide: Tensor, high: Tensor) -> Tensor:
    """As seen from that many times the distance: factors above 1 shrink."""
    nothing = torch.zeros_like(wide)
    return _seen_through(x, [[wide, nothing, nothing], [nothing, high, nothing]])


def _rotate(x: Tensor, angle: Tensor) -> Tensor:
    nothing, cos, sin = torch.zeros_like(angle), angle.cos(), angle.sin()
    return _seen_through(x, [[cos, -sin, nothing], [sin, cos, nothing]])


def _seen_through(x: Tensor, matrix: list[list[Tensor]]) -> Tensor:
    """Bilinear; ``matrix`` maps positions in the result to positions in ``x``, both between −1 and 1."""
    theta = torch.stack([torch.stack(row, -1) for row in matrix], 1).expand(len(x), 2, 3)
    grid = functional.affine_grid(theta, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def _per_image(parameter: Tensor) -> Tensor:
    return parameter.view(-1, 1, 1, 1)


def _between(low: float, high: float, u: Tensor) -> Tensor:
    return low + (high - low) * u


def _pixels(side: int, share: float) -> int:
    return int(side * share + 0.5)


def _whole(u: Tensor, count: int) -> Tensor:
    """0 … count − 1, equally likely; rounding may take a ``u`` just below 1 to 1."""
    return (u * count).long().clamp(max=count - 1)
