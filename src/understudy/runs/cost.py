"""What a run sent, beside the formula 2·M_s + 2·R·M_c of data shuffling.

M_s are the synthetic images that a client sends once and gets once, M_c the model that goes down and up in each of R
rounds. Measured is everything that went through the wire. Images travel together with other things, so M_s is
counted in what the server keeps to deal out: its tensors as they are sent, a byte or four per number, and the labels.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from understudy.federation.method import Dealt
from understudy.runs.folder import Line

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Cost:
    """Bytes a client: means over all clients."""

    rounds: float  # R: in which a client took part
    model: int  # M_c by its numbers
    images: float  # M_s: its share of the pool; 0 where nothing was shuffled
    images_dealt: float  # of it, what was sent down already: a client gets its part when it is first asked
    measured: float  # everything that a client sent and got

    @property
    def formula(self) -> float:
        return 2 * self.images + 2 * self.rounds * self.model

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "formula": self.formula}


def cost_of(metrics: Sequence[Line], dealt: Collection[Dealt], numbers: int, clients: int) -> Cost | None:
    """``numbers``: of the model, buffers included. None where no round was written yet."""
    if not metrics:
        return None
    return Cost(
        sum(line["clients"] for line in metrics if line["round"] > 0) / clients,
        FLOAT * numbers,
        sum(part.nbytes for part in dealt) / clients,
        sum(part.nbytes for part in dealt if part.given) / clients,
        sum(line["bytes_up"] + line["bytes_down"] for line in metrics) / clients,
    )
