"""Clients spread over worker processes on this machine, one torch thread each.

Workers are forked, so they share data and network with the run and start at once. Their pipes carry a JSON header and
the bytes of Messages: the brief and the client's memory one way, the reply and what is new in its memory the other way.
A few replies may wait here for their turn. A killed worker is replaced, and its request is sent again: a step can be
repeated, and gives the same bits.
"""

import contextlib
import functools
import json
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

import torch

from understudy.engines.inline import SitesHere
from understudy.engines.with_parent import end_with_parent
from understudy.federation.answering import answer, give_up
from understudy.federation.exchange import Answer, Request
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.site import Site

ENDING = (signal.SIGINT, signal.SIGTERM)
WAITING = 4  # answers that may wait for an earlier one, times the number of workers
SAME = b"="  # instead of a brief: the one before, which is no Message and so cannot be mistaken for one
TRIES = 3  # workers that may die over one request before its client counts as failed


@dataclass(frozen=True)
class Assignment:
    request: Request
    deaths: int = 0  # of workers that were given it
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


@dataclass
class Worker:
    process: ForkProcess
    pipe: Connection
    busy: Assignment | None = None
    brief: bytes | None = None  # the one that it was sent last, and has still


class Workers(SitesHere):
    def __init__(self, sites: Mapping[str, Site], method: Method, workers: int):
        super().__init__(sites, method)
        self._again: deque[Assignment] = deque()  # requests that workers died over
        self._workers = [self._start() for _ in range(workers)]

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        self._let_go_of_unfinished()
        coming = iter(requests)
        order: deque[str] = deque()
        early: dict[str, Answer] = {}
        window = WAITING * len(self._workers)
        exhausted = False
        while True:
            for worker in self._workers:
                if worker.busy is None and self._again:
                    self._send(worker, self._again.popleft())
                elif worker.busy is None and not exhausted and len(order) < window:
                    request = next(coming, None)
                    exhausted = request is None
                    if request is not None:
                        order.append(request.client)
                        self._send(worker, Assignment(request))
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
        self._workers = []

    def _start(self) -> Worker:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_serve, args=(os.getpid(), theirs, ours, self._sites, self._method), daemon=True
        )
        # A signal that reaches the child before it can handle it would be lost, and we would wait forever for its end.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        return Worker(process, ours)

    def _send(self, worker: Worker, job: Assignment) -> None:
        worker.busy = job
        request, memory = job.request, self._memory_for(job.request)
        with contextlib.suppress(ConnectionError):  # a dead worker is noticed when its answer is read
            worker.pipe.send_bytes(request.header())
            worker.pipe.send_bytes(SAME if worker.brief is request.body else request.body)
            worker.pipe.send_bytes(memory)
            worker.brief = request.body

    def _memory_for(self, request: Request) -> bytes:
        """Empty if there is none, or if the client itself knows where it is."""
        memories = self._sites[request.client].memories
        found = None if memories is None else memories.get(request.client, request.start)
        return b"" if found is None else found.to_bytes()

    def _receive(self) -> Iterator[Answer]:
        ready = wait([worker.pipe for worker in self._workers if worker.busy])
        for at, worker in enumerate(self._workers):
            job = worker.busy
            if worker.pipe not in ready or job is None:
                continue
            try:
                said, reply, new = json.loads(worker.pipe.recv_bytes()), *(worker.pipe.recv_bytes() for _ in range(2))
            except (EOFError, OSError):  # killed before its answer or in the middle of it
                worker.process.join()
                self._workers[at] = self._start()
                yield from self._after_a_death(replace(job, deaths=job.deaths + 1), worker.process.exitcode)
                continue
            worker.busy = None
            self._remember(job.request, said["version"], new, said.pop("unchanged"))
            read = functools.partial(bytes, reply)
            yield Answer(**said, read=read, deaths=job.deaths, seconds=job.seconds)

    def _remember(self, request: Request, version: str, new: bytes, unchanged: list[str]) -> None:
        memories = self._sites[request.client].memories
        if memories is not None and new:
            memories.put(request.client, version, Message.from_bytes(new), request.start, unchanged)

    def _after_a_death(self, job: Assignment, code: int | None) -> Iterator[Answer]:
        if job.deaths < TRIES:
            self._again.append(job)
            return
        why = (
            f"its worker process died {job.deaths} times over {job.request.task} (last with code {code}); "
            "if memory ran out, set fewer engine.workers"
        )
        given_up = give_up(self._sites[job.request.client], job.request, why)
        yield replace(given_up, deaths=job.deaths, lost=True, seconds=job.seconds)


def _serve(parent: int, pipe: Connection, other_end: Connection, sites: Mapping[str, Site], method: Method) -> None:
    other_end.close()  # so that the end of the run shows as end of file
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run itself handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    end_with_parent(parent)
    torch.set_num_threads(1)
    brief = b""
    while True:
        try:
            header, body, memory = pipe.recv_bytes(), pipe.recv_bytes(), pipe.recv_bytes()
        except EOFError:
            os._exit(0)
        brief = brief if body == SAME else body
        try:
            for part in _answered(sites, method, Request.of(header, brief), memory):
                pipe.send_bytes(part)
        except BrokenPipeError:
            os._exit(0)


def _answered(sites: Mapping[str, Site], method: Method, request: Request, memory: bytes) -> tuple[bytes, ...]:
    """The header of the answer, the reply, and what is new in the client's memory."""
    site = sites[request.client]
    if site.memories is None:
        done = answer(site, method, request)
        return json.dumps({**done.header(), "unchanged": []}).encode(), done.read(), b""
    site.memories.empty()
    if memory:
        site.memories.put(site.name, request.start, Message.from_bytes(memory))
    done, new = answer(site, method, request), b""
    unchanged: tuple[str, ...] = ()
    found = site.memories.changes(site.name, done.version) if done.version != request.start else None
    if found is not None:
        new, unchanged = found[0].to_bytes(), found[1]
    said = {**done.header(), "repeatable": done.repeatable, "unchanged": unchanged}
    return json.dumps(said).encode(), done.read(), new
