"""What a run sent, compared with data shuffling's formula 2·M_s + 2·R·M_c.

M_s are the synthetic images that a client sends once and gets once, M_c the model that goes down and up in each of R
rounds. What is measured is everything that went over the wire. Images travel together with other things, so M_s is
counted in what the server keeps to deal out: its tensors as sent, one or four bytes per number, and the labels.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from understudy.federation.method import Dealt
from understudy.runs.folder import Line

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Cost:
    """Bytes per client: means over all clients."""

    rounds: float  # R: the rounds a client took part in
    model: int  # M_c, from its parameter count
    images: float  # M_s: its share of the pool; 0 if nothing was shuffled
    images_dealt: float  # the part of it already sent down: a client gets its share when first asked
    measured: float  # everything a client sent and received

    @property
    def formula(self) -> float:
        return 2 * self.images + 2 * self.rounds * self.model

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "formula": self.formula}


def cost_of(metrics: Sequence[Line], dealt: Collection[Dealt], numbers: int, clients: int) -> Cost | None:
    """``numbers``: the size of the model, including buffers. None if no round is written yet."""
    if not metrics:
        return None
    return Cost(
        sum(line["clients"] for line in metrics if line["round"] > 0) / clients,
        FLOAT * numbers,
        sum(part.nbytes for part in dealt) / clients,
        sum(part.nbytes for part in dealt if part.given) / clients,
        sum(line["bytes_up"] + line["bytes_down"] for line in metrics) / clients,
    )
