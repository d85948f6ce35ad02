"""What a run sent, beside the formula 2·M_s + 2·R·M_c of data shuffling.

M_s are the synthetic images that a client sends once and gets once, M_c the model that goes down and up in each of R
rounds. Measured is everything that went through the wire. Images travel together with other things, so M_s is counted
in the pool that the server keeps: its tensors as they are sent, a byte or four for a number, and the labels.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from understudy.methods.shared.dealing import GIVEN, POOL_X, POOL_Y, slices
from understudy.runs.folder import RunFolder

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


def pool_of(run: RunFolder) -> Mapping[str, Tensor] | None:
    """The shuffled pool and who has its part of it, as the newest checkpoint has them; None: nothing was shuffled."""
    entries = run.checkpoints.entries()
    state = run.checkpoints.get(entries[-1])[0] if entries else {}
    return {part: state[part] for part in (POOL_X, POOL_Y, GIVEN)} if POOL_Y in state else None


def cost_of(run: RunFolder, numbers: int, clients: int) -> Cost | None:
    """``numbers``: of the model, buffers included. None where no round was written yet."""
    metrics = run.metrics()
    if not metrics:
        return None
    pool = pool_of(run)
    whole, dealt = (0, 0) if pool is None else _pool_bytes(pool)
    return Cost(
        sum(line["clients"] for line in metrics if line["round"] > 0) / clients,
        FLOAT * numbers,
        whole / clients,
        dealt / clients,
        sum(line["bytes_up"] + line["bytes_down"] for line in metrics) / clients,
    )


def _pool_bytes(pool: Mapping[str, Tensor]) -> tuple[int, int]:
    """Of the whole, and of the parts that were dealt."""
    given = pool[GIVEN].tolist()
    parts = [pool[POOL_X][part].nbytes + pool[POOL_Y][part].nbytes for part in slices(len(pool[POOL_Y]), len(given))]
    return sum(parts), sum(size for size, got in zip(parts, given, strict=True) if got)
