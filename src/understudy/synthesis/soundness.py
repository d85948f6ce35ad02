"""Whether a generator collapsed or diverged, judged from its images or records alone.

It never looks at a record, so after private training the check costs nothing more. Three things are measured, all
without units:

- contrast: the standard deviation of an image's pixels within a channel, so that a colour alone has none. Below 2 of
  255 levels an image is one flat colour, which no set of photographs or drawings consists of.
- roughness: the mean squared difference of neighbouring pixels over twice that variance, which is one minus their
  correlation. White noise has 1 whatever its distribution, a smooth image close to 0; real 8×8 digits have about 0.4,
  larger images less. Above 0.8 neighbours have next to nothing to do with each other.
- diversity: the root mean squared pixel distance between two images of a class, over √2 times the contrast: about 1
  for images that share nothing, 0 for one that is repeated; real digits have 0.6 to 0.9. Below 0.05 the images of a
  class differ by less than a twentieth of the contrast within each.

A generator fails if more than half of its images are flat, if the typical one is noise, or if more than half of those
that share a class with others lie in a class of a single repeated image.

Vectors and sequences have neither contrast nor neighbours to compare. Of them, diversity is the root mean squared
spread of a class's records over the size of its numbers, and what is not finite has diverged.
"""

from collections.abc import Callable

import torch
from torch import Tensor

FLAT = 2 / 255
ROUGH = 0.8
ALIKE = 0.05
TINY = 1e-12


def complaint(images: Tensor, labels: Tensor) -> str | None:
    """What is wrong with images (n, channels, height, width) uint8, or with float records (n, …), and their labels, as
    a sentence; None: nothing.

    ``labels`` are (n,), or (n, classes) of zeros and ones: then equal rows make a class.
    """
    if not len(images):
        return None
    if images.dtype != torch.uint8:
        return _complaint_of_numbers(images.flatten(1).to(torch.float64), labels)
    x = images.to(torch.float32) / 255
    contrast = within_channels(x).sqrt()
    flat = float((contrast < FLAT).float().mean())
    if flat > 0.5:
        return f"The generator made images without contrast: {flat:.0%} of them are a flat colour."
    rough = roughness(x[contrast >= FLAT])
    if rough is not None and rough > ROUGH:
        return f"The generator made noise: neighbouring pixels differ {rough:.2f} times as much as distant ones."
    alike = _in_classes_alike(x, labels, diversity)
    if alike is not None:
        return (
            f"The generator collapsed: {alike} of its {len(images)} images lie in classes "
            f"whose images are nearly all the same."
        )
    return None


def _complaint_of_numbers(x: Tensor, labels: Tensor) -> str | None:
    broken = int((~torch.isfinite(x)).any(1).sum())
    if broken:
        return f"The generator diverged: {broken} of its {len(x)} records are not finite."
    alike = _in_classes_alike(x, labels, diversity_of_numbers)
    if alike is not None:
        return (
            f"The generator collapsed: {alike} of its {len(x)} records lie in classes "
            f"whose records are nearly all the same."
        )
    return None


def _in_classes_alike(x: Tensor, labels: Tensor, spread_of: Callable[[Tensor], float | None]) -> int | None:
    """How many records lie in classes of a single repeated one, if more than half of those with others do."""
    alike, with_others = 0, 0
    for members in _by_class(labels):
        spread = spread_of(x[members])
        if spread is not None:
            with_others += len(members)
            alike += len(members) if spread < ALIKE else 0
    return alike if alike > with_others / 2 else None


def within_channels(x: Tensor) -> Tensor:
    """(n,): the variance of an image's pixels around their channel's mean, averaged over channels."""
    return x.flatten(2).var(2, correction=0).mean(1)


def roughness(x: Tensor) -> float | None:
    """The median over images, along both axes together; None if images have a single pixel."""
    steps = [x.diff(dim=axis).square().flatten(1) for axis in (2, 3)]
    neighbours = torch.cat(steps, 1)
    if not neighbours.numel():
        return None
    return float((neighbours.mean(1) / (2 * within_channels(x)).clamp(min=TINY)).median())


def diversity(x: Tensor) -> float | None:
    """Of the images of one class; None if there is only one.

    The mean squared distance over all pairs is twice the variance of a pixel over the images, averaged over pixels, so
    there is no need to go through the pairs.
    """
    if len(x) < 2:
        return None
    between = x.flatten(1).var(0).mean()
    seen = within_channels(x).mean()
    return float((between / seen.clamp(min=TINY)).sqrt())


def diversity_of_numbers(x: Tensor) -> float | None:
    """Of the records (n, numbers) of one class; None if there is only one."""
    if len(x) < 2:
        return None
    return float((x.var(0).mean() / x.square().mean().clamp(min=TINY)).sqrt())


def _by_class(labels: Tensor) -> list[Tensor]:
    """Indices of the images of each class present."""
    _, group = labels.unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
    return [torch.nonzero(group == which).flatten() for which in range(int(group.max()) + 1)]
