"""FedDM's matching, steps a second: ours against a plain loop that takes one class after another.

The plain loop is measured twice: in a process of its own, as anybody's script would run, and in this one, where it has
our heap (`understudy.heap`) from us. Goals are for the first; the second tells how much of it is the heap alone.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks import bare
from benchmarks.report import Row
from benchmarks.timing import Apart, Turn, beside_us, take_turns
from benchmarks.training import convnet_by_hand, network
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.models.network import Network
from understudy.models.zoo import FastPath
from understudy.randomness import generator
from understudy.synthesis.matching import ImageSteps, Neighbourhood, RealClasses, match_distributions

IPC = 10
HOW = bare.Matching(radius=5.0, real_batch=256, lr=1.0, momentum=0.5)
GOAL = 1.8


@dataclass(frozen=True)
class Case:
    model: str
    problem: Problem
    by_hand: Callable[[], bare.Net]
    paths: tuple[FastPath, ...]
    classes: int
    steps: int  # a turn
    turns: int
    records: int = 500  # a class


def small_by_hand() -> bare.Net:
    return bare.convnet(1, 8, width=32, depth=2)


SMALL = Case(
    "small-convnet",
    Problem((1, 8, 8), 10),
    small_by_hand,
    ("eager", "compiled"),
    classes=10,
    steps=10,
    turns=15,
)
CONVNET = Case(
    "convnet",
    Problem((3, 32, 32), 10),
    convnet_by_hand,
    ("compiled",),
    classes=3,
    steps=1,
    turns=7,
)


@dataclass(frozen=True)
class Task:
    """Records of so many classes and first images for each, the same for both sides."""

    real: Examples
    images: Tensor  # (classes · ipc, …) scaled
    classes: int

    @classmethod
    def of(cls, problem: Problem, classes: int, records: int, ipc: int = IPC) -> "Task":
        rng = generator("benchmark", "matching")
        x = torch.randint(256, (classes * records, *problem.shape), generator=rng, dtype=torch.uint8)
        first = torch.randint(256, (classes * ipc, *problem.shape), generator=rng, dtype=torch.uint8)
        return cls(Examples(x, torch.arange(classes).repeat_interleave(records)), problem.scale(first), classes)

    def ours(self, net: Network, steps: int, how: bare.Matching = HOW) -> Tensor:
        return match_distributions(
            net,
            self.images,
            RealClasses(self.real, range(self.classes)),
            how.real_batch,
            Neighbourhood(net.initial(), how.radius, steps, generator("benchmark", "matching steps")),
            ImageSteps(how.lr, how.momentum),
        )

    def by_hand(self, net: bare.Net, start: Tensor, problem: Problem) -> Callable[[int, bare.Matching], Tensor]:
        """The records are scaled and put in order beforehand, as one does by hand."""
        real = [problem.scale(self.real.x[self.real.y == c]) for c in range(self.classes)]
        images = self.images.chunk(self.classes)

        def match(steps: int, how: bare.Matching = HOW) -> Tensor:
            rng = generator("benchmark", "matching steps")
            return torch.cat(bare.match_class_by_class(net, start, real, images, steps, how, rng))

        return match


def plain_turn(case: Case) -> Callable[[], Tensor]:
    task = Task.of(case.problem, case.classes, case.records)
    start = network(case.model, case.problem, "eager").initial()
    match = task.by_hand(case.by_hand(), start, case.problem)
    return lambda: match(case.steps, HOW)


def measure(case: Case) -> list[Row]:
    with beside_us(plain_turn, case) as apart:
        return _rows(case, apart)


def _rows(case: Case, apart: Apart) -> list[Row]:
    task = Task.of(case.problem, case.classes, case.records)
    turns = {"plain loop": Turn(apart, case.steps), "plain loop, our heap": Turn(plain_turn(case), case.steps)}
    for path in case.paths:
        net = network(case.model, case.problem, path)
        began = time.perf_counter()
        task.ours(net, 1)
        print(f"  {case.model}: the first step on the path '{path}' took {time.perf_counter() - began:.1f} s")
        turns[path] = Turn(lambda net=net: task.ours(net, case.steps), case.steps)  # type: ignore[misc]
    take_turns(turns, 1)
    paces = take_turns(turns, case.turns)
    for name, pace in paces.items():
        print(f"  {case.model}, {name}: {pace.a_second:.3g} steps/s, quartiles {pace.spread:.0%} apart")
    speed = {name: pace.a_second for name, pace in paces.items()}
    found = []
    for path in case.paths:
        goal = GOAL if path == "compiled" else None
        for against, wanted in (("plain loop", goal), ("plain loop, our heap", None)):
            found.append(
                Row(f"FedDM on {case.model}: {path} / {against}", "steps/s", speed[path], speed[against], wanted)
            )
    return found


def rows() -> list[Row]:
    return [*measure(SMALL), *measure(CONVNET)]
