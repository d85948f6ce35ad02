"""Nearest neighbours by exact search, some rows at a time, so that memory stays small."""

from collections.abc import Iterator

import torch
from torch import Tensor

AT_ONCE = 1000  # rows on each side of a table of distances
ROUNDING = 1e-12  # of the squared lengths: rows that differ by less count as equal


def nearest(rows: Tensor, among: Tensor, at_once: int = AT_ONCE, *, others_only: bool = False) -> tuple[Tensor, Tensor]:
    """For each row, the distance to the nearest of ``among`` and its index; of equally near ones the first.

    ``others_only``: equal ones do not count. If none are left, the distance is infinite and the index 0.
    """
    found = [_nearest_of_some(part, among, at_once, others_only) for part in torch.split(rows, at_once)]
    squared, place = (torch.cat(halves) for halves in zip(*found, strict=True))
    return squared.sqrt(), place


def squared_distances(rows: Tensor, among: Tensor, at_once: int = AT_ONCE) -> Iterator[tuple[int, Tensor]]:
    """(rows, some of the others) at a time, and where those begin; in double precision, which is exact for pixels."""
    a = rows.to(torch.float64)
    of_a = a.square().sum(1, keepdim=True)
    for start in range(0, len(among), at_once):
        b = among[start : start + at_once].to(torch.float64)
        lengths = of_a + b.square().sum(1)
        squared = lengths - 2 * a @ b.T
        yield start, squared.masked_fill(squared <= ROUNDING * lengths, 0)


def _nearest_of_some(rows: Tensor, among: Tensor, at_once: int, others_only: bool) -> tuple[Tensor, Tensor]:
    least = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    place = torch.zeros(len(rows), dtype=torch.int64)
    for start, table in squared_distances(rows, among, at_once):
        if others_only:
            table = table.masked_fill(table == 0, torch.inf)
        smallest, at = table.min(1)
        better = smallest < least
        least, place = torch.where(better, smallest, least), torch.where(better, start + at, place)
    return least, place
