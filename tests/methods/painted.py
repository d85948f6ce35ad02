"""Fedssyn with a generator that can be seen through."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Self

import torch
from stage import Stage, bound, image_net, pictures
from torch import Tensor

from understudy.base_settings import Settings
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.federation.method import Method, State
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedssyn.fedssyn import POOL_Y, Fedssyn
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.methods.shared.averaging import AveragingSettings
from understudy.privacy.sgd import PrivateSteps
from understudy.synthesis import generator as generators
from understudy.synthesis.generator import Generator, generator


class PaintedSettings(Settings):
    epochs: int = 1
    batch: int = 4
    checkpoints: tuple[int, ...] = ()
    least_steps: int = 0
    flat: int = -1  # a client of this class alone paints without contrast
    copies: int = 0  # the first images are records over again


class Painted(Generator):
    """Paints a slope from the number of its class, and notes what it was given to learn from."""

    smallest = 3
    goes_on = True
    seen: ClassVar[list[Examples]] = []
    updates: ClassVar[list[int]] = []
    batches: ClassVar[list[int]] = []
    steps: ClassVar[list[PrivateSteps | None]] = []

    def __init__(self, settings: PaintedSettings) -> None:
        self.settings = settings
        self.before = 0  # epochs of the one it goes on from

    def beginning_at(self, start: Mapping[str, Tensor]) -> Self:
        begun = copy.copy(self)
        begun.before = int(start["epoch"])
        return begun

    def course(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Iterator[generators.Stage]:
        if private is None:
            self.require_enough(examples)
        self.seen.append(examples)
        self.steps.append(private)
        self.updates.append(self.settings.least_steps)
        self.batches.append(self.settings.batch)
        for epoch in (*self.settings.checkpoints, self.settings.epochs):
            some = examples.x[: self.settings.copies]
            learnt = {"epoch": torch.tensor(self.before + epoch), "some": some, "weight": torch.tensor([1 / 3])}
            yield generators.Stage(epoch, learnt)

    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        _, high, wide = problem.shape
        slope = torch.arange(high).view(-1, 1) + torch.arange(wide)
        steep = torch.randint(3, 15, (len(labels), 1, 1, 1), generator=rng)
        steep = steep * (0 if bool((labels == self.settings.flat).all()) else 1)
        made = (labels.view(-1, 1, 1, 1) + steep * slope + state["epoch"] - 1).expand(-1, *problem.shape)
        return torch.cat([state["some"], made[len(state["some"]) :].to(torch.uint8)])


@contextmanager
def painted() -> Iterator[None]:
    """``generator: painted`` is known in here."""
    generators.names()  # those of the package are there
    before = dict(generators._entries)
    generator("painted", settings=PaintedSettings)(Painted)
    for kept in (Painted.seen, Painted.steps, Painted.updates, Painted.batches):
        kept.clear()
    yield
    generators._entries.clear()
    generators._entries.update(before)


LOCAL = Local(epochs=2, batch=4, lr=0.1)
SITES = {
    "a": pictures([0, 0, 0, 0, 1, 1], name="a"),
    "b": pictures([2] * 8, name="b"),
    "c": pictures([1], name="c"),  # too few records to make anything
}


def add(inner: Method | None = None, **given: object) -> Fedssyn:
    words: dict[str, object] = {"generator": "painted", "records": 1.0, **given}
    return Fedssyn(FedssynSettings.model_validate(words), inner or fedavg(AveragingSettings(local=LOCAL)))


def staged(method: Method, sites: Mapping[str, Examples] = SITES, cohorts: list[list[str]] | None = None) -> Stage:
    return Stage(bound(method, image_net()), sites, cohorts or [])


def opened(stage: Stage) -> State:
    return stage.method.start(stage)


def dealt(stage: Stage) -> dict[str, list[int]]:
    """The labels that each client was given, by who got them."""
    return {name: brief[POOL_Y].tolist() for _, name, brief in stage.briefs if POOL_Y in brief}
