"""Generated images that copy a training record, or nearly.

How near is too near depends on the records: two photographs of one scene are closer than two digits. So an image's
distance to its nearest record is compared with the distance from that record to its own nearest neighbour among the
records. An image below ``ratio`` of it is closer to one record than any other record is.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from understudy.errors import UserError

AT_ONCE = 1000  # images on each side of a table of distances
ROUNDING = 1e-12  # of the squared lengths: features that differ by less count as equal


def near_duplicates(
    made: Tensor,
    real: Tensor,
    *,
    features: Callable[[Tensor], Tensor] | None = None,
    ratio: float = 1 / 3,
    at_once: int = AT_ONCE,
) -> Tensor:
    """(n,) bool: which of ``made`` are too close to a record of ``real``, in pixels or in ``features``.

    Both are (…, channels, height, width) uint8; ``features`` maps them to (…, d) numbers. Exact copies are always
    found; if no other record differs from a record, only its exact copies are.
    """
    if not 0 <= ratio < 1:
        raise UserError(f"ratio must be at least 0 and below 1, not {ratio:g}, because it is a share of a distance.")
    if made.shape[1:] != real.shape[1:]:
        raise UserError(
            f"Generated images have shape {tuple(made.shape[1:])} but the records {tuple(real.shape[1:])}; "
            f"duplicates can only be found among images of the same shape."
        )
    if not len(made) or not len(real):
        return torch.zeros(len(made), dtype=torch.bool)
    near = _too_near(made.flatten(1), real.flatten(1), ratio, at_once)
    if features is None:
        return near
    described = [torch.cat([features(part).flatten(1) for part in torch.split(x, at_once)]) for x in (made, real)]
    return near | _too_near(described[0], described[1], ratio, at_once, copies=False)


def _too_near(made: Tensor, real: Tensor, ratio: float, at_once: int, *, copies: bool = True) -> Tensor:
    """``copies``: whether equal rows are too near, however close the records are."""
    distance, nearest = _nearest(made, real, at_once)
    of_interest, place = nearest.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    apart, _ = _nearest(real[of_interest], real, at_once, others_only=True)
    apart = apart[place]
    too_near = apart.isfinite() & (distance < ratio * apart)
    return too_near | (distance == 0) if copies else too_near


def _nearest(rows: Tensor, among: Tensor, at_once: int, *, others_only: bool = False) -> tuple[Tensor, Tensor]:
    """For each row, the distance to the nearest of ``among`` and its index.

    ``others_only``: equal ones do not count; the distance is infinite if none are left.
    """
    found = [_nearest_of_some(part, among, at_once, others_only) for part in torch.split(rows, at_once)]
    squared, place = (torch.cat(halves) for halves in zip(*found, strict=True))
    return squared.sqrt(), place


def _nearest_of_some(rows: Tensor, among: Tensor, at_once: int, others_only: bool) -> tuple[Tensor, Tensor]:
    least = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    place = torch.zeros(len(rows), dtype=torch.int64)
    for start, table in _tables(rows, among, at_once):
        if others_only:
            table = table.masked_fill(table == 0, torch.inf)
        smallest, at = table.min(1)
        better = smallest < least
        least, place = torch.where(better, smallest, least), torch.where(better, start + at, place)
    return least, place


def _tables(rows: Tensor, among: Tensor, at_once: int) -> Iterator[tuple[int, Tensor]]:
    """Squared distances to some of the others at a time, in double precision, which is exact for pixels."""
    a = rows.to(torch.float64)
    of_a = a.square().sum(1, keepdim=True)
    for start in range(0, len(among), at_once):
        b = among[start : start + at_once].to(torch.float64)
        lengths = of_a + b.square().sum(1)
        squared = lengths - 2 * a @ b.T
        yield start, squared.masked_fill(squared <= ROUNDING * lengths, 0)
