"""One epoch of the diffusion generator's `tiny` preset: ours against the loop that one writes with torch.

The same U-Net from the same weights, the same records, AdamW and average of the weights; both with our heap
(`understudy.heap`), and the plain loop also in a process of its own, as a script has it.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.report import Row
from benchmarks.timing import Apart, Turn, beside_us, take_turns
from benchmarks.training import random_images
from understudy.data.problem import Problem
from understudy.randomness import generator, private_global_stream
from understudy.synthesis.diffusion.network import Frame, build
from understudy.synthesis.diffusion.schedule import remaining
from understudy.synthesis.diffusion.settings import DiffusionSettings
from understudy.synthesis.diffusion.training import FramedRecords, train

TINY = DiffusionSettings(epochs=1, least_steps=0, weights="ema")
PROBLEMS = (Problem((1, 8, 8), 10), Problem((1, 28, 28), 10))
RECORDS, TURNS, GOAL = 96, 16, 0.9


def network(problem: Problem) -> nn.Module:
    with private_global_stream("benchmark"):
        return build(TINY, _frame(problem), problem.classes)


def _frame(problem: Problem) -> Frame:
    return Frame(problem, len(TINY.multipliers), TINY.full_size)


def records(problem: Problem) -> FramedRecords:
    own, frame = random_images(problem, RECORDS, "diffusion"), _frame(problem)
    return FramedRecords(frame.put_on(own.x.float()) / 127.5 - 1, own.y, frame)


def our_epoch(net: nn.Module, own: FramedRecords, rng: torch.Generator) -> dict[str, Tensor]:
    ((_, weights),) = train(net, own, TINY, rng)
    return weights


def plain_epoch(net: nn.Module, x: Tensor, y: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
    kept, average = remaining(), copy.deepcopy(net).requires_grad_(False)
    adam = torch.optim.AdamW(net.parameters(), lr=TINY.lr, weight_decay=TINY.decay, fused=True)
    for step, rows in enumerate(torch.split(torch.randperm(len(x), generator=rng), TINY.batch), start=1):
        t = torch.randint(len(kept), (len(rows),), generator=rng)
        noise = torch.randn(len(rows), *x.shape[1:], generator=rng)
        a = kept[t].view(-1, 1, 1, 1)
        velocity = a.sqrt() * noise - (1 - a).sqrt() * x[rows]
        loss = functional.mse_loss(net(a.sqrt() * x[rows] + (1 - a).sqrt() * noise, t, y[rows]).sample, velocity)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        for mean, now in zip(average.parameters(), net.parameters(), strict=True):
            mean.lerp_(now.detach(), 1 - min(TINY.ema, (1 + step) / (10 + step)))
    return dict(average.named_parameters())


def plain_turn(problem: Problem) -> Callable[[], object]:
    net, own = network(problem), records(problem)
    return lambda: plain_epoch(net, own.x, own.y, generator("epoch"))


def measure(problem: Problem) -> list[Row]:
    with beside_us(plain_turn, problem) as apart:
        return _rows(problem, apart)


def _rows(problem: Problem, apart: Apart) -> list[Row]:
    net, own = network(problem), records(problem)
    turns = {
        "ours": Turn(lambda: our_epoch(net, own, generator("epoch")), RECORDS),
        "plain loop, our heap": Turn(plain_turn(problem), RECORDS),
        "plain loop": Turn(apart, RECORDS),
    }
    take_turns(turns, 1)
    paces = take_turns(turns, TURNS)
    side = f"{problem.shape[1]}×{problem.shape[2]}"
    for name, pace in paces.items():
        print(f"  diffusion at {side}, {name}: {pace.a_second:.0f} samples/s, quartiles {pace.spread:.0%} apart")
    return [
        Row(f"Diffusion, tiny at {side}: ours / {name}", "samples/s", paces["ours"].a_second, pace.a_second, GOAL)
        for name, pace in paces.items()
        if name != "ours"
    ]


def rows() -> list[Row]:
    return [row for problem in PROBLEMS for row in measure(problem)]
