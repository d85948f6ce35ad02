"""Us and other frameworks on many small clients, in one run: a bare loop, a bare `vmap`, the batched step of
`understudy.learning.together` with nothing around it, FedJAX and pfl-research.

The workloads are those of `benchmarks.small_clients`. FedJAX and pfl-research come from PyPI into an environment of
their own, made once (``--env FOLDER``, by default in the user's cache), and train on the same records in the same order
from the same weights, one thread each. Everybody must end at the same weights.
"""

import json
import os
import subprocess
import tempfile
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from benchmarks import small_clients as small
from benchmarks.report import Row
from benchmarks.small_clients import W1, W2, Workload, whole_run
from benchmarks.timing import Apart, Pace, Turn, take_turns
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.heap import keep_freed_memory
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed
from understudy.learning.together.program import program_for
from understudy.learning.together.stacking import Exercise
from understudy.learning.together.training import train_together
from understudy.models.network import Network

PEERS = ("fedjax==0.0.17", "jax==0.10.2", "pfl==0.6.0")  # FedJAX needs `jax.tree_map` put back, see its script
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
SCRIPTS = Path(__file__).parent / "peer_scripts"
ENV = "UNDERSTUDY_PEERS_ENV"  # set by --env
EPOCHS = 1
TOGETHER = {"W1": 13, "W2": 5}  # clients per group, measured
GOALS: dict[str, dict[str, float | None]] = {
    "W1": {"pfl-research": 4.0, "FedJAX": 1.7},
    "W2": {"pfl-research": None, "FedJAX": 1.2},
}
TWO_WORKERS = 1.8  # times one process


def environment() -> Path:
    """The peers' Python, installed if it is not there yet."""
    folder = Path(os.environ.get(ENV) or Path.home() / ".cache" / "understudy" / "peers")
    python, done = folder / "bin" / "python", folder / "installed.txt"
    wanted = [*PEERS, f"torch=={torch.__version__}"]
    if not done.exists() or done.read_text().split() != wanted:
        print(f"  installing {', '.join(wanted)} into {folder}", flush=True)
        venv.create(folder, with_pip=True)
        install: list[str | Path] = [python, "-m", "pip", "install", "-q"]
        if subprocess.run([*install, *wanted], capture_output=True).returncode:  # torch for processors is elsewhere
            subprocess.run([*install, "--extra-index-url", CPU_WHEELS, *wanted], check=True)
        done.write_text("\n".join(wanted))
    return python


class Contender(Protocol):
    worked: list[float]

    def __call__(self) -> None: ...

    def close(self) -> None: ...


