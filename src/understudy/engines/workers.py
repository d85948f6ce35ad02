"""Clients spread over worker processes on this machine, one torch thread each.

Workers are forked, so they share data and network with the run and start at once. Their pipes carry JSON headers and
the bytes of Messages: the brief and the clients' memories one way, the replies and what is new in memory the other way,
the latter through memory that both share (`engines.outbox`) where they fit.
A few replies may wait here for their turn. A killed worker is replaced, and its requests are sent again: a step can be
repeated, and gives the same bits. If workers keep dying over a group of clients, these are asked one by one, so that
only the client that causes it fails.
"""

import contextlib
import functools
import json
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

import torch

from understudy import under_way
from understudy.engines.carried_memory import begin_with, memory_for, parts_of, remember
from understudy.engines.inline import SitesHere
from understudy.engines.outbox import Outbox
from understudy.engines.with_parent import ENDING, end_with_parent, start_deaf
from understudy.federation.answering import give_up
from understudy.federation.exchange import Answer, Request
from understudy.federation.method import Method
from understudy.federation.site import Site

WAITING = 4  # answers that may wait for an earlier one, times the number of workers
TRIES = 3  # workers that may die over one request before its client counts as failed

Said = tuple[dict[str, Any], bytes, bytes]  # header of an answer, reply, what is new in memory


@dataclass(frozen=True)
class Assignment:
    requests: tuple[Request, ...]  # one, or a group that works together
    deaths: int = 0  # of workers that were given it
    before: int = 0  # deaths over a group that its request was in
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


@dataclass
class Worker:
    process: ForkProcess
    pipe: Connection
    outbox: Outbox
    busy: Assignment | None = None
    brief: bytes | None = None  # the one that it was sent last, and has still


