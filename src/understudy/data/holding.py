"""What one site holds: records to learn from, and some of them kept back for scores."""

from dataclasses import dataclass

import numpy as np

from understudy.data.examples import Examples
from understudy.data.strata import Indices, draw_exactly
from understudy.randomness import numpy_generator


@dataclass(frozen=True)
class Holding:
    """The records of one site: those to learn from, and those kept back for scores."""

    own: Examples
    held_out: Examples


def hold_out(records: Indices, examples: Examples, share: float, seed: int, client: str) -> tuple[Indices, Indices]:
    """(own, held out): a share of each class; at least one record if there are two, and never all of them."""
    total = len(records)
    if not share or total < 2:
        return records, records[:0]
    count = min(max(int(total * share + 0.5), 1), total - 1)
    rng = numpy_generator(seed, "held-out", client)
    labels = np.zeros(total, np.int64) if examples.multilabel else examples.y.numpy()[records]
    kept, left = draw_exactly(labels, count, rng)
    return records[left], records[kept]
