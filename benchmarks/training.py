"""Samples a second in one round of federated averaging: ten clients of 500 images, one epoch in batches of 64.

A bare loop in a process of its own, and rounds of real runs (messages, tasks, sums, ledger, checkpoint, score) with the
same kernels, on the path that the network declares, and with two workers. Understudy keeps freed memory
(`understudy.heap`), which a plain script does not; a bare loop that has this from us is measured beside.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import bare
from benchmarks.report import Row
from benchmarks.rounds_in_turn import in_turn
from benchmarks.timing import Apart, Turn, take_turns
from understudy.data.examples import Examples
from understudy.data.federation import Federation, Holding
from understudy.data.problem import Problem
from understudy.federation.exchange import Engine
from understudy.federation.running import RunFacts, RunServer
from understudy.federation.site import Site
from understudy.heap import keep_freed_memory
from understudy.learning.local import Local
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.models.network import Network
from understudy.models.zoo import FastPath, entry
from understudy.randomness import generator
from understudy.threads import one_thread

SEED, LR = 0, 0.05


@dataclass(frozen=True)
class Case:
    model: str
    problem: Problem
    by_hand: Callable[[], bare.Net]
    records: int = 500
    clients: int = 10
    batch: int = 64
    a_turn: int = 10  # clients that one turn asks
    turns: int = 24


def convnet_by_hand() -> bare.Net:
    return bare.convnet(3, 32, width=128, depth=3)


SIMPLE = Case("simple-cnn", Problem((1, 28, 28), 10, mean=(0.29,), std=(0.35,)), bare.simple_cnn)
CONVNET = Case(
    "convnet",
    Problem((3, 32, 32), 10, mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26)),
    convnet_by_hand,
    a_turn=2,  # a slow network: two of the ten clients fill a turn
    turns=6,
)


def network(model: str, problem: Problem, fast: FastPath) -> Network:
    chosen = entry(model)
    return Network(lambda: chosen.build(problem, chosen.settings()), problem, seed=SEED, fast=fast)


def random_images(problem: Problem, records: int, *words: str | int) -> Examples:
    rng = generator("benchmark", *words)
    x = torch.randint(256, (records, *problem.shape), generator=rng, dtype=torch.uint8)
    return Examples(x, torch.randint(problem.classes, (records,), generator=rng))


class Ours:
    """One round after another from the same weights, through server, engine and sites."""

    def __init__(
        self,
        case: Case,
        net: Network,
        engine: Callable[[dict[str, Site], Averaging], Engine],
        home: Path,
        method: Averaging | None = None,
    ):
        self.method = method or Averaging(AveragingSettings(local=local_training(case)))
        self.method.bind(net, rounds=1000)
        sites = {name: Site(name, Holding(own, own.none()), home / name, SEED, "") for name, own in holdings(case)}
        self.engine = engine(sites, self.method)
        self.server = RunServer(
            self.engine,
            self.method,
            list(sites),
            RunFacts("bench", "", SEED, case.a_turn, case.a_turn, score_at_clients=False, held_out={}),
        )
        self.state = self.method.start(self.server)

    def round(self) -> Tensor:
        self.server.begin(self.server.round + 1)
        after = self.method.round(self.server, self.state)
        self.server.check_replies()
        self.server.commit()
        return after["model"]


def local_training(case: Case) -> Local:
    return Local(epochs=1, batch=case.batch, lr=LR)


def holdings(case: Case) -> list[tuple[str, Examples]]:
    return [(f"client-{i}", random_images(case.problem, case.records, case.model, i)) for i in range(case.clients)]


def bare_round(case: Case, net: bare.Net, start: Tensor, number: int, who: list[str]) -> Callable[[], Tensor]:
    """The same records in the same batches as round ``number`` has at these clients."""
    own = dict(holdings(case))
    parts = [(case.problem.scale(own[name].x), own[name].y) for name in who]

    def turn() -> Tensor:
        orders = [
            torch.randperm(len(y), generator=generator(SEED, number, name, "batches"))
            for name, (_, y) in zip(who, parts, strict=True)
        ]
        return bare.federated_round(net, start, parts, orders, batch=case.batch, lr=LR)

    return turn


def bare_turn(case: Case, who: list[str]) -> Callable[[], Tensor]:
    start = network(case.model, case.problem, "eager").initial()
    return bare_round(case, case.by_hand(), start, 1, who)


def whole_run(case: Case, fast: FastPath, engine: dict[str, Any], home: Path) -> Callable[[], None]:
    """Round after round of a real run: folder, ledger, checkpoint and a score of ten images are in it."""
    sites = {name: (own.x.numpy(), own.y.numpy()) for name, own in holdings(case)}
    x, y = next(iter(sites.values()))
    p, test = case.problem, (x[:10], y[:10])
    data = Federation.from_arrays(sites, test=test, classes=p.classes, mean=p.mean, std=p.std)
    method = {"name": "fedavg", "rounds": 10_000, "cohort": case.a_turn}
    local = {"epochs": 1, "batch": case.batch, "lr": LR}
    model = {"name": case.model, "fast": fast}
    words = {"method": {**method, "local": local}, "model": model, "engine": engine, "seed": SEED}
    return in_turn(home, words, data=data)


def measure(case: Case) -> list[Row]:
    who = [f"client-{i}" for i in range(case.a_turn)]
    inline, workers = {"name": "inline"}, {"name": "workers", "workers": 2}
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder, one_thread():
        home, fast = Path(folder), entry(case.model).fast
        apart = {
            "bare": Apart(bare_turn, case, who),
            "beside": Apart(bare_turn, case, who),
            "eager": Apart(whole_run, case, "eager", inline, home / "eager"),
            "fast": Apart(whole_run, case, fast, inline, home / "fast"),
            "workers": Apart(whole_run, case, fast, workers, home / "workers", has_workers=True),
        }
        try:
            began = time.perf_counter()
            apart["fast"]()
            print(f"  {case.model}: the first round on the path '{fast}' took {time.perf_counter() - began:.1f} s")
            return _rows(case, apart, bare_turn(case, who))
        finally:
            for process in apart.values():
                process.close()


def _rows(case: Case, apart: Mapping[str, Apart], with_our_heap: Callable[[], Tensor]) -> list[Row]:
    alone, beside = apart["bare"], apart["beside"]

    def both() -> None:
        alone.begin()
        beside()
        alone.end()

    contenders: dict[str, Callable[[], object]] = {
        "bare": alone,
        "two bare loops": both,
        "bare, our heap": with_our_heap,
        **{name: apart[name] for name in ("eager", "fast", "workers")},
    }
    turns = {name: Turn(work, case.a_turn * case.records) for name, work in contenders.items()}
    turns["two bare loops"] = Turn(both, 2 * case.a_turn * case.records)
    take_turns(turns, 1)
    paces = take_turns(turns, case.turns)
    for name, pace in paces.items():
        print(f"  {case.model}, {name}: {pace.a_second:.0f} samples/s, quartiles {pace.spread:.0%} apart")
    speed = {name: pace.a_second for name, pace in paces.items()}
    quick_pace = speed["fast"]
    return [
        Row(
            f"{case.model}: eager / bare loop with our heap", "samples/s", speed["eager"], speed["bare, our heap"], 0.95
        ),
        Row(f"{case.model}: eager / bare loop", "samples/s", speed["eager"], speed["bare"], 0.95),
        Row(
            f"{case.model}: fast path / bare loop with our heap", "samples/s", quick_pace, speed["bare, our heap"], None
        ),
        Row(f"{case.model}: fast path / bare loop", "samples/s", quick_pace, speed["bare"], 1.5),
        Row(f"{case.model}: two bare loops at once / one", "samples/s", speed["two bare loops"], speed["bare"], None),
        Row(f"{case.model}: two workers / one", "samples/s", speed["workers"], quick_pace, 1.75),
    ]


def rows() -> list[Row]:
    return [*measure(SIMPLE), *measure(CONVNET)]