class Workers(SitesHere):
    def __init__(self, sites: Mapping[str, Site], method: Method, workers: int, together: int = 1):
        super().__init__(sites, method, together)
        self._again: deque[Assignment] = deque()  # requests that workers died over
        self._workers = [self._start(at) for at in range(workers)]

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        self._let_go_of_unfinished()
        coming = self.groups(requests)
        order: deque[str] = deque()
        early: dict[str, Answer] = {}
        window = WAITING * len(self._workers) * self._size
        exhausted = False
        while True:
            for worker in self._workers:
                if worker.busy is None and self._again:
                    self._send(worker, self._again.popleft())
                elif worker.busy is None and not exhausted and len(order) < window:
                    group = next(coming, None)
                    exhausted = group is None
                    if group is not None:
                        order.extend(request.client for request in group)
                        self._send(worker, Assignment(group))
            if not order:
                return
            while order and order[0] in early:
                yield early.pop(order.popleft())
            if any(worker.busy for worker in self._workers):
                early.update({got.client: got for got in self._receive()})

    def _let_go_of_unfinished(self) -> None:
        # A method that stopped reading half-way leaves unread answers behind.
        while any(worker.busy for worker in self._workers):
            list(self._receive())
        self._again.clear()

    def close(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()
            worker.outbox.close()
        self._workers = []

    def _start(self, at: int) -> Worker:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        outbox = Outbox()
        process = context.Process(target=_serve, args=(os.getpid(), at, theirs, ours, outbox, self), daemon=True)
        start_deaf(process)
        theirs.close()
        return Worker(process, ours, outbox)

    def _send(self, worker: Worker, job: Assignment) -> None:
        worker.busy = job
        told, parts = list[dict[str, Any]](), list[bytes]()
        for request in job.requests:
            memory, same = memory_for(self._sites[request.client], request), worker.brief is request.body
            told.append({"request": request.header().decode(), "same brief": same, "memory": bool(memory)})
            parts += [*([] if same else [request.body]), *([memory] if memory else [])]
            worker.brief = request.body
        with contextlib.suppress(ConnectionError):  # a dead worker is noticed when its answer is read
            for part in (json.dumps(told).encode(), *parts):
                worker.pipe.send_bytes(part)

    def _receive(self) -> Iterator[Answer]:
        ready = wait([worker.pipe for worker in self._workers if worker.busy])
        for at, worker in enumerate(self._workers):
            job = worker.busy
            if worker.pipe not in ready or job is None:
                continue
            try:
                said = _received_answers(worker)
            except (EOFError, OSError):  # killed before its answer or in the middle of it
                worker.process.join()
                worker.outbox.close()
                self._workers[at] = self._start(at)
                yield from self._after_a_death(replace(job, deaths=job.deaths + 1), worker.process.exitcode)
                continue
            worker.busy = None
            yield from self._answers_of(job, said)

    def _answers_of(self, job: Assignment, said: Sequence[Said]) -> Iterator[Answer]:
        """Deaths over a group are counted once; its time is shared out."""
        share = job.seconds / len(job.requests)
        for at, (request, (header, reply, new)) in enumerate(zip(job.requests, said, strict=True)):
            remember(self._sites[request.client], request, header["version"], new, header.pop("unchanged"))
            read = functools.partial(bytes, reply)
            yield Answer(**header, read=read, deaths=0 if at else job.before + job.deaths, seconds=share)

    def _after_a_death(self, job: Assignment, code: int | None) -> Iterator[Answer]:
        if job.deaths < TRIES:
            self._again.append(job)
            return
        if len(job.requests) > 1:
            first, *others = job.requests
            self._again.append(Assignment((first,), before=job.deaths))
            self._again.extend(Assignment((request,)) for request in others)
            return
        (request,) = job.requests
        why = (
            f"its worker process died {job.deaths} times over {request.task} (last with code {code}); "
            "if memory ran out, set fewer engine.workers"
        )
        given_up = give_up(self._sites[request.client], request, why)
        yield replace(given_up, deaths=job.before + job.deaths, lost=True, seconds=job.seconds)


def _serve(parent: int, at: int, pipe: Connection, other_end: Connection, outbox: Outbox, here: Workers) -> None:
    under_way.take_place(1 + at)  # 0 is the run's own
    other_end.close()  # so that the end of the run shows as end of file
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run itself handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    end_with_parent(parent)
    torch.set_num_threads(1)
    brief = b""
    while True:
        try:
            group, brief = _received(pipe, brief)
        except EOFError:
            os._exit(0)
        try:
            _hand_over(pipe, outbox, _answered(here, group))
        except BrokenPipeError:
            os._exit(0)


def _hand_over(pipe: Connection, outbox: Outbox, answers: Iterable[tuple[bytes, bytes, bytes]]) -> None:
    """All answers of a group. Where they do not fit into the outbox, they follow through the pipe."""
    parts = [part for answer in answers for part in answer]
    there = outbox.put(parts)
    pipe.send_bytes(json.dumps({"lengths": [len(part) for part in parts], "there": there}).encode())
    for part in () if there else parts:
        pipe.send_bytes(part)


def _received_answers(worker: Worker) -> list[Said]:
    told = json.loads(worker.pipe.recv_bytes())
    if told["there"]:
        parts = worker.outbox.take(told["lengths"])
    else:
        parts = [worker.pipe.recv_bytes() for _ in told["lengths"]]
    return list(zip(map(json.loads, parts[::3]), parts[1::3], parts[2::3], strict=True))


def _received(pipe: Connection, brief: bytes) -> tuple[list[tuple[Request, bytes]], bytes]:
    """Requests, each with the client's memory, and the last brief, with which the next one may be the same."""
    found = []
    for told in json.loads(pipe.recv_bytes()):
        brief = brief if told["same brief"] else pipe.recv_bytes()
        memory = pipe.recv_bytes() if told["memory"] else b""
        found.append((Request.of(told["request"].encode(), brief), memory))
    return found, brief


def _answered(here: Workers, group: Sequence[tuple[Request, bytes]]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """For each request the header of the answer, the reply, and what is new in the client's memory."""
    sites = {request.client: here.site(request.client) for request, _ in group}
    for kept in (site.memories for site in sites.values()):
        if kept is not None:
            kept.empty()
    for request, memory in group:
        begin_with(sites[request.client], request, memory)
    given = here.answers([request for request, _ in group])
    for (request, _), done in zip(group, given, strict=True):
        yield parts_of(sites[request.client], request, done)
