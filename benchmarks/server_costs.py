"""What one reply costs a server, in processor seconds of this machine: each constant through the library's own code."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from understudy.data.problem import Problem
from understudy.federation.client import Client
from understudy.federation.exchange import NOTHING, Answer, Engine, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.running import RunFacts, RunServer
from understudy.federation.secure import keys, shares
from understudy.federation.secure.grid import grid_for
from understudy.federation.secure.masks import add_stream
from understudy.federation.server import Server
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.privacy.charges import Charge
from understudy.privacy.ledger import Release
from understudy.runs.folder import RunFolder

MB = 10**6
SMALL, LARGE = 2_500, 1_000_000  # numbers in a reply: 10 kB and 4 MB
HOLDERS, NEEDED = 31, 19  # of a secret's shares, with 30 neighbours


@dataclass(frozen=True)
class ServerCosts:
    """Processor seconds, but for ``durable_line``, which waits for the disk."""

    reply: float  # to read, check, note and add up a reply, whatever its size
    megabyte: float  # of a reply: the same, for each megabyte
    line: float  # of the ledger, without a charge
    line_bytes: float
    durable_line: float  # with a charge: on the disk before it counts; by the clock
    pair: float  # a client's cost of one neighbour: keys agreed on, shares made, sealed and opened
    pair_megabyte: float  # a client's cost of one mask, for each megabyte of float32 that it covers
    secret: float  # the server's cost of opening the secret of one client
    own_mask_megabyte: float  # the server's cost of removing one client's own mask and adding its numbers up


class Sums(Method):
    """Clients send ``numbers`` numbers, and the server adds them up."""

    def __init__(self, numbers: int):
        self.numbers = numbers
        self.bind(Network(lambda: Classifier(nn.Flatten(), nn.Linear(4, 2)), Problem((1, 2, 2), 2)), 1)

    @task(total="weights", weight="statistics")
    def send(self, client: Client, brief: Message) -> Message:
        raise NotImplementedError  # answers are ready-made here

    def round(self, server: Server, state: State) -> State:
        like = {"total": (self.numbers,), "weight": ()}
        return State(server.sum(self.send, Message(), server.clients, like, {"weight": 0.0}))


class ReadyMade(Engine):
    """Every client answers at once, with the same bytes."""

    def __init__(self, reply: bytes):
        self._reply = reply

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        for request in requests:
            yield Answer(request.client, "done", "", NOTHING, lambda: self._reply)


def seconds_of_a_sum(clients: int, numbers: int, folder: Path) -> float:
    """A round at the server, in processor seconds: `clients` replies of so many numbers, with their ledger lines."""
    reply = Message(total=torch.randn(numbers), weight=torch.tensor(1.0)).to_bytes()
    method, names = Sums(numbers), [f"site-{i}" for i in range(clients)]
    facts = RunFacts("run", "config", 0, clients, 1, score_at_clients=False, held_out=dict.fromkeys(names, 0))
    lines = RunFolder(folder).releases
    server = RunServer(ReadyMade(reply), method, names, facts, released=lines.add)
    server.begin(1)
    began = time.process_time()
    found = method.round(server, State())
    taken = time.process_time() - began
    lines.close()
    assert float(found["weight"]) == clients  # nobody's reply was refused
    return taken


def best(work: Callable[[], object], times: int = 3, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of the quickest."""
    taken = []
    for _ in range(times):
        began = clock()
        work()
        taken.append(clock() - began)
    return min(taken)


def measured() -> ServerCosts:
    with tempfile.TemporaryDirectory() as name:
        folder, turn = Path(name), iter(range(100))

        def a_reply(clients: int, numbers: int) -> float:
            def fresh() -> float:
                place = folder / str(next(turn))
                place.mkdir()
                return seconds_of_a_sum(clients, numbers, place) / clients

            return min(fresh() for _ in range(3))

        small, large = a_reply(1000, SMALL), a_reply(12, LARGE)
        per_megabyte = (large - small) / (4 * (LARGE - SMALL) / MB)
        line, size, durable = _lines(folder)
        pair, secret = _keys()
        mask, own = _masks()
        return ServerCosts(
            reply=small - per_megabyte * 4 * SMALL / MB,
            megabyte=per_megabyte,
            line=line,
            line_bytes=size,
            durable_line=durable,
            pair=pair,
            pair_megabyte=mask,
            secret=secret,
            own_mask_megabyte=own,
        )


def _lines(folder: Path) -> tuple[float, float, float]:
    place = folder / "lines"
    place.mkdir()
    lines = RunFolder(place).releases
    plain = Release("site-1234", 1, 1, "train", {"total": ("weights", 1_280_000)}, sha256="0" * 64, heard=1)
    charge = Charge("run", 1, 1, "train", 1, "gaussian", 1.0, 1.0, 0.01, 100, 1e-5, "rdp", ("total",))
    charged = Release("site-1234", 1, 1, "train", {"total": ("weights", 1_280_000)}, (charge,), "0" * 64, 1)
    count = 2000

    def added(release: Release, times: int) -> None:
        for _ in range(times):
            lines.add(release)

    taken = best(lambda: added(plain, count)) / count
    size = (place / "releases.jsonl").stat().st_size / (3 * count)
    durable = best(lambda: added(charged, 20), clock=time.perf_counter) / 20
    lines.close()
    return taken, size, durable


def _keys() -> tuple[float, float]:
    """A pair: two keys agreed on, one share of each of two secrets sealed, one box of the other's opened. And opening
    one secret from its shares."""
    mine, theirs = keys.fresh_seed(), keys.public_key(keys.fresh_seed())
    seed = os.urandom(keys.SEED)

    def pairs() -> None:
        for secret in (mine, seed):
            shares.split(secret, HOLDERS, NEEDED)
        for _ in range(HOLDERS - 1):
            key = keys.agreed_key(mine, theirs, "box")
            keys.agreed_key(mine, theirs, "mask")
            keys.unseal(key, keys.seal(key, bytes(2 * keys.SEED), "about"), "about")

    made = shares.split(seed, HOLDERS, NEEDED)
    enough = {place: made[place - 1] for place in range(1, NEEDED + 1)}
    return best(pairs) / (HOLDERS - 1), best(lambda: shares.join(enough, NEEDED))


def _masks() -> tuple[float, float]:
    """For each megabyte of float32: to add one stream at a client; to unpack, add up and take a stream off here."""
    values, key = np.zeros(LARGE, dtype=np.uint64), os.urandom(32)
    grid = grid_for(1000, range=1e6, bits=48)
    packed, total = grid.pack(values), np.zeros(LARGE, dtype=np.uint64)

    def at_the_server() -> None:
        np.add(total, grid.unpack(packed), out=total)
        add_stream(total, key, -1)

    size = 4 * LARGE / MB
    return best(lambda: add_stream(values, key, 1)) / size, best(at_the_server) / size
