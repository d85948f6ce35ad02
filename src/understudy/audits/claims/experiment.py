"""One repetition of an experiment: a method's own task on made-up records, outside any run.

The public seed, the brief and the client's memory are the same in every repetition; noise and sampling are fresh from
the operating system. Charges go to a log in memory. A task is run in two rounds where a run has several, the second
with another model in its brief, because noise that is used again shows only between releases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from understudy.audits.claims.watching import EnoughSeen, watching
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.budget import Budget, Occasion
from understudy.federation.client import Client, Memory
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.privacy.charges import Charge, UnloggedCharges
from understudy.privacy.mechanism import NoisySum
from understudy.privacy.promise import PrivacySettings
from understudy.randomness import generator, private_global_stream

NUDGE = 0.1  # of a model's root mean square: how far the second round's model is from the first's


class ExperimentBudget(Budget):
    """Charges in memory. With a ``key``, secret streams repeat: two runs with one key have the same noise, so that
    their difference shows what a record does."""

    def __init__(self, occasion: Occasion, privacy: PrivacySettings | None, records: int, key: str | None) -> None:
        super().__init__(UnloggedCharges(), occasion, privacy, None, records)
        self._key = key

    def secret_stream(self, seed: int, *words: int | str) -> torch.Generator:
        return super().secret_stream(seed, *words) if self._key is None else generator(self._key, *words)


@dataclass(frozen=True)
class Repetition:
    """What came out of one repetition, by round."""

    releases: tuple[list[NoisySum], ...]
    replies: tuple[Message | None, ...]  # None: the task was ended early, or refused to reply
    charges: tuple[list[Charge], ...]
    refusal: str = ""  # the last one


@dataclass(frozen=True)
class Trial:
    """One task and everything that does not change from one repetition to the next."""

    method: Method
    privacy: PrivacySettings | None
    seed: int  # the run's, which is public
    task: str
    briefs: tuple[tuple[int, Message], ...]  # the round and its brief
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    client: str = "client-0"
    most: int | None = None  # releases per round, after which the task is ended; None: to its reply
    kept: int | None = None  # releases of a kind and round that are looked at; None: all

    def run(self, own: Examples, key: str | None = None, along: Repetition | None = None) -> Repetition:
        """On these records; the outcome is all that lasts. ``along``: another repetition, whose releases the task goes
        on with, so that each of its own is made where that one was."""
        memory, outcomes, why = Memory(self.memory), [], ""
        for at, (round, brief) in enumerate(self.briefs):
            instead = () if along is None else along.releases[at]
            seen, reply, charges, refusal = self._round(round, brief, own, memory, key, instead)
            outcomes.append((seen, reply, charges))
            why = refusal or why
        releases, replies, charged = zip(*outcomes, strict=True)
        return Repetition(releases, replies, charged, why)

    def _round(
        self,
        round: int,
        brief: Message,
        own: Examples,
        memory: Memory,
        key: str | None,
        instead: Sequence[NoisySum],
    ) -> tuple[list[NoisySum], Message | None, list[Charge], str]:
        budget = ExperimentBudget(Occasion("audit", round, 0, self.task), self.privacy, len(own), key)
        work, reply, refusal = self.method.jobs()[self.task].work, None, ""
        stream = private_global_stream(self.seed, round, self.client, self.task)
        with stream, watching(self.most, self.kept, instead) as seen:
            client = Client(
                self.client, round, own=own, held_out=own.none(), memory=memory, seed=self.seed, budget=budget
            )
            try:
                reply = work(client, brief)
            except EnoughSeen:
                pass
            except UserError as error:  # a generator that failed says so: that is an outcome as well
                refusal = str(error)
        return seen, reply, budget.charged, refusal


def nudged(brief: Message, seed: int) -> Message:
    """Another model for the second round, which any server could send."""
    if "model" not in brief:
        return brief
    model = brief["model"]
    drawn = torch.randn(model.shape, generator=generator(seed, "audit", "second brief"))
    return brief.but(model=model + NUDGE * model.square().mean().sqrt() * drawn)
