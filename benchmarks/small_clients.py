"""Many small clients: seconds per round of 50 out of 1000, each with 50 images of 28×28, one epoch in batches of 10.

W1 is a perceptron 784-64-10, W2 has two convolutions. Every contender has a process of its own with one thread, and
takes the same cohorts, batches and steps: they must end at the same weights. Understudy's contenders are whole runs,
files and ledger included. To add a contender, write a function like ``understudy_inline`` and list it.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.report import Row
from benchmarks.rounds_in_turn import in_turn
from benchmarks.timing import Apart, Turn, take_turns
from understudy.data.federation import Federation
from understudy.federation.cohorts import draw_cohort
from understudy.randomness import generator

SEED, CLIENTS, COHORT, RECORDS, BATCH, LR = 0, 1000, 50, 50, 10, 0.05
MEAN, STD = 0.29, 0.35
AS_CLOSE_AS = 1e-4  # weights of two contenders at the end
SAME_LOSS = 1e-3  # where weights differ by more than rounding


class Small(nn.Module):
    """A network as both sides use it."""

    def __init__(self, features: nn.Sequential, width: int):
        super().__init__()
        self.features, self.head = features, nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


def perceptron() -> Small:
    return Small(nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU()), 64)


def convolutions() -> Small:
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return Small(nn.Sequential(*layers, nn.Flatten()), 800)


@dataclass(frozen=True)
class Workload:
    name: str
    build: Callable[[], Small]
    rounds: int  # and as many turns
    goal: float  # of our pace against a bare loop's

    def network(self) -> Small:
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            return self.build()


W1 = Workload("W1", perceptron, rounds=30, goal=0.85)
W2 = Workload("W2", convolutions, rounds=12, goal=0.95)


def records() -> tuple[Tensor, Tensor]:
    rng = generator("small clients")
    x = torch.randint(256, (CLIENTS, RECORDS, 1, 28, 28), generator=rng, dtype=torch.uint8)
    return x, torch.randint(10, (CLIENTS, RECORDS), generator=rng)


def cohort(round: int) -> list[int]:
    """The clients that a run asks in this round."""
    drawn = draw_cohort([str(i) for i in range(CLIENTS)], COHORT, generator(SEED, round, "cohort"))
    return [int(name) for name in drawn]


def bare_loop(work: Workload, out: Path) -> Callable[[], None]:
    """What a researcher writes by hand, records scaled beforehand."""
    net, (x, y) = work.network(), records()
    scaled, round = x.float().div_(255).sub_(MEAN).div_(STD), 0

    def turn() -> None:
        nonlocal round
        round += 1
        orders = {who: order(round, who) for who in cohort(round)}
        net.load_state_dict(_mean_of_clients(net, scaled, y, orders))
        if round == work.rounds:
            save_file(net.state_dict(), out)

    return turn


def order(round: int, who: int) -> Tensor:
    return torch.randperm(RECORDS, generator=generator(SEED, round, f"client-{who}", "batches"))


def _mean_of_clients(net: Small, x: Tensor, y: Tensor, orders: Mapping[int, Tensor]) -> dict[str, Tensor]:
    start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    total = {name: torch.zeros_like(tensor) for name, tensor in start.items()}
    for who, order in orders.items():
        net.load_state_dict(start)
        optimiser = torch.optim.SGD(net.parameters(), lr=LR)
        for rows in torch.split(order, BATCH):
            optimiser.zero_grad()
            functional.cross_entropy(net(x[who][rows]), y[who][rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        for name, tensor in net.state_dict().items():
            total[name] += tensor
    return {name: tensor / len(orders) for name, tensor in total.items()}


def understudy_inline(work: Workload, out: Path) -> Callable[[], None]:
    return whole_run(work, out, {"name": "inline"})


def whole_run(work: Workload, out: Path, engine: dict[str, Any]) -> Callable[[], None]:
    x, y = records()
    sites = {f"client-{i}": (x[i].numpy(), y[i].numpy()) for i in range(CLIENTS)}
    test = (x[0, :10].numpy(), y[0, :10].numpy())  # so that rounds are scored, at next to no cost
    data = Federation.from_arrays(sites, test=test, classes=10, mean=(MEAN,), std=(STD,))
    local = {"epochs": 1, "batch": BATCH, "lr": LR}
    method = {"name": "fedavg", "rounds": work.rounds, "cohort": COHORT, "local": local}
    words = {"method": method, "engine": engine, "seed": SEED}
    turn = in_turn(out.with_suffix(""), words, data=data, model=work.network())

    def last_too() -> None:
        turn()
        if turn.result is None and _lines(out.with_suffix("")) > work.rounds:
            turn()  # the end of the run
            save_file(dict(load_file(out.with_suffix("") / "model.safetensors")), out)

    return last_too


def _lines(folder: Path) -> int:
    return (folder / "metrics.jsonl").read_bytes().count(b"\n")


Contender = Callable[[Workload, Path], Callable[[], None]]
CONTENDERS: dict[str, Contender] = {"bare loop": bare_loop, "inline": understudy_inline}


def measure(work: Workload) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        ends = {name: Path(folder) / f"{name.replace(' ', '-')}.safetensors" for name in CONTENDERS}
        apart = {name: Apart(make, work, ends[name]) for name, make in CONTENDERS.items()}
        try:
            paces = take_turns({name: Turn(turn, 1) for name, turn in apart.items()}, work.rounds)
        finally:
            for process in apart.values():
                process.close()
        check_same(work, {name: load_file(path) for name, path in ends.items()})
    for name, pace in paces.items():
        print(f"  {work.name}, {name}: {1 / pace.a_second:.3f} s per round, quartiles {pace.spread:.0%} apart")
    bare = paces.pop("bare loop").a_second
    return [
        Row(f"{work.name}: {name} / bare loop", "rounds/s", pace.a_second, bare, work.goal)
        for name, pace in paces.items()
    ]


def check_same(work: Workload, ends: Mapping[str, Mapping[str, Tensor]]) -> dict[str, float]:
    """The largest difference of a weight from the bare loop's, by contender. Rounding that falls on the other side of a
    kink of ReLU grows from round to round, so the same loss at the end will do, too."""
    expected, found = ends["bare loop"], {}
    for name, weights in ends.items():
        found[name] = max(float((weights[part] - expected[part]).abs().max()) for part in expected)
        losses = abs(_loss(work, weights) - _loss(work, expected))
        if found[name] > AS_CLOSE_AS and losses > SAME_LOSS:
            raise AssertionError(
                f"{work.name}: {name} ends {found[name]:.1e} away from the bare loop, with a loss {losses:.1e} away"
            )
    return found


def _loss(work: Workload, weights: Mapping[str, Tensor]) -> float:
    net, (x, y) = work.network(), records()
    net.load_state_dict(dict(weights))
    scaled = x[:20].flatten(0, 1).float().div_(255).sub_(MEAN).div_(STD)
    with torch.inference_mode():
        return float(functional.cross_entropy(net(scaled), y[:20].flatten()))


def rows() -> list[Row]:
    return [*measure(W1), *measure(W2)]
