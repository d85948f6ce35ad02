"""Images in another size: smaller ones by exact area averaging, larger ones by linear interpolation."""

from dataclasses import replace

import torch
from torch import Tensor

from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.errors import UserError

IMAGES_AT_ONCE = 4096


def overlaps(old: int, new: int) -> Tensor:
    """(new, old): how much of each old pixel a new one covers, in units of 1/new of an old pixel."""
    start = torch.arange(new).view(-1, 1) * old
    left = torch.arange(old).view(1, -1) * new
    return (torch.minimum(start + old, left + new) - torch.maximum(start, left)).clamp_(min=0)


def nearest_two(old: int, new: int) -> Tensor:
    """(new, old): how much each old pixel counts towards a new one between two of them, in units of 1/(2·new)."""
    at = ((2 * torch.arange(new) + 1) * old - new).clamp_(0, 2 * new * (old - 1))  # from the first pixel's centre
    return (2 * new - (at.view(-1, 1) - 2 * new * torch.arange(old)).abs()).clamp_(min=0)


def weights(old: int, new: int) -> Tensor:
    """(new, old), as whole numbers; each row has the same sum."""
    return overlaps(old, new) if new <= old else nearest_two(old, new)


def average(images: Tensor, size: int) -> Tensor:
    """(n, c, size, size): each new pixel is the mean of the area it covers, halves rounded up; a side that grows is
    interpolated.

    The sums are whole numbers, which float64 holds exactly, so every machine gets the same pixels.
    """
    rows, columns = (weights(old, size).to(torch.float64) for old in images.shape[-2:])
    whole = int(rows[0].sum() * columns[0].sum())

    def one_part(part: Tensor) -> Tensor:
        sums = _down(rows, part) @ columns.T
        if images.dtype != torch.uint8:
            return (sums / whole).to(images.dtype)
        return ((2 * sums.to(torch.int64) + whole) // (2 * whole)).to(torch.uint8)

    return torch.cat([one_part(part) for part in torch.split(images, IMAGES_AT_ONCE)])


def _down(rows: Tensor, part: Tensor) -> Tensor:
    """Over the height; float32 is exact here too for pixels, and photographs are large."""
    if part.dtype == torch.uint8 and rows[0].sum() * 255 < 2**24:
        return (rows.to(torch.float32) @ part.to(torch.float32)).to(torch.float64)
    return rows @ part.to(torch.float64)


def shrunk(examples: Examples, size: int, who: str) -> Examples:
    """Square images averaged down to ``size``; an error that names ``who`` if the records are not square images."""
    shape = tuple(examples.x.shape[1:])
    if len(shape) != 3 or shape[1] != shape[2]:
        raise UserError(f"data.size: records of {who} have shape {shape}; only square images can be shrunk.")
    if size > shape[1]:
        raise UserError(f"data.size: images of {who} are {shape[1]} wide and can only shrink, not grow to {size}.")
    return examples if size == shape[1] else replace(examples, x=average(examples.x, size))


def resized(dataset: Dataset, size: int) -> Dataset:
    train = shrunk(dataset.train, size, dataset.name)
    return replace(
        dataset,
        problem=replace(dataset.problem, shape=tuple(train.x.shape[1:])),
        train=train,
        test=None if dataset.test is None else shrunk(dataset.test, size, dataset.name),
    )
