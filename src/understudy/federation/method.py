"""The contract of a method.

A method is one file: settings, what a client does (methods marked ``@task``), what the server does
(``start`` and ``round``). It is rebuilt from the config wherever it runs, so it holds nothing that
changes: lasting state is in the server's State or in a client's memory.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast, get_args

from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.kinds import KINDS, NUMBERS, RecordKind
from understudy.data.problem import Problem
from understudy.data.spread import Spread
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message
from understudy.federation.rows import KeepRows, only_rows
from understudy.federation.server import OnlySums, Server, Task
from understudy.learning.loop import Trained
from understudy.learning.together.stacking import Exercise
from understudy.models.network import Network
from understudy.privacy.planning import Spendings
from understudy.privacy.promise import PrivacySettings
from understudy.privacy.published import PublishedClaim

State = Message
Takes = Mapping[RecordKind, str]  # by kind, the settings that it needs: "dsa=false", or "" for none
ANYTHING: Takes = dict.fromkeys(KINDS, "")
ONLY_NUMBERS: Takes = dict.fromkeys(NUMBERS, "")  # records are moved step by step, as token ids cannot be


@dataclass(frozen=True)
class Dealt:
    """Records dealt to a client to train on besides its own."""

    examples: Examples
    nbytes: int  # on the wire
    given: bool  # whether it has them already


@dataclass(frozen=True)
class Job:
    """A task as the client runs it: the work, and the kind of each part that may leave."""

    name: str
    work: Task
    kinds: Mapping[str, Kind]
    keep_rows: KeepRows  # of the method that has the task


Pausing = Generator[Exercise, Trained, Message]  # a task that pauses where it trains


@dataclass(frozen=True)
class Together:
    """A task that several clients do as one program: each for itself until it has something to train, the training of
    all at once, and each for itself from there."""

    work: Callable[[Client, Message], Pausing]
    train: Callable[[Sequence[Exercise]], Sequence[Trained]]


Work = TypeVar("Work", bound=Callable[..., Message])
Exchange = TypeVar("Exchange", bound=Callable[..., State])


def task(**kinds: Kind) -> Callable[[Work], Work]:
    """Marks a method as client work and declares what each part of its reply is. Nothing else leaves the client.

    >>> import torch, understudy as us
    >>> class Counting(us.Method):
    ...     @us.task(records="statistics")
    ...     def count(self, client, brief):
    ...         return us.Message(records=torch.tensor(float(len(client.own))))
    ...
    ...     def round(self, server, state): ...
    >>> sorted(Counting().jobs())
    ['Counting.count', 'Method.score']
    """

    for part, kind in kinds.items():
        if kind not in get_args(Kind):
            raise UserError(f"{part}: {kind!r} is no kind of part; write one of {', '.join(get_args(Kind))}.")

    def mark(function: Work) -> Work:
        function.__understudy_kinds__ = kinds  # type: ignore[attr-defined]
        return function

    return mark


def task_name(work: Task) -> str:
    """``Averaging.train``: the class that defines the task, and its name."""
    return str(getattr(work, "__qualname__", repr(work))).rpartition("<locals>.")[2]


def by_sums(exchange: Exchange) -> Exchange:
    """Marks a ``start`` or ``round`` that sees sums over clients, never a single reply: it gets a server that can only
    sum, in every run. One that overrides it without this mark can read replies again, and `only_sums` knows."""

    @functools.wraps(exchange)
    def summing(self: "Method", server: Server, *state: State) -> State:
        return exchange(self, OnlySums(server), *state)

    summing.__understudy_sums__ = True  # type: ignore[attr-defined]
    return cast(Exchange, summing)


@dataclass(frozen=True)
class Summed:
    rows: Callable[[Examples], Tensor]  # (n, numbers of the reply's statistics): what each record adds
    noise: float  # standard deviation of the noise on each number


class Method(ABC):
    """What clients do (methods marked with `task`) and what the server does in a `round`; one file per method.

    >>> import torch, understudy as us
    >>> class Counting(us.Method):
    ...     @us.task(records="statistics")
    ...     def count(self, client, brief):
    ...         return us.Message(records=torch.tensor(float(len(client.own))))
    ...
    ...     def round(self, server, state):
    ...         replies = list(server.ask(self.count, us.Message(), to=server.cohort()))
    ...         return state.but(records=sum(reply["records"] for reply in replies))
    >>> us.run("digits-skewed", method=Counting(), model="softmax", rounds=1).summary["rounds"]
    1
    """

    net: Network  # set by `bind`, before anything else is called
    rounds: int
    privacy: PrivacySettings | None = None  # what the config promises; set before `bind`
    # What an add-on spends before this method does, at a client with this many records; set before `bind`.
    spent_before: Callable[[int], Spendings] = staticmethod(lambda own: ())

    def bind(self, net: Network, rounds: int) -> None:
        """Sets the network that this process works with; here a method refuses what it cannot do."""
        self.net, self.rounds = net, rounds
        self.__dict__.pop("_known_jobs", None)

    @by_sums
    def start(self, server: Server) -> State:
        """Opening exchanges, if any; the State before round 1."""
        return Message(model=self.net.initial())

    @abstractmethod
    def round(self, server: Server, state: State) -> State:
        """One communication round."""

    def begun_at(self, state: State, model: Tensor) -> State:
        """The State before round 1, if training is to begin at ``model`` instead of the network's first weights."""
        return state.but(model=model)

    def result(self, state: State) -> Tensor:
        """The weights to score and to save."""
        return state["model"]

    def adapt_network(self, module: nn.Module, problem: Problem) -> nn.Module:
        """The network as this method needs it (MOON's projection, VHL's extra outputs); still features and head."""
        return module

    def further_models(self, state: State) -> Mapping[str, Tensor]:
        """More weights to score, by name: FedDyn's corrected model besides the mean."""
        return {}

    def metrics(self, state: State) -> Mapping[str, float]:
        """Extra values for a round's line of metrics."""
        return {}

    def dealt(self, state: State, clients: Sequence[str]) -> Mapping[str, Dealt]:
        """What each client is dealt, whether or not it was asked yet, for `understudy measure`; nothing by default."""
        return {}

    def local_model(self, brief: Message, reply: Message) -> Tensor | None:
        """A client's local model, as the server can compute it from one reply; None: it cannot. For an audit."""
        found = reply.get("model")
        return found if found is not None and tuple(found.shape) == (self.net.size,) else None

    def summed(self, task: str, brief: Message) -> "Summed | None":
        """How one record enters the statistics of a reply, if those are sums over records; None: they are not. For an
        audit."""
        return None

    def prepared(self, client: Client, brief: Message) -> Client:
        """The client as tasks and scores see it: with its records on the scale that the brief brings, for one."""
        return client

    def scaling(self, state: State) -> Spread | None:
        """The scale of floats that was agreed on in the opening; None: records come as they are learnt from."""
        return None

    def personal(self, client: Client, model: Tensor) -> Tensor:
        """The weights that a client scores locally."""
        return model

    def remarks(self, state: State) -> Sequence[str]:
        """Sentences about what happened in a round, for its line of metrics."""
        return ()

    def keep_rows(self, kinds: Mapping[str, Kind], reply: Message, kept: Tensor) -> Message:
        """A client's reply with only the rows ``kept`` of its examples, after a person at the site dropped the others.
        By default rows go from the examples and their labels alike. A method that sends more says here what follows
        for the rest; until it does, its replies leave as a whole or not at all."""
        return only_rows(kinds, reply, kept)

    @property
    def takes(self) -> Takes:
        """The kinds of record that it can work with, and for each what must be set, as typed; others are refused before
        anything is built."""
        return ANYTHING

    @property
    def private(self) -> bool:
        """Whether everything clients send depends on their records only through charged mechanisms."""
        return False

    def published_claim(self, own: Examples) -> PublishedClaim | None:
        """What the method's paper claims for one round of a client with these records, where nothing is charged because
        no guarantee holds; for `understudy audit`. The ledger ignores it."""
        return None

    @property
    def begins_anew(self) -> bool:
        """Whether it draws fresh weights to train, whatever State's model is."""
        return False

    @property
    def scored_at_home(self) -> bool:
        """Whether part of every model stays with its client, so that only clients can score."""
        return False

    def model_brief(self, state: State) -> Message:
        """Only the model, as clients score it at the end."""
        return Message(model=self.result(state))

    @task()
    def score(self, client: Client, brief: Message) -> Message:
        """Only the scores that a site adds on request; closes a run without a test set."""
        return Message()

    def effort(self, records: int, classes: int) -> int:
        """Roughly how many samples a client with this many records and classes sends through the network per round;
        called before there is a network. It decides whether compiling pays off, so it counts what is compiled."""
        return 0

    def samples(self, records: int, classes: int, rounds: range) -> float:
        """Roughly how many samples a client sends through the network in all these rounds, for plans: forward and back
        is one, forward alone a third. Unlike `effort` it counts what add-ons do besides."""
        return float(len(rounds) * self.effort(records, classes))

    def together(self, task: str) -> Together | None:
        """How a group of clients does this task as one program, with results that are equal up to rounding; None: its
        clients work one by one."""
        return None

    def why_one_by_one(self) -> str:
        """If its clients always train one by one: why, as half a sentence."""
        return "this method has no program for several clients"

    def jobs(self) -> dict[str, Job]:
        """Every task that a client can be asked for, by name."""
        found: dict[str, Job] = {}
        for attribute in dir(type(self)):
            function = getattr(type(self), attribute, None)
            kinds = getattr(function, "__understudy_kinds__", None)
            if kinds is not None:
                work = getattr(self, attribute)
                found[task_name(work)] = Job(task_name(work), work, kinds, self.keep_rows)
        return found


def taken_by_all(parts: Iterable[Takes]) -> Takes:
    """What all of them take, with what each needs."""
    every = list(parts)
    return {
        kind: " ".join(dict.fromkeys(one[kind] for one in every if one[kind]))
        for kind in KINDS
        if all(kind in one for one in every)
    }


def known_jobs(method: Method) -> dict[str, Job]:
    """Its `jobs`, worked out once per method: they are looked up for every request."""
    known: tuple[Method, dict[str, Job]] | None = method.__dict__.get("_known_jobs")
    if known is None or known[0] is not method:  # a copy has its own
        known = method.__dict__["_known_jobs"] = (method, method.jobs())
    return known[1]


def only_sums(method: Method) -> bool:
    """Nothing in this method's server can read what a single client sent."""
    return all(hasattr(exchange, "__understudy_sums__") for exchange in (type(method).start, type(method).round))
