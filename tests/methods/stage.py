"""A federation small enough to check by hand: clients in this process, networks of a few numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.federation import registry
from understudy.federation.client import Client, Memory
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task_name
from understudy.federation.server import Brief, Reply, Server, Task
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.randomness import generator, private_global_stream

SEED = 0
torch.set_num_threads(1)  # as every run does: small work is quicker so, and two threads give other bits


class Stage(Server):
    """Runs tasks directly. Every message goes through its bytes, so that their number can be checked, and only
    declared parts leave; memories step back where a reply was refused."""

    def __init__(self, method: Method, own: Mapping[str, Examples], cohorts: Sequence[Sequence[str]] = ()):
        self.method, self.own, self.cohorts = method, own, cohorts
        self.clients, self.round = list(own), 0
        self.memories: dict[str, Memory] = {name: Memory({}) for name in own}
        self.briefs: list[tuple[int, str, Message]] = []
        self.replies: list[tuple[int, str, Message]] = []
        self.absent: set[str] = set()  # they do not answer
        self.left_out: dict[str, str] = {}  # for good, and why
        self._streams: dict[str, torch.Generator] = {}

    def cohort(self) -> list[str]:
        return list(self.cohorts[self.round - 1]) if self.cohorts else list(self.clients)

    def leave_out(self, client: str, why: str) -> None:
        self.left_out[client] = why

    def rng(self, purpose: str) -> torch.Generator:
        if purpose not in self._streams:
            self._streams[purpose] = generator(SEED, self.round, "server", purpose)
        return self._streams[purpose]

    def client(self, name: str, round: int | None = None) -> Client:
        own, memory = self.own[name], Memory(dict(self.memories[name]))
        at = self.round if round is None else round
        return Client(name, at, own=own, held_out=own.none(), memory=memory, seed=SEED)

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        job = self.method.jobs()[task_name(task)]
        for name in to:
            if name in self.absent or name in self.left_out:
                continue
            sent = Message.from_bytes((brief if isinstance(brief, Message) else brief(name)).to_bytes())
            self.briefs.append((self.round, name, sent))
            client = self.client(name)
            with private_global_stream(SEED, self.round, name, job.name):
                message = Message.from_bytes(job.work(client, sent).to_bytes())
            assert set(message) <= set(job.kinds), "an undeclared part would leave"
            self.replies.append((self.round, name, message))
            reply = Reply(name, message, lambda why: None)
            yield reply
            if reply.refusal is None:
                self.memories[name] = client.memory

    def begin(self, round: int) -> None:
        self.round, self._streams = round, {}

    def play(self, rounds: int) -> State:
        """The opening and so many rounds."""
        state = self.method.start(self)
        for round in range(1, rounds + 1):
            self.begin(round)
            state = self.method.round(self, state)
        return state


def settings_of(name: str, **words: object) -> Any:
    """Of the method by that name, whose class may be made of those of its parts."""
    return registry.entry(name, "method").settings.model_validate(words)


def bound(method: Method, net: Network, rounds: int = 10) -> Method:
    method.bind(net, rounds)
    return method


def play(
    method: Method,
    net: Network,
    own: Mapping[str, Examples],
    rounds: int,
    cohorts: Sequence[Sequence[str]] = (),
) -> State:
    return Stage(bound(method, net, rounds), own, cohorts).play(rounds)


# ---- records


def records(x: Sequence[float] | Sequence[Sequence[float]], y: Sequence[int]) -> Examples:
    """Float records; a plain number is a record of one feature."""
    rows = torch.tensor(x, dtype=torch.float32)
    return Examples(rows.view(len(y), -1), torch.tensor(y, dtype=torch.int64))


def cloud(name: str, n: int, *, features: int = 3, classes: int = 3) -> Examples:
    """Records without any meaning."""
    rng = generator("cloud", name)
    return Examples(torch.randn(n, features, generator=rng), torch.randint(classes, (n,), generator=rng))


def pictures(labels: Sequence[int], *, channels: int = 1, side: int = 4, name: str = "pictures") -> Examples:
    x = torch.randint(256, (len(labels), channels, side, side), generator=generator(name), dtype=torch.uint8)
    return Examples(x, torch.tensor(labels, dtype=torch.int64))


# ---- networks


class _CoinHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.w * x, torch.zeros_like(x)], 1)


class Body(nn.Module):
    """``features`` are those of a given body."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x)
        return found


def coin() -> Network:
    """One parameter w, from 0: class 0 has probability σ(w·x). The loss has the slope (σ(w·x) − [y=0])·x."""
    return Network(lambda: Body(nn.Identity(), _CoinHead()), Problem(shape=(1,), classes=2))


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def softmax_net(features: int = 3, classes: int = 3) -> Network:
    """Softmax regression: W (classes × features) row by row, then b."""
    problem, chosen = Problem(shape=(features,), classes=classes), entry("softmax")
    return Network(lambda: chosen.build(problem, chosen.settings()), problem)


def image_net(classes: int = 3, *, channels: int = 1, side: int = 4, dropout: float = 0.0) -> Network:
    """A hidden layer over uint8 pictures."""
    size = channels * side * side

    def build() -> nn.Module:
        body = nn.Sequential(nn.Flatten(), nn.Linear(size, 6), nn.Tanh(), nn.Dropout(dropout))
        return Body(body, nn.Linear(6, classes))

    return Network(build, Problem(shape=(channels, side, side), classes=classes))


def batchnorm_net(features: int = 3, classes: int = 3) -> Network:
    """Four features with running statistics: eight numbers in the buffers."""

    def build() -> nn.Module:
        body = nn.Sequential(nn.Linear(features, 4), nn.BatchNorm1d(4), nn.Tanh())
        return Body(body, nn.Linear(4, classes))

    return Network(build, Problem(shape=(features,), classes=classes))
