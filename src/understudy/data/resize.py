"""Smaller images by exact area averaging."""

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


def average(images: Tensor, size: int) -> Tensor:
    """(n, c, size, size): each new pixel is the mean of the area it covers, halves rounded up.

    The sums are whole numbers, which float64 holds exactly, so every machine gets the same pixels.
    """
    rows, columns = (overlaps(old, size).to(torch.float64) for old in images.shape[-2:])
    area = images.shape[-2] * images.shape[-1]

    def one_part(part: Tensor) -> Tensor:
        sums = rows @ part.to(torch.float64) @ columns.T
        if images.dtype != torch.uint8:
            return (sums / area).to(images.dtype)
        return ((2 * sums.to(torch.int64) + area) // (2 * area)).to(torch.uint8)

    return torch.cat([one_part(part) for part in torch.split(images, IMAGES_AT_ONCE)])


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
