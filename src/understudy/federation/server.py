"""Server: what a method sees of the federation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.federation.client import Client
from understudy.federation.message import Message

Task = Callable[[Client, Message], Message]
Brief = Message | Callable[[str], Message]  # one for all, or one for each name


class TooFewReplies(Exception):
    """The round is undone: State and memories are as they were."""


@dataclass
class Reply(Mapping[str, Tensor]):
    client: str
    message: Message
    refusal: str | None = None

    def refuse(self, why: str) -> None:
        """The method's veto: recorded as a failure, and the client's memory steps back."""
        self.refusal = why

    def __getitem__(self, part: str) -> Tensor:
        return self.message[part]

    def __iter__(self) -> Iterator[str]:
        return iter(self.message)

    def __len__(self) -> int:
        return len(self.message)


class Server(ABC):
    clients: Sequence[str]  # all names, whether they take part in this round or not
    round: int  # 0 is the opening

    @abstractmethod
    def cohort(self) -> list[str]:
        """Who takes part in this round; the same all through it."""

    @abstractmethod
    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        """Replies in the order of ``to``. Failures are recorded, not yielded; with fewer than ``at_least``
        replies the round is undone."""

    @abstractmethod
    def rng(self, purpose: str) -> torch.Generator: ...

    def sum(self, task: Task, brief: Brief, to: Sequence[str]) -> Message:
        """The replies added up part by part, in float64 and in the order of ``to``."""
        total: dict[str, Tensor] = {}
        for reply in self.ask(task, brief, to):
            odd = [part for part, tensor in reply.items() if part in total and total[part].shape != tensor.shape]
            if odd:
                reply.refuse(f"its {', '.join(odd)} has another shape than that of the others")
                continue
            for part, tensor in reply.items():
                total[part] = total[part].add_(tensor) if part in total else tensor.to(torch.float64, copy=True)
        return Message(total)


class ServerBehind(Server):
    """A server seen through an add-on, which may change what is asked."""

    def __init__(self, server: Server):
        self.behind = server
        self.clients, self.round = server.clients, server.round

    def cohort(self) -> list[str]:
        return self.behind.cohort()

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        return self.behind.ask(task, brief, to, at_least)

    def rng(self, purpose: str) -> torch.Generator:
        return self.behind.rng(purpose)
