"""Which tasks a method asks for, with which briefs, and what each charges: found by asking for them once.

The server here has one client with made-up records. A task that releases something is ended at its first release, when
it has charged already, and counts as failed; so an opening that waits for images goes on without them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from understudy.audits.claims.experiment import Trial
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.federation.method import Method, task_name
from understudy.federation.server import Brief, Reply, Server, Task
from understudy.privacy.charges import Charge
from understudy.privacy.promise import PrivacySettings
from understudy.randomness import generator

CLIENT = "client-0"


class Rehearsed(Exception):
    """Every task that can send something was asked for."""


@dataclass(frozen=True)
class AskedOnce:
    task: str
    round: int
    brief: Message
    memory: Mapping[str, Tensor]  # before it
    charges: tuple[Charge, ...]
    refusal: str = ""  # why it did not do its work, if it did not


class RehearsalServer(Server):
    def __init__(self, method: Method, own: Examples, seed: int, privacy: PrivacySettings | None) -> None:
        self.clients, self.round = [CLIENT], 0
        self.asked: list[AskedOnce] = []
        self._method, self._own, self._seed, self._privacy = method, own, seed, privacy
        self._memory: dict[str, Tensor] = {}

    def cohort(self) -> list[str]:
        return list(self.clients)

    def leave_out(self, client: str, why: str) -> None:
        raise UserError(f"{client} would be left out: {why}")

    def rng(self, purpose: str) -> torch.Generator:
        return generator(self._seed, self.round, "server", purpose)

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        name = task_name(task)
        for client in to:
            reply = self._one(name, brief if isinstance(brief, Message) else brief(client))
            if reply is not None:
                yield Reply(client, reply, lambda why: None)
        asked = {one.task for one in self.asked}
        if self.round and all(name in asked for name, job in self._method.jobs().items() if job.kinds):
            raise Rehearsed

    def _one(self, name: str, brief: Message) -> Message | None:
        trial = Trial(self._method, self._privacy, self._seed, name, ((self.round, brief),), dict(self._memory), CLIENT)
        outcome = replace(trial, most=1).run(self._own)
        charges = tuple(outcome.charges[0])
        self.asked.append(AskedOnce(name, self.round, brief, trial.memory, charges, outcome.refusal))
        return outcome.replies[0]


def rehearsed(method: Method, own: Examples, seed: int, privacy: PrivacySettings | None) -> list[AskedOnce]:
    """What is asked in the opening and the first round."""
    server = RehearsalServer(method, own, seed, privacy)
    try:
        state = method.start(server)
        server.round = 1
        if method.rounds:
            method.round(server, state)
    except Rehearsed:
        pass
    return server.asked
