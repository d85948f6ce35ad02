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
    distance, place = nearest_few(rows, among, 1, at_once, others_only=others_only)
    return distance[:, 0], place[:, 0]


def nearest_few(
    rows: Tensor, among: Tensor, many: int, at_once: int = AT_ONCE, *, others_only: bool = False
) -> tuple[Tensor, Tensor]:
    """(n, many): the same for the nearest few of ``among``, nearest first; infinite if there are not so many."""
    flat, others = rows.flatten(1), among.flatten(1)
    found = [_nearest_of_some(part, others, many, at_once, others_only) for part in torch.split(flat, at_once)]
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


def _nearest_of_some(rows: Tensor, among: Tensor, many: int, at_once: int, others_only: bool) -> tuple[Tensor, Tensor]:
    least = torch.full((len(rows), many), torch.inf, dtype=torch.float64)
    place = torch.zeros(len(rows), many, dtype=torch.int64)
    for start, table in squared_distances(rows, among, at_once):
        if others_only:
            table = table.masked_fill(table == 0, torch.inf)
        both = torch.cat([least, table], 1)
        columns = torch.cat([place, torch.arange(start, start + table.shape[1]).expand_as(table)], 1)
        at = _smallest(both, many)
        least, place = both.gather(1, at), columns.gather(1, at)
    return least, place


def _smallest(table: Tensor, many: int) -> Tensor:
    """(n, many): where the smallest of each row are; of equal ones the first."""
    if many == 1:
        return table.argmin(1, keepdim=True)
    return table.sort(dim=1, stable=True).indices[:, :many]
