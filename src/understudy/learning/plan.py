"""Which records make up which batch: drawn beforehand, as a table of indices."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

EMPTY = -1  # a place in the table with no record


def passes(pool: int, steps: int, batch: int, rng: torch.Generator, *, drop_last: bool = False) -> Tensor:
    """(steps, batch): pass after pass over a freshly shuffled pool, until there are enough steps.

    The last batch of a pass may have empty places; ``drop_last`` skips it, unless it is the only one.
    """
    if pool == 0 or steps == 0:
        return torch.empty(0, batch, dtype=torch.int64)
    rows = max(1, pool // batch) if drop_last else math.ceil(pool / batch)
    shuffled = []
    for _ in range(math.ceil(steps / rows)):
        order = torch.randperm(pool, generator=rng)
        if rows * batch > pool:
            order = torch.nn.functional.pad(order, (0, rows * batch - pool), value=EMPTY)
        shuffled.append(order[: rows * batch].view(rows, batch))
    return (shuffled[0] if len(shuffled) == 1 else torch.cat(shuffled))[:steps]


def steps_of_epochs(records: int, epochs: int, batch: int, *, drop_last: bool = False) -> int:
    """Epochs count a client's own records: synthetic ones dealt to it add no steps."""
    if records == 0:
        return 0
    return epochs * (max(1, records // batch) if drop_last else math.ceil(records / batch))


def shuffled_batches(records: int, batch: int, steps: int, rng: torch.Generator) -> Iterator[Tensor]:
    """``steps`` batches of indices for training a generator; each record once per epoch."""
    left = steps
    while left > 0:
        for rows in torch.split(torch.randperm(records, generator=rng), batch)[:left]:
            left -= 1
            yield rows
