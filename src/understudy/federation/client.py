"""Client: what a task sees. It exists only while the task runs."""

import copy
from collections import UserDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.budget import Budget, no_budget
from understudy.federation.message import Message, labels_from_wire
from understudy.randomness import generator

DEALT_X, DEALT_Y = "dealt.x", "dealt.y"


class Memory(UserDict[str, Tensor]):
    """What a client keeps from one task to the next. It never travels."""

    def __init__(self, kept: Mapping[str, Tensor]):
        super().__init__()
        self.data |= kept
        self._before = {name: (tensor, tensor._version) for name, tensor in kept.items()}

    @property
    def changed(self) -> bool:
        """Whether something was added, removed, or written in place."""
        return self.data.keys() != self._before.keys() or len(self.unchanged) < len(self.data)

    @property
    def unchanged(self) -> list[str]:
        """The parts that are as they were."""
        return [
            name
            for name, (tensor, version) in self._before.items()
            if self.get(name) is tensor and tensor._version == version
        ]

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        self.data[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


class Client:
    """One party, for the duration of one task: its records, its memory and its random streams.

    >>> import torch, understudy as us
    >>> class Drawing(us.Method):
    ...     @us.task(number="statistics")
    ...     def draw(self, client: us.Client, brief: us.Message) -> us.Message:
    ...         client.memory["last"] = torch.rand(1, generator=client.rng("draw"))
    ...         return us.Message(number=client.memory["last"])
    ...
    ...     def round(self, server, state):
    ...         numbers = [reply["number"] for reply in server.ask(self.draw, us.Message(), to=server.cohort())]
    ...         return state.but(mean=torch.stack(numbers).mean())
    >>> result = us.run("digits-skewed", method=Drawing(), model="softmax", rounds=1)
    """

    def __init__(
        self,
        id: str,
        round: int,
        *,
        own: Examples,
        held_out: Examples,
        memory: Memory,
        seed: int,
        common: Examples | None = None,
        budget: Budget | None = None,
    ):
        self.id, self.round = id, round
        self.budget = budget or no_budget(id, round)  # charge(...) before a record is touched
        self.common = common  # a test set that every party has: in a simulation, to score local models on it
        self.own = own  # its records
        self.held_out = held_out  # records kept back for scores
        self.memory = memory
        self._seed = seed
        self._streams: dict[str, torch.Generator] = {}
        self._secrets: dict[str, torch.Generator] = {}

    def without_records(self) -> "Client":
        """The same client, as work outside a charged mechanism may see it: with its memory and streams, but neither
        its records nor their number."""
        outside = copy.copy(self)
        del outside.own, outside.held_out
        return outside

    @property
    def shows_records(self) -> bool:
        return "own" in self.__dict__

    def __getattr__(self, name: str) -> Any:
        if name in ("own", "held_out"):
            raise UserError(
                "privacy: records were read outside the clipped gradient, where no noise covers them; "
                "leave that term out, or choose a method without noise."
            )
        raise AttributeError(name)

    @property
    def dealt(self) -> Examples:
        """Synthetic records dealt to it."""
        if DEALT_X not in self.memory:
            return self.own.none()
        return Examples(self.memory[DEALT_X], labels_from_wire(self.memory[DEALT_Y]))

    def keep_dealt(self, dealt: Message) -> None:
        """Keeps records (``x``, and labels ``y`` in wire format) to train on from now on."""
        self.memory[DEALT_X], self.memory[DEALT_Y] = dealt["x"], dealt["y"]

    @property
    def examples(self) -> Examples:
        """Its own records, then the dealt ones."""
        return self.own.and_also(self.dealt) if DEALT_X in self.memory else self.own

    def rng(self, purpose: str) -> torch.Generator:
        """The stream for one purpose in this round; a second call continues it. One task per purpose."""
        if purpose not in self._streams:
            self._streams[purpose] = generator(self._seed, self.round, self.id, purpose)
        return self._streams[purpose]

    def secret_rng(self, purpose: str) -> torch.Generator:
        """Only for privacy's noise and sampling: seeded by the operating system, whatever the run's seed."""
        if purpose not in self._secrets:
            self._secrets[purpose] = self.budget.secret_stream(self._seed, self.round, self.id, "secret", purpose)
        return self._secrets[purpose]
