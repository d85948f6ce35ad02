"""FedLAP's gradient matching, image steps a second: ours against a plain double-backward loop.

Both are given one real gradient and take a real batch's five image steps towards it, without augmentation and with our
heap (`understudy.heap`); the plain loop is what one writes with `create_graph=True`, module and optimiser of torch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import vector_to_parameters

from benchmarks import bare
from benchmarks.report import Row
from benchmarks.timing import Turn, take_turns
from benchmarks.training import network
from understudy.data.problem import Problem
from understudy.heap import keep_freed_memory
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.gradient_matching import Criterion, MovingImages, Target, match_gradient
from understudy.synthesis.pullback import weight_gradient
from understudy.threads import one_thread

STEPS, LR, MOMENTUM = 5, 100.0, 0.5
FEDLAP = Criterion(rows="mean", mse=0.1)
GOAL = 1.3


@dataclass(frozen=True)
class Case:
    model: str
    problem: Problem
    by_hand: Callable[[], bare.Net]
    images: int
    turns: int


CONVNET = Case("convnet", Problem((3, 32, 32), 10), lambda: bare.convnet(3, 32, width=128, depth=3), images=20, turns=9)
SMALL = Case(
    "small-convnet", Problem((1, 14, 14), 10), lambda: bare.convnet(1, 14, width=32, depth=2), images=100, turns=25
)


@dataclass(frozen=True)
class Task:
    """First images, their labels and a real gradient, the same for both sides."""

    x: Tensor
    y: Tensor
    real: Tensor

    @classmethod
    def of(cls, net: Network, images: int) -> "Task":
        rng = generator("benchmark", "gradient matching")
        x, records = (torch.randn(n, *net.problem.shape, generator=rng) for n in (images, 64))
        real, _ = weight_gradient(net, records, torch.arange(64) % net.problem.classes)
        return cls(x, torch.arange(images) % net.problem.classes, real)

    def ours(self, net: Network, criterion: Criterion = FEDLAP, lr: float = LR) -> Tensor:
        images = MovingImages(self.x, self.y, lr=lr, momentum=MOMENTUM)
        match_gradient(net, images, Target(net, self.real, criterion), steps=STEPS)
        return images.x

    def plain(self, net: bare.Net, criterion: Criterion = FEDLAP, lr: float = LR) -> Tensor:
        weights = list(net.parameters())
        sizes = [w.numel() for w in weights]
        real = [part.view_as(w) for part, w in zip(torch.split(self.real, sizes), weights, strict=True)]
        x = self.x.clone().requires_grad_()
        optimiser = torch.optim.SGD([x], lr=lr, momentum=MOMENTUM)
        for _ in range(STEPS):
            made = torch.autograd.grad(functional.cross_entropy(net(x), self.y), weights, create_graph=True)
            distance = sum(_distance(a, b, criterion) for a, b in zip(made, real, strict=True))
            (x.grad,) = torch.autograd.grad(distance, x)  # type: ignore[arg-type]
            optimiser.step()
        return x.detach()


def _distance(made: Tensor, real: Tensor, criterion: Criterion) -> Tensor:
    squares: Tensor = (made - real).square().sum() * criterion.mse
    if criterion.rows == "sum":
        if made.ndim == 1:
            return squares
        a, b = made.flatten(1), real.flatten(1)
        angles: Tensor = (1 - (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1) + 1e-6)).sum()
        return squares + angles
    a, b = (g.flatten(1) if g.ndim > 1 else g.view(1, -1) for g in (made, real))
    a, b = (rows / (rows.norm(dim=1, keepdim=True) + 1e-8) for rows in (a, b))
    angles = (1 - (a * b).sum(1)).mean()
    return squares + angles


def by_hand(case: Case, net: Network) -> bare.Net:
    plain = case.by_hand()
    vector_to_parameters(net.initial(), plain.parameters())
    return plain


def measure(case: Case) -> Row:
    keep_freed_memory()
    with one_thread():
        net = network(case.model, case.problem, "eager")
        task, plain = Task.of(net, case.images), by_hand(case, net)
        turns = {"ours": Turn(lambda: task.ours(net), STEPS), "plain loop": Turn(lambda: task.plain(plain), STEPS)}
        take_turns(turns, 1)
        paces = take_turns(turns, case.turns)
    for name, pace in paces.items():
        print(f"  {case.model}, {name}: {pace.a_second:.3g} steps/s, quartiles {pace.spread:.0%} apart")
    ours, theirs = (paces[name].a_second for name in ("ours", "plain loop"))
    return Row(f"FedLAP on {case.model}: ours / plain double backward", "steps/s", ours, theirs, GOAL)


def rows() -> list[Row]:
    return [measure(SMALL), measure(CONVNET)]
