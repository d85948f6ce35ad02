"""FedDM's matching, steps a second: ours against a plain loop that takes one class after another."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks import bare
from benchmarks.report import Row
from benchmarks.timing import Turn, take_turns
from benchmarks.training import network
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.models.network import Network
from understudy.models.registry import FastPath
from understudy.randomness import generator
from understudy.studies.run import one_thread
from understudy.synthesis.matching import match_distributions

IPC = 10
HOW = bare.Matching(radius=5.0, real_batch=256, lr=1.0, momentum=0.5)
GOAL = 1.6


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


SMALL = Case(
    "small-convnet",
    Problem((1, 8, 8), 10),
    lambda: bare.convnet(1, 8, width=32, depth=2),
    ("eager", "compiled"),
    classes=10,
    steps=10,
    turns=15,
)
CONVNET = Case(
    "convnet",
    Problem((3, 32, 32), 10),
    lambda: bare.convnet(3, 32, width=128, depth=3),
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
            net.initial(),
            self.real,
            self.images,
            range(self.classes),
            radius=how.radius,
            steps=steps,
            real_size=how.real_batch,
            lr=how.lr,
            momentum=how.momentum,
            rng=generator("benchmark", "matching steps"),
        )

    def by_hand(self, net: bare.Net, start: Tensor, problem: Problem) -> Callable[[int, bare.Matching], Tensor]:
        """The records are scaled and put in order beforehand, as one does by hand."""
        real = [problem.scale(self.real.x[self.real.y == c]) for c in range(self.classes)]
        images = self.images.chunk(self.classes)

        def match(steps: int, how: bare.Matching = HOW) -> Tensor:
            rng = generator("benchmark", "matching steps")
            return torch.cat(bare.match_class_by_class(net, start, real, images, steps, how, rng))

        return match


def measure(case: Case) -> list[Row]:
    with one_thread():
        task = Task.of(case.problem, case.classes, case.records)
        nets = {path: network(case.model, case.problem, path) for path in case.paths}
        plain = task.by_hand(case.by_hand(), next(iter(nets.values())).initial(), case.problem)
        turns = {"plain loop": Turn(lambda: plain(case.steps, HOW), case.steps)}
        for path, net in nets.items():
            began = time.perf_counter()
            task.ours(net, 1)
            print(f"  {case.model}: the first step on the path '{path}' took {time.perf_counter() - began:.1f} s")
            turns[path] = Turn(lambda net=net: task.ours(net, case.steps), case.steps)  # type: ignore[misc]
        take_turns(turns, 1)
        paces = take_turns(turns, case.turns)
    for name, pace in paces.items():
        print(f"  {case.model}, {name}: {pace.a_second:.3g} steps/s, quartiles {pace.spread:.0%} apart")
    theirs = paces["plain loop"].a_second
    return [
        Row(
            f"FedDM on {case.model}: {path} / plain loop",
            "steps/s",
            paces[path].a_second,
            theirs,
            GOAL if path == "compiled" else None,
        )
        for path in case.paths
    ]


def rows() -> list[Row]:
    return [*measure(SMALL), *measure(CONVNET)]
