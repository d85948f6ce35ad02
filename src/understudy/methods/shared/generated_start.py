"""First images from a generator that a client trains once, on its own records, and keeps in its memory.

The generator is never sent. Fresh images are drawn from it whenever they are wanted. Nothing here is private: what its
images give away depends on how closely the generator fits the records.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.federation.client import Client
from understudy.methods.shared.imitation import require_fitting
from understudy.synthesis.generator import Generator, Learnt

LEARNT = "start.generator."  # in a client's memory: what its generator learnt


@dataclass(frozen=True)
class GeneratedStart:
    generator: Generator
    problem: Problem

    def images(self, client: Client, real: Examples, labels: Tensor) -> Tensor | None:
        """(n, …), one for each label, all of them labels of ``real``; None if those are too few to learn from.

        ``real`` holds the records to learn from at first; later calls sample from what was learnt then.
        """
        require_fitting(client, self.problem)
        learnt = _kept(client.memory)
        if not learnt:
            if len(real) < self.generator.smallest:
                return None
            learnt = self.generator.fit(real, self.problem, client.rng("start generator"))
            client.memory.update({LEARNT + name: tensor for name, tensor in learnt.items()})
        return self.generator.sample(learnt, labels, self.problem, client.rng("start images"))


def _kept(memory: Mapping[str, Tensor]) -> Learnt:
    return {name.removeprefix(LEARNT): tensor for name, tensor in memory.items() if name.startswith(LEARNT)}


def of_classes(real: Examples, classes: list[int]) -> Examples:
    """Only records of these classes."""
    return real.take(torch.nonzero(torch.isin(real.y, torch.tensor(classes))).flatten())
