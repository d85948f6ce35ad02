"""Who takes part in a round."""

import re
from collections.abc import Iterable, Sequence

import torch

from understudy.errors import UserError

Cohort = int | float  # a whole number: this many clients; a fraction up to 1.0: that share of them


def cohort_size(cohort: Cohort, clients: int) -> int:
    if isinstance(cohort, int):
        if not 1 <= cohort <= clients:
            raise UserError(
                f"method.cohort is {cohort}, but there are {clients} clients; "
                f"write a number from 1 to {clients}, or a share such as 0.5."
            )
        return cohort
    if not 0 < cohort <= 1:
        raise UserError(f"method.cohort is {cohort}; write a share above 0 and at most 1.0.")
    return max(1, round(cohort * clients))


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted by name, with client-2 before client-10, so that sums have the same bits in whatever order they came."""
    return sorted(
        names,
        key=lambda name: [
            (part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)
        ],
    )


def draw_cohort(clients: Sequence[str], size: int, rng: torch.Generator) -> list[str]:
    """A uniform draw without replacement, in the order of ``clients``."""
    drawn = torch.randperm(len(clients), generator=rng)[:size]
    return [clients[i] for i in sorted(drawn.tolist())]
