"""The engine of a Ray cluster: as many slots as it has room for, each answering for one client at a time.

Answers come in the order of the requests, a window of them in flight. A slot whose process or node dies is replaced
wherever there is room, and its request is sent again: a step can be repeated, and gives the same bits.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from understudy.engines.cluster.folder_copy import apply, content_of
from understudy.engines.cluster.session import ROOM, Cluster
from understudy.engines.cluster.slot import SlotAnswer
from understudy.engines.inline import SitesHere
from understudy.errors import UserError, resuming
from understudy.federation.answering import give_up
from understudy.federation.exchange import Answer, Request
from understudy.federation.method import Method
from understudy.federation.site import Site

WAITING = 4  # answers that may wait for an earlier one, times the number of slots
TRIES = 3  # slots that may die over one request before its client counts as failed
LOOK = 5.0  # seconds between looks for more room


@dataclass(frozen=True)
class InFlight:
    request: Request
    deaths: int = 0  # of slots that were given it


@dataclass
class SlotHandle:
    actor: Any
    answer: Any  # Ray's promise: of being ready, then of an answer; None: idle
    busy: InFlight | None = None


class RayEngine(SitesHere):
    def __init__(self, sites: Mapping[str, Site], method: Method, cluster: Cluster, *, patience: float):
        """``patience``: seconds without room for a single slot, after which the run stops."""
        super().__init__(sites, method)
        self._cluster, self._patience = cluster, patience
        self._slots: list[SlotHandle] = []
        self._again: deque[InFlight] = deque()  # requests that slots died over
        self._brief: tuple[bytes, Any] = (b"", None)  # the newest body, and where Ray keeps it
        self._looked = 0.0

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        self._let_go_of_unfinished()
        coming, order = iter(requests), deque[str]()
        early: dict[str, Answer] = {}
        exhausted = False
        while True:
            self._look_for_room()
            for slot in self._slots:
                if slot.answer is not None:
                    continue
                if self._again:
                    self._send(slot, self._again.popleft())
                elif not exhausted and len(order) < WAITING * len(self._slots):
                    request = next(coming, None)
                    exhausted = request is None
                    if request is not None:
                        order.append(request.client)
                        self._send(slot, InFlight(request))
            if not order and exhausted:
                return
            while order and order[0] in early:
                yield early.pop(order.popleft())
            early.update({answer.client: answer for answer in self._receive()})

    def close(self) -> None:
        for slot in self._slots:
            self._cluster.end(slot.actor)
        self._slots = []

    # ---- inside

    def _let_go_of_unfinished(self) -> None:
        """A method that stopped reading half-way leaves unread answers behind."""
        while any(slot.busy for slot in self._slots):
            list(self._receive())
        self._again.clear()

    def _look_for_room(self) -> None:
        """Whoever joins the cluster later is used too; no more slots than clients."""
        if self._slots and time.monotonic() < self._looked + LOOK:
            return
        self._looked = time.monotonic()
        begun = self._looked
        while True:
            for _ in range(min(self._cluster.room(), len(self._sites) - len(self._slots))):
                self._slots.append(SlotHandle(*self._cluster.start_slot()))
            if self._slots:
                return
            if time.monotonic() - begun > self._patience:
                raise UserError(
                    f"No node of the Ray cluster has had room for a client ({self._cluster.needs}) for "
                    f"{self._patience:.0f} s; add one, and run again with {resuming()}."
                )
            time.sleep(0.2)

    def _send(self, slot: SlotHandle, job: InFlight) -> None:
        request = job.request
        if self._brief[0] is not request.body:  # one brief for many clients is placed once per ask
            self._brief = (request.body, self._cluster.place(request.body))
        content = {} if self._cluster.shares_disk else content_of(self._sites[request.client].folder)
        slot.busy, slot.answer = job, self._cluster.ask(slot.actor, request.header(), self._brief[1], content)

    def _receive(self) -> Iterator[Answer]:
        """Waits until something has happened, or it is time to look for room."""
        for slot in self._cluster.done([slot for slot in self._slots if slot.answer is not None], LOOK):
            job, promise = slot.busy, slot.answer
            slot.busy = slot.answer = None
            try:
                said = self._cluster.result(promise)
            except self._cluster.deaths as death:
                self._slots.remove(slot)
                self._looked = 0.0
                yield from self._after_a_death(job, death)
                continue
            if job is not None:
                yield self._answer(job, said)

    def _answer(self, job: InFlight, said: SlotAnswer) -> Answer:
        site = self._sites[job.request.client]
        apply(said.change, site.folder)
        return Answer(**said.header, read=site.reply(job.request).read_bytes, deaths=job.deaths, seconds=said.seconds)

    def _after_a_death(self, job: InFlight | None, death: Exception) -> Iterator[Answer]:
        if job is None:
            self._cluster.check_start(death)
            return
        job = replace(job, deaths=job.deaths + 1)
        if job.deaths < TRIES:
            self._again.append(job)
            return
        why = (
            f"its process on the Ray cluster died {job.deaths} times over {job.request.task}; "
            f"if memory ran out, let Ray start fewer slots per node ({ROOM})"
        )
        yield replace(give_up(self._sites[job.request.client], job.request, why), deaths=job.deaths, lost=True)
