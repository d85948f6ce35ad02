"""Server: what a method sees of the federation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import torch

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message

PartShapes = Mapping[str, Sequence[int]]  # of a reply, by part
Least = Mapping[str, float]  # the smallest number a part may hold
NO_BOUNDS: Least = MappingProxyType({})
Task = Callable[[Client, Message], Message]
Brief = Message | Callable[[str], Message]  # one for all, or one per client name


class TooFewReplies(Exception):
    """The round is undone: State and memories are as they were."""


class Reply(Message):
    """What one client sent."""

    def __init__(self, client: str, message: Message, veto: Callable[[str], None]):
        self._parts = message._parts  # as `Message` put them
        self.client = client
        self.refusal: str | None = None
        self._veto = veto

    def refuse(self, why: str) -> None:
        """The method's veto: recorded as a failure, and the client's memory steps back."""
        if self.refusal is None:
            self._veto(why)
            self.refusal = why


class Server(ABC):
    """What a method's `round` sees of the federation: whom it may ask, and their replies.

    >>> import understudy as us
    >>> class Quiet(us.Method):
    ...     def round(self, server: us.Server, state: us.State) -> us.State:
    ...         print(server.round, len(server.clients), len(server.cohort()))
    ...         return state
    >>> result = us.run("digits-skewed", method=Quiet(), model="softmax", rounds=1, cohort=3)
    1 10 3
    """

    clients: Sequence[str]  # all names, whether or not they take part in this round
    round: int  # 0 is the opening

    @abstractmethod
    def cohort(self) -> list[str]:
        """Who takes part in this round; the same throughout it."""

    @abstractmethod
    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        """Replies in the order of ``to``. Failures are recorded, not yielded; with fewer than ``at_least``
        replies the round is undone."""

    @abstractmethod
    def leave_out(self, client: str, why: str) -> None:
        """It is not asked again in this run, and a failure is recorded. Only for what must be its own fault."""

    @abstractmethod
    def rng(self, purpose: str) -> torch.Generator: ...

    def sum(self, task: Task, brief: Brief, to: Sequence[str], like: PartShapes, least: Least = NO_BOUNDS) -> Message:
        """The replies summed part by part, in float64 and in the order of ``to``.

        ``like`` gives the shape of every part, ``least`` the smallest value it may hold (a divisor must not be
        negative); a reply that does not fit is refused, not averaged in.
        """
        total = {part: torch.zeros(tuple(shape), dtype=torch.float64) for part, shape in like.items()}
        shapes = {part: tensor.shape for part, tensor in total.items()}
        for reply in self.ask(task, brief, to):
            if {part: t.shape for part, t in reply.items()} != shapes:
                reply.refuse(f"it holds {reply!r}, but {', '.join(total)} of other shapes are expected")
                continue
            below = [part for part, limit in least.items() if _falls_below(reply[part], limit)]
            if below:
                reply.refuse(f"its {below[0]} is below {least[below[0]]:g}")
                continue
            for part, tensor in reply.items():
                total[part].add_(tensor)
        return Message(total)


def _falls_below(tensor: torch.Tensor, limit: float) -> bool:
    return tensor.item() < limit if tensor.numel() == 1 else bool((tensor < limit).any())


class WrappedServer(Server):
    """A server seen through an add-on, which may change what is asked."""

    def __init__(self, inner: Server):
        self.inner = inner
        self.clients, self.round = inner.clients, inner.round

    def cohort(self) -> list[str]:
        return self.inner.cohort()

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        return self.inner.ask(task, brief, to, at_least)

    def leave_out(self, client: str, why: str) -> None:
        self.inner.leave_out(client, why)

    def rng(self, purpose: str) -> torch.Generator:
        return self.inner.rng(purpose)


class OnlySums(WrappedServer):
    """A server that adds replies up and shows none."""

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        name = getattr(task, "__qualname__", "a task")
        raise UserError(
            f"{name} is asked for single replies where only sums are seen; use server.sum, or leave out @by_sums above "
            "`start` or `round`."
        )

    def sum(self, task: Task, brief: Brief, to: Sequence[str], like: PartShapes, least: Least = NO_BOUNDS) -> Message:
        return self.inner.sum(task, brief, to, like, least)
