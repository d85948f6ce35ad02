"""How many records of each class a client holds: released once in a run, with noise, and kept.

One Gaussian release over all classes: a record more or less changes one count by one. It is charged on first contact,
before a record is touched. Memory holds the noised counts, never the counts themselves, so everything that later rounds
do with them is post-processing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.federation.client import Client
from understudy.privacy.accounting import Spending
from understudy.privacy.mechanism import with_noise

COUNTS = "noised.counts"  # in a client's memory
SURE = 3.0  # times σ: by chance, one empty class in 740 seems to hold as many records


@dataclass(frozen=True)
class NoisedCounts:
    noise: float  # σ, in records

    @property
    def spending(self) -> Spending:
        return Spending(1.0, self.noise, 1)

    def of(self, client: Client, classes: int, covers: Sequence[str]) -> Tensor:
        """(classes,) float64, of its own records; ``covers``: the parts of the reply that depend on them."""
        if COUNTS not in client.memory:
            client.budget.charge(rate=1.0, noise=self.noise, steps=1, clip=1.0, covers=covers, mechanism="Gaussian")
            counts = client.own.label_counts(classes).to(torch.float64)
            rng = client.secret_rng("class counts")
            client.memory[COUNTS] = with_noise(counts, clip=1.0, noise=self.noise, rng=rng)
        return client.memory[COUNTS]

    def fewest(self, wanted: int | None, otherwise: int) -> float:
        """How many noised records a class needs to be made: as ``wanted``, or so many that an empty one rarely is."""
        return wanted or max(otherwise, SURE * self.noise)
