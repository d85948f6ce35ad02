"""Private gradients a second: every record's gradient clipped over all parameters, and summed.

Ours against Opacus' default hooks, with the same layers, records and clip. Opacus runs in this process, with our heap
(`understudy.heap`), and in a process of its own, as a script has it; the goal is for the harder of the two.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import vector_to_parameters

from benchmarks.report import Row
from benchmarks.timing import Apart, Turn, beside_us, take_turns
from benchmarks.training import CONVNET, SIMPLE, network, random_images
from understudy.data.problem import Problem
from understudy.models.network import Network
from understudy.models.zoo import FastPath, entry
from understudy.privacy.gradients import clipped_gradient_sum

CLIP = 1.0
GOAL = 1.5


@dataclass(frozen=True)
class Case:
    model: str
    problem: Problem
    paths: tuple[FastPath, ...]  # the last one is what the network declares for long runs
    batch: int
    turns: int


CASES = (
    Case(SIMPLE.model, SIMPLE.problem, ("eager", "channels-last"), batch=256, turns=24),
    Case(CONVNET.model, CONVNET.problem, ("eager", "compiled"), batch=64, turns=10),
)


def opacus_turn(case: Case) -> Callable[[], list[Tensor]]:
    """Their gradients of single records, clipped and summed as their optimiser does."""
    from opacus.grad_sample import GradSampleModule

    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    chosen, start = entry(case.model), network(case.model, case.problem, "eager").initial()
    module = chosen.build(case.problem, chosen.settings())
    vector_to_parameters(start, module.parameters())
    hooked = GradSampleModule(module)
    records = random_images(case.problem, case.batch, "private")
    x, y = case.problem.scale(records.x), records.y

    def turn() -> list[Tensor]:
        hooked.zero_grad()
        functional.cross_entropy(hooked(x), y, reduction="sum").backward()  # type: ignore[no-untyped-call]
        each = [p.grad_sample for p in hooked.parameters()]
        norms = torch.stack([g.flatten(1).norm(2, dim=1) for g in each], dim=1).norm(2, dim=1)
        factors = (CLIP / (norms + 1e-6)).clamp(max=1.0)
        return [torch.einsum("i,i...", factors, g) for g in each]

    return turn


def our_turn(case: Case, net: Network) -> Callable[[], Tensor]:
    records = random_images(case.problem, case.batch, "private")
    return lambda: clipped_gradient_sum(net, records.x, records.y, CLIP)


def in_double(case: Case) -> Tensor:
    """What both should give: one record after another, in double precision, with torch's own backward pass."""
    chosen, start = entry(case.model), network(case.model, case.problem, "eager").initial()
    module = chosen.build(case.problem, chosen.settings())
    vector_to_parameters(start, module.parameters())
    module.double()
    records = random_images(case.problem, case.batch, "private")
    total = torch.zeros(start.numel(), dtype=torch.float64)
    for x, y in zip(case.problem.scale(records.x).double(), records.y, strict=True):
        logits = module.head(module.features(x[None]))  # type: ignore[operator]
        slope = torch.autograd.grad(functional.cross_entropy(logits, y[None]), list(module.parameters()))
        whole = torch.cat([part.reshape(-1) for part in slope])
        total += whole * min(1.0, CLIP / float(whole.norm()))
    return total


def _off(found: Tensor, true: Tensor) -> float:
    return float((found.double() - true).norm() / true.norm())


def measure(case: Case) -> list[Row]:
    with beside_us(opacus_turn, case) as apart:
        return _rows(case, apart)


def _rows(case: Case, apart: Apart) -> list[Row]:
    here = opacus_turn(case)
    true = in_double(case)
    theirs = torch.cat([part.reshape(-1) for part in here()])
    print(f"  {case.model}, Opacus: {_off(theirs, true):.1e} from the same in double precision, record by record")
    turns = {"Opacus alone": Turn(apart, case.batch), "Opacus, our heap": Turn(here, case.batch)}
    for path in case.paths:
        ours = our_turn(case, network(case.model, case.problem, path))
        began = time.perf_counter()
        off = _off(ours(), true)
        took = time.perf_counter() - began
        print(f"  {case.model}, {path}: {off:.1e} from it; the first batch took {took:.1f} s")
        turns[path] = Turn(ours, case.batch)
    take_turns(turns, 2)
    paces = take_turns(turns, case.turns)
    for name, pace in paces.items():
        print(f"  {case.model}, {name}: {pace.a_second:.0f} gradients/s, quartiles {pace.spread:.0%} apart")
    return [
        Row(
            f"Private gradients on {case.model}: {path} / {name}",
            "gradients/s",
            paces[path].a_second,
            paces[name].a_second,
            GOAL if path == case.paths[-1] else None,
        )
        for path in case.paths
        for name in ("Opacus, our heap", "Opacus alone")
    ]


def rows() -> list[Row]:
    return [row for case in CASES for row in measure(case)]