class Foreign:
    """A script in the peers' environment."""

    def __init__(self, python: Path, script: str, folder: Path, end: Path):
        self._errors = (folder / f"{script}.txt").open("w+")
        given = [python, SCRIPTS / script, folder, end]
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(given, stdin=pipe, stdout=pipe, stderr=self._errors, text=True, env=alone)
        self.versions: dict[str, str] = self._told()["versions"]
        self.worked: list[float] = []  # seconds of the processor, turn by turn
        self.threads: list[float] = []  # how many threads worked

    def __call__(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        told = self._told()
        self.worked.append(told["worked"])
        self.threads.append(told["worked"] / told["seconds"])

    def _told(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        self._errors.seek(0)
        raise RuntimeError(f"a peer stopped:\n{self._errors.read()[-2000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._errors.close()


def write_workload(work: Workload, folder: Path) -> None:
    """For scripts that know nothing of ours."""
    x, y = small.records()
    rounds = range(1, work.rounds + 1)
    cohorts = [small.cohort(round) for round in rounds]
    orders = [
        [small.order(round, who).numpy() for who in cohort] for round, cohort in zip(rounds, cohorts, strict=True)
    ]
    np.savez(folder / "records.npz", x=x.numpy(), y=y.numpy(), cohorts=np.array(cohorts), orders=np.array(orders))
    np.savez(folder / "first.npz", **{name: tensor.numpy() for name, tensor in work.network().state_dict().items()})
    told = {"name": work.name, "rounds": work.rounds, "batch": small.BATCH, "lr": small.LR, "epochs": EPOCHS}
    (folder / "workload.json").write_text(json.dumps({**told, "mean": small.MEAN, "std": small.STD}))


def bare_vmap(work: Workload, out: Path) -> Callable[[], None]:
    """What a researcher who knows `torch.func` writes by hand: the cohort as one stack of weights."""
    net, (x, y) = work.network(), small.records()
    scaled = x.float().div_(255).sub_(small.MEAN).div_(small.STD)
    weights, round = {name: p.detach().clone() for name, p in net.named_parameters()}, 0

    def loss(w: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(net, dict(w), (x,)), y)

    slope = vmap(grad(loss))

    def turn() -> None:
        nonlocal round, weights
        round += 1
        cohort = small.cohort(round)
        orders = torch.stack([small.order(round, who) for who in cohort])
        who = torch.tensor(cohort)[:, None]
        stacked = {name: w.expand(len(cohort), *w.shape).clone() for name, w in weights.items()}
        for rows in torch.split(orders, small.BATCH, 1):
            found = slope(stacked, scaled[who, rows], y[who, rows])
            for name, w in stacked.items():
                w.sub_(found[name], alpha=small.LR)
        weights = {name: w.mean(0) for name, w in stacked.items()}
        if round == work.rounds:
            save_file({name: w.contiguous() for name, w in weights.items()}, out)

    return turn


def bare_batched_step(work: Workload, out: Path) -> Callable[[], None]:
    """Our batched program, and nothing else: no requests, replies, checks, ledger or files. What remains between this
    and "together" is the price of a federation; no run on this machine gets below it."""
    problem = Problem((1, 28, 28), 10, mean=(small.MEAN,), std=(small.STD,))
    net, (x, y) = Network(work.network, problem, seed=small.SEED), small.records()
    program, descent = program_for(net), Descent(Local(epochs=EPOCHS, batch=small.BATCH, lr=small.LR))
    assert not isinstance(program, str)
    keep_freed_memory()
    w, round = net.initial(), 0

    def turn() -> None:
        nonlocal round, w
        round += 1
        cohort, total = small.cohort(round), torch.zeros_like(w)
        for at in range(0, len(cohort), TOGETHER[work.name]):
            some = cohort[at : at + TOGETHER[work.name]]
            feeds = [Feed(Examples(x[who], y[who]), small.order(round, who).view(-1, small.BATCH)) for who in some]
            trained = train_together(net, program, [Exercise(w, feed, descent, small.RECORDS) for feed in feeds])
            total += torch.stack([one.model for one in trained]).sum(0)
        w = total / len(cohort)
        if round == work.rounds:
            save_file({name: tensor.contiguous() for name, tensor in net.named(w).items()}, out)

    return turn


def together(work: Workload, out: Path) -> Callable[[], None]:
    return whole_run(work, out, {"name": "inline", "together": TOGETHER[work.name]})


def two_workers(work: Workload, out: Path) -> Callable[[], None]:
    return whole_run(work, out, {"name": "workers", "workers": 2, "together": TOGETHER[work.name]})


OURS = {
    "bare loop": small.bare_loop,
    "bare vmap": bare_vmap,
    "bare batched step": bare_batched_step,
    "Understudy, inline": small.understudy_inline,
    "Understudy, together": together,
    "Understudy, together, two workers": two_workers,
}
THEIRS = {"FedJAX": "fedjax_rounds.py", "pfl-research": "pfl_rounds.py"}


def measure(work: Workload, python: Path) -> list[Row]:
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        write_workload(work, folder)
        ends = {name: folder / f"end-{at}.safetensors" for at, name in enumerate([*OURS, *THEIRS])}
        peers = {name: Foreign(python, script, folder, ends[name]) for name, script in THEIRS.items()}
        running: dict[str, Contender] = {**peers}
        for name, make in OURS.items():
            running[name] = Apart(make, work, ends[name], has_workers="workers" in name)
        try:
            paces = take_turns({name: Turn(turn, 1) for name, turn in running.items()}, work.rounds)
        finally:
            for one in running.values():
                one.close()
        apart = _how_far_apart(work, ends)
    worked = {name: min(one.worked) for name, one in running.items()}
    _print(work, paces, worked, apart, peers)
    return _rows(work, paces)


def _how_far_apart(work: Workload, ends: Mapping[str, Path]) -> dict[str, float]:
    """The largest difference of a weight at the end, from the bare loop's."""
    return small.check_same(work, {name: _weights(path) for name, path in ends.items()})


def _weights(path: Path) -> dict[str, Tensor]:
    numpys = path.with_name(f"{path.name}.npz")  # as numpy calls it
    if numpys.exists():
        return {name: torch.from_numpy(array) for name, array in np.load(numpys).items()}
    return dict(load_file(path))


def _print(
    work: Workload,
    paces: Mapping[str, Pace],
    worked: Mapping[str, float],
    apart: Mapping[str, float],
    peers: Mapping[str, Foreign],
) -> None:
    versions = {name: version for peer in peers.values() for name, version in peer.versions.items()}
    print(f"  {work.name}, after {work.rounds} rounds; {', '.join(f'{n} {v}' for n, v in versions.items())}")
    # The processor's seconds tell more on a busy machine; those of worker processes are not among them.
    print("  | | seconds per round | quartiles apart | least seconds of the processor | weights differ by |")
    print("  |---|--:|--:|--:|--:|")
    for name, pace in paces.items():
        print(f"  | {name} | {1 / pace.a_second:.4f} | {pace.spread:.0%} | {worked[name]:.4f} | {apart[name]:.0e} |")
    for name, peer in peers.items():
        middle = sorted(peer.threads)[len(peer.threads) // 2]
        if middle > 1.2:
            print(f"  {name} kept {middle:.1f} threads busy, so it had more than one")


def _rows(work: Workload, paces: Mapping[str, Pace]) -> list[Row]:
    rate = {name: pace.a_second for name, pace in paces.items()}
    ours, spread = rate["Understudy, together"], rate["Understudy, together, two workers"]
    against = {
        **GOALS[work.name],
        **dict.fromkeys(("bare batched step", "bare vmap", "bare loop", "Understudy, inline")),
    }
    rows = [
        Row(f"{work.name}: together / {peer}", "rounds/s", ours, rate[peer], goal) for peer, goal in against.items()
    ]
    return [*rows, Row(f"{work.name}: two workers / one process", "rounds/s", spread, ours, TWO_WORKERS)]


def rows() -> list[Row]:
    python = environment()
    return [row for work in (W1, W2) for row in measure(work, python)]
