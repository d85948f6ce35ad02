"""Worker processes: order, windows, and workers that die."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy.data.federation import Federation
from understudy.engines.workers import WAITING, Workers
from understudy.federation.client import Client
from understudy.federation.exchange import NOTHING, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.server import Server
from understudy.federation.site import Site
from understudy.models import registry as models
from understudy.models.network import Network

NAMES = [f"c{i:02d}" for i in range(12)]


class Sleepy(Method):
    @task(who="scalars")
    def nap(self, client: Client, brief: Message) -> Message:
        number = int(client.id[1:])
        time.sleep(0.05 if number % 3 == 0 else 0)  # so that others overtake
        return Message(who=torch.tensor(float(number)))

    @task(who="scalars")
    def die_if_four(self, client: Client, brief: Message) -> Message:
        if client.id == "c04":
            os.kill(os.getpid(), signal.SIGKILL)
        return Message(who=torch.zeros(()))

    def round(self, server: Server, state: State) -> State:
        return state


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    pictures = (np.zeros((2, 1, 4, 4), np.uint8), np.array([0, 1]))
    federation = Federation.from_arrays(dict.fromkeys(NAMES, pictures))
    sites = {name: Site(name, federation.sites[name], tmp_path / name, 0, "words") for name in NAMES}
    entry, method = models.entry("softmax"), Sleepy()
    method.bind(Network(lambda: entry.build(federation.problem, entry.settings()), federation.problem), 1)
    engine = Workers(sites, method, 2)
    yield engine
    engine.close()


def requests(task: str, names: list[str], seen: list[str], round: int = 1) -> Iterator[Request]:
    for name in names:
        seen.append(name)
        yield Request("run", "words", name, task, round, 1, NOTHING, NOTHING, False, Message().to_bytes())


def test_answers_come_in_the_order_of_the_requests(workers: Workers) -> None:
    answers = list(workers.exchange(requests("Sleepy.nap", NAMES, [])))
    assert [a.client for a in answers] == NAMES
    assert [float(Message.from_bytes(a.read())["who"]) for a in answers] == list(range(12))


def test_requests_are_drawn_a_window_at_a_time(workers: Workers) -> None:
    seen: list[str] = []
    first = next(workers.exchange(requests("Sleepy.nap", NAMES, seen)))
    assert first.client == "c00"
    assert len(seen) <= WAITING * 2


def test_a_worker_that_dies_costs_its_client_only_and_is_replaced(workers: Workers) -> None:
    answers = list(workers.exchange(requests("Sleepy.die_if_four", NAMES, [])))
    outcomes = {a.client: a.outcome for a in answers}
    assert [name for name, outcome in outcomes.items() if outcome != "done"] == ["c04"]
    assert "its worker process ended with code -9" in next(a.why for a in answers if a.client == "c04")
    again = list(workers.exchange(requests("Sleepy.nap", NAMES, [], round=2)))
    assert all(a.outcome == "done" for a in again)


def test_answers_that_nobody_read_do_not_turn_up_in_the_next_exchange(workers: Workers) -> None:
    next(workers.exchange(requests("Sleepy.nap", NAMES, [])))
    answers = list(workers.exchange(requests("Sleepy.nap", NAMES[6:], [], round=2)))
    assert [a.client for a in answers] == NAMES[6:]


def test_no_worker_is_left_when_the_engine_is_closed(workers: Workers) -> None:
    processes = [worker.process for worker in workers._workers]
    workers.close()
    assert not any(process.is_alive() for process in processes)
