"""The work behind a reply: the task on a copy of the client's memory, and scores if requested."""

from dataclasses import dataclass
from typing import Protocol

import torch

from understudy.errors import UserError
from understudy.federation.budget import Budget, Occasion
from understudy.federation.client import Client, Memory
from understudy.federation.exchange import NOTHING, Request
from understudy.federation.failures import NotFinite
from understudy.federation.message import Message
from understudy.federation.method import Job, Method, known_jobs
from understudy.federation.release import check_kinds, may_score
from understudy.federation.site import SCORE, Site
from understudy.learning.evaluate import tally
from understudy.privacy.charges import Charge
from understudy.randomness import private_global_stream, seed_from

OF_SCORES = "scoring"  # the streams of a client that scores


@dataclass(frozen=True)
class Worked:
    reply: Message
    memory: Memory  # what the client will remember
    paid: list[Charge]  # what this work charged: nothing else can cover the reply


def job_of(site: Site, method: Method, request: Request) -> Job:
    job = known_jobs(method).get(request.task)
    if job is None:
        raise UserError(f"{site.name} has no task '{request.task}'; server and client must share one config.")
    return job


@dataclass(frozen=True)
class ReadyWork:
    """What a task works with."""

    job: Job
    client: Client
    brief: Message
    scores: dict[str, torch.Tensor]


class DoWork(Protocol):
    """How the work of a request is done: now and alone, or together with others' before."""

    def __call__(self, site: Site, method: Method, request: Request, /) -> Worked: ...


class _Briefs:
    """One brief usually goes to a whole cohort: the clients that this process works for read it once. A task that
    writes into its brief spoils only its own copy."""

    def __init__(self) -> None:
        self._body, self._brief = b"", Message()
        self._writes: list[int] = []

    def read(self, body: bytes) -> Message:
        if body is not self._body or self._writes != _writes(self._brief):
            self._body, self._brief = b"", Message()
            brief = Message.from_bytes(body)
            if broken := brief.not_finite():
                raise UserError(f"the brief is not finite in {', '.join(broken)}")
            self._body, self._brief, self._writes = body, brief, _writes(brief)
        return self._brief


def _writes(message: Message) -> list[int]:
    return [tensor._version for tensor in message.values()]


_BRIEFS = _Briefs()


def work(site: Site, method: Method, request: Request) -> Worked:
    ready = prepare(site, method, request)
    with private_global_stream(site.seed, request.round, site.name, request.task):
        reply = ready.job.work(ready.client, ready.brief)
    return worked(request, ready, reply)


def prepare(site: Site, method: Method, request: Request) -> ReadyWork:
    job = job_of(site, method, request)
    check_kinds(site.policy, job.kinds, private=site.privacy is not None)
    kept = _remembered(site, request)
    brief = _BRIEFS.read(request.body)
    scores = _scores(site, method, request, kept, brief) if request.score and may_score(site.policy) else {}
    return ReadyWork(job, _client(site, request, Memory(kept)), brief, scores)


def worked(request: Request, ready: ReadyWork, reply: Message) -> Worked:
    _check_declared(request, ready.job, reply)
    return Worked(reply.but(ready.scores), ready.client.memory, ready.client.budget.charged)


def _remembered(site: Site, request: Request) -> Message:
    if request.start == NOTHING:
        return Message()
    found = None if site.memories is None else site.memories.get(site.name, request.start)
    return site.memory(request.run).get(request.start)[0] if found is None else found


def _check_declared(request: Request, job: Job, reply: Message) -> None:
    if not isinstance(reply, Message):
        raise UserError(f"{request.task} returned {type(reply).__name__}; a task returns a Message.")
    undeclared = [part for part in reply if part not in job.kinds or part == SCORE]  # only the site itself adds scores
    if undeclared:
        raise UserError(f"{request.task} would send {', '.join(undeclared)}, which @task does not declare.")
    if broken := reply.not_finite():
        raise NotFinite(broken, job.kinds)


def _client(site: Site, request: Request, memory: Memory, *words: str) -> Client:
    own, held_out = site.holding.own, site.holding.held_out
    seed = seed_from(site.seed, *words) if words else site.seed
    occasion = Occasion(request.run, request.round, request.step, request.task)
    return Client(
        site.name,
        request.round,
        own=own,
        held_out=held_out,
        memory=memory,
        seed=seed,
        common=site.common,
        budget=Budget(site.charge_log, occasion, site.privacy, site.policy, len(own)),
    )


def _scores(site: Site, method: Method, request: Request, kept: Message, brief: Message) -> dict[str, torch.Tensor]:
    """Of the brief's model on held-out records; uses a copy of memory and separate streams, so it changes nothing."""
    client = _client(site, request, Memory(kept), OF_SCORES)
    if "model" not in brief or not len(client.held_out):
        return {}
    client = method.prepared(client, brief)
    with private_global_stream(client.id, client.round, SCORE):
        method.net.load(method.personal(client, brief["model"]))
        return {SCORE: tally(method.net.logits, method.net.to_score(client.held_out), method.net.problem).to_tensor()}
