"""A small world with known members: correlated Gaussians in three classes, and what a client might share of them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.audits.attacks import ATTACKS
from understudy.audits.measures import Reached, reached
from understudy.audits.sighting import Seen, Sighting, View
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.models.mlp import MlpSettings, mlp
from understudy.models.network import Network
from understudy.randomness import generator

CLASSES, WIDE = 3, 30
PROBLEM = Problem((WIDE,), CLASSES)


def records(n: int, name: str) -> Examples:
    """Directions differ in variance, and classes in mean and scale."""
    rng = generator(5, name)
    y = torch.arange(n) % CLASSES
    turned, _ = torch.linalg.qr(torch.randn(WIDE, WIDE, generator=generator(5, "turned")))
    spread = torch.logspace(1, -1, WIDE, base=5)
    means = torch.randn(CLASSES, WIDE, generator=generator(5, "means"))
    scale = torch.tensor([0.7, 1.0, 1.4])[y, None]
    return Examples(means[y] + scale * (torch.randn(n, WIDE, generator=rng) * spread) @ turned, y)


def network(problem: Problem = PROBLEM, hidden: int = 40) -> Network:
    return Network(lambda: mlp(problem, MlpSettings(hidden=(hidden,))), problem, seed=1)


@dataclass(frozen=True)
class World:
    members: Examples
    others: Examples
    view: View

    def reached(self, name: str, *sightings: Sighting) -> Reached:
        inside, outside = self.scores(name, *sightings)
        return reached(inside, outside, np.random.default_rng(0))

    def scores(self, name: str, *sightings: Sighting) -> tuple[Tensor, Tensor]:
        candidates = self.members.and_also(self.others)
        found = ATTACKS[name].attack(Seen("a", sightings), candidates, self.view)
        assert found is not None
        assert found.shape == (len(candidates),)
        assert found.dtype == torch.float64
        assert bool(found.isfinite().all())
        return found[: len(self.members)], found[len(self.members) :]


def world(members: int = 300) -> World:
    return World(records(members, "members"), records(600, "others"), View(network(), records(900, "reference")))


def averages(own: Examples, of: int, images: int, name: str = "averages") -> Examples:
    """Each the mean of ``of`` records of one class."""
    rng, x, y = generator(5, name), [], []
    for i in range(images):
        members = torch.nonzero(own.y == i % CLASSES).flatten()
        x.append(own.x[members[torch.randperm(len(members), generator=rng)[:of]]].mean(0))
        y.append(i % CLASSES)
    return Examples(torch.stack(x), torch.tensor(y))
