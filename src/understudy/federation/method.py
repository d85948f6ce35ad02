"""The contract of a method.

A method is one file: settings, what a client does (methods marked ``@task``), what the server does
(``start`` and ``round``). It is built anew from the config wherever it runs, so it holds nothing that
changes: what lasts is in the server's State or in a client's memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message
from understudy.federation.server import OnlySums, Server, Task
from understudy.models.network import Network
from understudy.privacy.planning import Spendings
from understudy.privacy.promise import PrivacySettings

State = Message


@dataclass(frozen=True)
class Job:
    """A task as the client's side runs it: the work, and the kind of each part that may leave."""

    name: str
    work: Task
    kinds: Mapping[str, Kind]


Work = TypeVar("Work", bound=Callable[..., Message])


def task(**kinds: Kind) -> Callable[[Work], Work]:
    """Marks a method as client work and declares what each part of its reply is."""

    def mark(function: Work) -> Work:
        function.__understudy_kinds__ = kinds  # type: ignore[attr-defined]
        return function

    return mark


def task_name(work: Task) -> str:
    """``Averaging.train``: the class that defines the task, and its name."""
    return str(getattr(work, "__qualname__", repr(work))).rpartition("<locals>.")[2]


class Method(ABC):
    net: Network  # set by `bind`, before anything else is called
    rounds: int
    problem: Problem  # set before `effort` is asked, when there is no network yet
    privacy: PrivacySettings | None = None  # what the config promises; set before `bind`
    # What an add-on spends on the records of a client with so many of them before this method does; set before `bind`.
    spent_before: Callable[[int], Spendings] = staticmethod(lambda own: ())

    def bind(self, net: Network, rounds: int) -> None:
        """The network that this process works with; here a method refuses what it cannot do."""
        self.net, self.rounds, self.problem = net, rounds, net.problem

    def start(self, server: Server) -> State:
        """Opening exchanges, if any; the State before round 1."""
        return Message(model=self.net.initial())

    @abstractmethod
    def round(self, server: Server, state: State) -> State:
        """One communication round."""

    def result(self, state: State) -> Tensor:
        """The weights to score and to save."""
        return state["model"]

    def dress(self, module: nn.Module, problem: Problem) -> nn.Module:
        """The network as this method needs it (MOON's projection, VHL's further outputs); still features and head."""
        return module

    def also(self, state: State) -> Mapping[str, Tensor]:
        """Further weights worth a score, by name: FedDyn's corrected model beside the mean."""
        return {}

    def metrics(self, state: State) -> Mapping[str, float]:
        """What else of a round belongs into its line."""
        return {}

    def personal(self, client: Client, model: Tensor) -> Tensor:
        """The weights that a client scores at home."""
        return model

    def remarks(self, state: State) -> Sequence[str]:
        """Sentences for a person about what happened in a round: they stand in its line."""
        return ()

    @property
    def private(self) -> bool:
        """Everything that clients send depends on their records through charged mechanisms only."""
        return False

    @property
    def scored_at_home(self) -> bool:
        """Part of every model stays with its client, so only clients can score."""
        return False

    def model_brief(self, state: State) -> Message:
        """The model alone, as clients score it at the end."""
        return Message(model=self.result(state))

    @task()
    def score(self, client: Client, brief: Message) -> Message:
        """Nothing but the scores that a site adds when it is asked for them; closes a run without a test set."""
        return Message()

    def effort(self, records: int) -> int:
        """Samples that a client with so many records sends through the network in a round, roughly."""
        return 0

    def jobs(self) -> dict[str, Job]:
        """Everything that a client can be asked for, by name."""
        found: dict[str, Job] = {}
        for attribute in dir(type(self)):
            function = getattr(type(self), attribute, None)
            kinds = getattr(function, "__understudy_kinds__", None)
            if kinds is not None:
                work = getattr(self, attribute)
                found[task_name(work)] = Job(task_name(work), work, kinds)
        return found


class SummingMethod(Method):
    """A method whose server sees sums over clients, never a single reply: it is handed a server that can only sum.

    It writes ``opening`` and ``turn`` in the place of ``start`` and ``round``; one that writes ``round`` itself sees
    replies again, and `only_sums` says so.
    """

    def start(self, server: Server) -> State:
        return self.opening(OnlySums(server))

    def round(self, server: Server, state: State) -> State:
        return self.turn(OnlySums(server), state)

    def opening(self, server: Server) -> State:
        """`start`, by sums."""
        return super().start(server)

    @abstractmethod
    def turn(self, server: Server, state: State) -> State:
        """`round`, by sums."""


def only_sums(method: Method) -> bool:
    """Nobody in this method's server could read what a single client sent."""
    kind = type(method)
    return issubclass(kind, SummingMethod) and (kind.start, kind.round) == (SummingMethod.start, SummingMethod.round)
