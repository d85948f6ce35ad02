"""Generated images that copy a training record, or nearly.

How near is too near depends on the records: two photographs of one scene are closer than two digits. So an image's
distance to its nearest record is compared with the distance from that record to its own nearest neighbour among the
records. An image below ``ratio`` of it is closer to one record than any other record is.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.synthesis.neighbours import AT_ONCE, nearest


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
    distance, at = nearest(made, real, at_once)
    of_interest, place = at.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    apart, _ = nearest(real[of_interest], real, at_once, others_only=True)
    apart = apart[place]
    too_near = apart.isfinite() & (distance < ratio * apart)
    return too_near | (distance == 0) if copies else too_near
