"""Generated images that copy a training record, or nearly.

How near is too near depends on the records: two photographs of one scene are closer than two digits, and two ones are
closer than two eights. So the distance of an image to its nearest record is taken as a share of the distance from that
record to its own nearest neighbour, and the limit is calibrated on records that the generator did not see. Those come
as near as anything does that is not a copy; an image nearer than all but ``share`` of them is a near-copy. So of images
that are as good as new records, about that share are near-copies by chance.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.synthesis.neighbours import AT_ONCE, nearest, nearest_few

SHARE = 0.01  # of records that were not seen: how many may come as near as a near-copy
FEWEST = 20  # records not seen, to calibrate on; with fewer, training records stand in for them


@dataclass(frozen=True)
class Nearness:
    """How nearness is measured and judged."""

    share: float = SHARE
    relative: bool = True  # as a share of the record's distance to its own nearest neighbour; False: plain distances
    at_once: int = AT_ONCE

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UserError(f"share must lie between 0 and 1, not {self.share:g}, because it is a share of records.")


PLAIN = Nearness()


def near_copies(
    made: Tensor,
    own: Tensor,
    held_out: Tensor,
    *,
    features: Callable[[Tensor], Tensor] | None = None,
    nearness: Nearness = PLAIN,
) -> Tensor:
    """(n,) bool: which of ``made`` are near-copies of a record of ``own``, in pixels or in ``features``.

    ``own`` are the records that they were made from, ``held_out`` others like them; all are (…, *shape), pixels or
    numbers. ``features`` maps such a batch to (…, d) numbers. Exact copies are always found.
    """
    for others, what in ((own, "records"), (held_out, "held-out records")):
        if made.shape[1:] != others.shape[1:]:
            raise UserError(
                f"Generated images have shape {tuple(made.shape[1:])} but the {what} {tuple(others.shape[1:])}; "
                f"near-copies can only be found among images of the same shape."
            )
    if not len(made) or not len(own):
        return torch.zeros(len(made), dtype=torch.bool)
    near = _too_near(made, own, held_out, nearness) | (nearest(made, own, nearness.at_once)[0] == 0)
    if features is None:
        return near

    def described(x: Tensor) -> Tensor:
        return torch.cat([features(part).flatten(1) for part in torch.split(x, nearness.at_once)])

    return near | _too_near(described(made), described(own), described(held_out), nearness)


def limit(own: Tensor, held_out: Tensor, nearness: Nearness = PLAIN) -> float:
    """Below it an image is a near-copy: the ``share`` quantile of how near records come that were not seen.

    With fewer than 20 of those, how near each training record comes to the others, as if it had been left out. 0 if
    there are too few records to tell.
    """
    found = _distances(held_out, own, nearness) if len(held_out) >= FEWEST else _left_out(own, nearness)
    found = found[found.isfinite()]
    return float(found.quantile(nearness.share)) if len(found) else 0.0


def _too_near(made: Tensor, own: Tensor, held_out: Tensor, nearness: Nearness) -> Tensor:
    return _distances(made, own, nearness) < limit(own, held_out, nearness)


def _distances(rows: Tensor, own: Tensor, nearness: Nearness) -> Tensor:
    """From each row to its nearest record; if relative, infinite where no other record differs from that one."""
    distance, place = nearest(rows, own, nearness.at_once)
    if not nearness.relative:
        return distance
    of_interest, which = place.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    apart, _ = nearest_few(own[of_interest], own, 1, nearness.at_once, others_only=True)
    return _as_share(distance, apart[which, 0])


def _left_out(own: Tensor, nearness: Nearness) -> Tensor:
    """The same for each training record, as if it were not one of them."""
    if len(own) < 2:
        return torch.empty(0, dtype=torch.float64)
    itself = torch.arange(len(own))
    found, places = nearest_few(own, own, 2, nearness.at_once)
    second = places[:, 0] == itself  # a twin may come before the record itself
    distance, place = torch.where(second, found[:, 1], found[:, 0]), torch.where(second, places[:, 1], places[:, 0])
    if not nearness.relative:
        return distance
    apart, others = nearest_few(own, own, 2, nearness.at_once, others_only=True)
    back = others[place, 0] == itself  # the neighbour's own neighbour is the one that is left out
    return _as_share(distance, torch.where(back, apart[place, 1], apart[place, 0]))


def _as_share(distance: Tensor, apart: Tensor) -> Tensor:
    return torch.where(apart.isfinite(), distance / apart, torch.inf)
