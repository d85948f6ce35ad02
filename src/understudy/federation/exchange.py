"""What an engine moves: requests to clients and their answers.

The header holds nothing derived from data; the body is a Message in bytes, and only the body is counted.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from understudy.errors import UserError
from understudy.federation.message import Message

NOTHING = ""  # the version of a client that has no memory yet


@dataclass(frozen=True)
class Request:
    run: str  # the run's unique name: what a client kept for another run does not count
    config: str  # digest of what both sides must agree on: method, add-ons, network, problem, privacy, seed
    client: str
    task: str
    round: int
    step: int  # the round's n-th ask
    start: str  # the version of memory to start from
    settled: str  # the version that the checkpoint names: older ones may be deleted
    score: bool  # score the brief's model on held-out records first
    body: bytes

    def header(self) -> bytes:
        return json.dumps({name: value for name, value in vars(self).items() if name != "body"}).encode()

    @classmethod
    def of(cls, header: bytes, body: bytes) -> "Request":
        try:
            return cls(**json.loads(header), body=body)
        except (TypeError, ValueError, RecursionError):
            raise UserError("A request came with a header that cannot be read.") from None


# spent: it has no privacy budget left for this; waiting: a person at the site must review its reply first
Outcome = Literal["done", "failed", "refused", "spent", "waiting"]


@dataclass(frozen=True)
class Answer:
    client: str
    outcome: Outcome
    why: str  # if not "done": a sentence for people who may see the records
    version: str  # of the client's memory after the task
    read: Callable[[], bytes]  # its reply
    charges: Sequence[Mapping[str, Any]] = ()  # what the task spent, as the site's charge log has it
    code: str = ""  # of a failure; `why` stays on the site's machine, the code may travel
    records_seen: bool = False  # a person decided on the reply with records in view, which no mechanism covers
    # Asked again, it would send the same bytes, so nobody needs a digest to recognise them; never reported by a site.
    repeatable: bool = False
    message: Message | None = None  # its reply, if it was made in this process and need not be encoded to be read
    deaths: int = 0  # of processes working for it; counted by the engine, never reported by a site
    lost: bool = False  # whether it failed because of them
    seconds: float = 0.0  # from the request to this answer; measured by the engine, never reported by a site

    def after(self, seconds: float) -> "Answer":
        """The same, given after so long; quicker than `dataclasses.replace`, which every reply of a round would wait
        for."""
        timed = object.__new__(Answer)
        timed.__dict__.update(self.__dict__, seconds=seconds)
        return timed

    def header(self) -> dict[str, Any]:
        """Everything but the bytes, as plain values."""
        plain = {name: getattr(self, name) for name in ("client", "outcome", "why", "code", "version", "records_seen")}
        return {**plain, "charges": [dict(charge) for charge in self.charges]}


def failed(client: str, why: str, *, outcome: Outcome = "failed", code: str = "failed") -> Answer:
    return Answer(client, outcome, why, NOTHING, lambda: b"", code=code)


class Engine(ABC):
    """Where clients run. It moves bytes and knows no method."""

    late: Callable[[Request, Answer], None] = staticmethod(lambda request, answer: None)  # gets late answers

    @abstractmethod
    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """One answer per request, in the order of the requests, a few in flight at a time."""

    def settle(self, clients: Iterable[str]) -> None:
        """The round is on disk: these clients' replies will not be asked for again."""

    def close(self) -> None:
        """No more requests."""
