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
from understudy.engines.workers import WAITING, Assignment, Workers
from understudy.federation.client import Client
from understudy.federation.exchange import NOTHING, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.server import Server
from understudy.federation.site import Site
from understudy.models import zoo as models
from understudy.models.network import Network

NAMES = [f"c{i:02d}" for i in range(12)]


class Sleepy(Method):
    tries: Path  # a line for each time that a client began a task

    def begin(self, client: Client) -> int:
        """How often it has begun by now, told by the disk: a worker that died cannot."""
        with (self.tries / client.id).open("a") as file:
            file.write("begun\n")
        return len((self.tries / client.id).read_text().splitlines())

    @task(who="scalars")
    def nap(self, client: Client, brief: Message) -> Message:
        number = int(client.id[1:])
        time.sleep(0.05 if number % 3 == 0 else 0)  # so that others overtake
        return Message(who=torch.tensor(float(number)))

    @task(who="scalars")
    def die_at_first(self, client: Client, brief: Message) -> Message:
        """c03 once, c06 twice, c09 always."""
        number = int(client.id[1:])
        if self.begin(client) <= {3: 1, 6: 2, 9: 1000}.get(number, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        return Message(who=torch.tensor(float(number)))

    @task()
    def raise_if_four(self, client: Client, brief: Message) -> Message:
        self.begin(client)
        if client.id == "c04":
            raise ValueError("four")
        return Message()

    def round(self, server: Server, state: State) -> State:
        return state


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    pictures = (np.zeros((2, 1, 4, 4), np.uint8), np.array([0, 1]))
    federation = Federation.from_arrays(dict.fromkeys(NAMES, pictures))
    sites = {name: Site(name, federation.sites[name], tmp_path / name, 0, "words") for name in NAMES}
    entry, method = models.entry("softmax"), Sleepy()
    method.tries = tmp_path / "tries"
    method.tries.mkdir()
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


def test_what_a_worker_died_over_is_asked_again_and_answers_keep_their_order(workers: Workers) -> None:
    answers = list(workers.exchange(requests("Sleepy.die_at_first", NAMES, [])))
    assert [a.client for a in answers] == NAMES
    done = {a.client: float(Message.from_bytes(a.read())["who"]) for a in answers if a.outcome == "done"}
    assert done == {name: float(name[1:]) for name in NAMES if name != "c09"}
    assert {a.client: a.deaths for a in answers if a.deaths} == {"c03": 1, "c06": 2, "c09": 3}
    again = list(workers.exchange(requests("Sleepy.nap", NAMES, [], round=2)))
    assert [(a.outcome, a.deaths) for a in again] == [("done", 0)] * 12


def test_a_client_whose_worker_died_three_times_is_lost_and_costs_nobody_else(workers: Workers, tmp_path: Path) -> None:
    answers = list(workers.exchange(requests("Sleepy.die_at_first", NAMES, [])))
    (lost,) = [a for a in answers if a.outcome != "done"]
    assert (lost.client, lost.outcome, lost.lost) == ("c09", "failed", True)
    assert "its worker process died 3 times over Sleepy.die_at_first (last with code -9)" in lost.why
    assert len((tmp_path / "tries/c09").read_text().splitlines()) == 3


def test_a_task_that_raised_is_not_asked_again(workers: Workers, tmp_path: Path) -> None:
    answers = list(workers.exchange(requests("Sleepy.raise_if_four", NAMES, [])))
    assert [a.client for a in answers if a.outcome == "failed"] == ["c04"]
    assert all(len(path.read_text().splitlines()) == 1 for path in (tmp_path / "tries").iterdir())


def test_a_worker_that_died_with_nothing_to_do_is_replaced_too(workers: Workers) -> None:
    for worker in workers._workers:
        worker.process.kill()
        worker.process.join()
    answers = list(workers.exchange(requests("Sleepy.nap", NAMES, [])))
    assert all(a.outcome == "done" for a in answers)


def test_what_nobody_waits_for_is_not_asked_again(workers: Workers, tmp_path: Path) -> None:
    left = requests("Sleepy.die_at_first", NAMES[:1], [])  # of an exchange that nobody read to its end
    workers._again.extend(Assignment((request,)) for request in left)
    answers = list(workers.exchange(requests("Sleepy.nap", NAMES[:3], [], round=2)))
    assert [a.client for a in answers] == NAMES[:3]
    assert not (tmp_path / "tries/c00").exists()


def test_answers_that_nobody_read_do_not_turn_up_in_the_next_exchange(workers: Workers) -> None:
    next(workers.exchange(requests("Sleepy.nap", NAMES, [])))
    answers = list(workers.exchange(requests("Sleepy.nap", NAMES[6:], [], round=2)))
    assert [a.client for a in answers] == NAMES[6:]


def test_no_worker_is_left_when_the_engine_is_closed(workers: Workers) -> None:
    processes = [worker.process for worker in workers._workers]
    workers.close()
    assert not any(process.is_alive() for process in processes)
