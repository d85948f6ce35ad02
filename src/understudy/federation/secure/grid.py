"""Numbers as whole multiples of a step, because masks cancel only in whole numbers.

Sums are modulo 2^bits. The step is a power of two, the finest for which the sum over all clients still fits, so whole
numbers (counts, weights) stay exact, and a sum over n clients is off by at most n · step / 2.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.errors import UserError

Whole = NDArray[np.uint64]  # modulo 2^64, which 2^bits divides


@dataclass(frozen=True)
class Grid:
    bits: int
    range: float  # the largest absolute value
    fraction: int  # the step is 2^−fraction

    @property
    def step(self) -> float:
        return math.ldexp(1.0, -self.fraction)

    def whole(self, numbers: Tensor, *, part: str, overflow: Literal["refuse", "clip"]) -> Whole:
        """The nearest multiples of the step (ties to even), flat."""
        flat = numbers.detach().cpu().to(torch.float64).flatten()
        if overflow == "refuse" and bool((flat.abs() > self.range).any()):  # how far beyond stays private
            raise UserError(
                f"its '{part}' goes beyond ±{self.range:g}; raise with.secure-aggregation.range or set overflow: clip"
            )
        steps = (flat.clamp(-self.range, self.range) * 2.0**self.fraction).round()
        return steps.to(torch.int64).numpy().view(np.uint64)

    def numbers(self, total: Whole) -> Tensor:
        """An unmasked sum, as numbers."""
        beside = np.uint64(64 - self.bits)
        signed = (total << beside).view(np.int64) >> np.int64(beside)
        return torch.from_numpy(signed.astype(np.float64) * self.step)

    def pack(self, values: Whole) -> Tensor:
        """(n, bits / 8) bytes, lowest first."""
        return torch.from_numpy(values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : self.bits // 8].copy())

    def unpack(self, packed: Tensor) -> Whole:
        spread = np.zeros((len(packed), 8), dtype=np.uint8)
        spread[:, : self.bits // 8] = packed.numpy()
        return spread.view("<u8").reshape(-1).astype(np.uint64)


def grid_for(clients: int, *, range: float, bits: int) -> Grid:
    """The finest grid on which the sum of this many clients fits."""
    largest = 2 ** (bits - 1) - 1
    fraction = math.floor(math.log2(largest / (clients * range))) + 1
    while clients * math.ceil(math.ldexp(range, fraction)) > largest:
        fraction -= 1
    if fraction < 0:
        raise UserError(
            f"with.secure-aggregation: sums of {clients} clients within ±{range:g} do not fit into {bits} bits in "
            "steps of 1 or finer; choose more bits or a smaller range."
        )
    return Grid(bits, range, fraction)
