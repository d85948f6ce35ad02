"""The server's end: our loop over Flower's Grid.

A client is a name. Which node answers for it is looked up repeatedly: after a crash it may be another one. A client
that is offline, or whose node went down over a request, is asked again until this exchange times out; that is safe,
since a site that has answered once sends the same bytes again.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.engines.flower import wire
from understudy.federation.exchange import Answer, Engine, Request, failed
from understudy.printable import printable

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

POLL = 0.2  # seconds between checks for replies
LOOK_AROUND = 2.0  # seconds between checks of who is online
WINDOW = 64  # clients asked at a time
TRIES = 3  # requests that may go down with a client's process before we give up on it
GONE = (3, 5, 8)  # Flower's codes: the reply did not arrive whole; the node is offline; the working process died


Attends = Callable[[Collection[str], Collection[str]], None]  # told who is online, and whose answer is awaited


def ignore(there: Collection[str], awaited: Collection[str]) -> None:
    """For when nobody looks on."""


@dataclass
class Waiting:
    """A request without an answer yet."""

    request: Request
    until: float
    node: int | None = None  # where it was sent
    message: str | None = None
    tries: int = 0


@dataclass
class Flower(Engine):
    grid: "Grid"
    spool: Path  # early answers wait here
    timeout: float  # how long a client may take to answer, in seconds, including time offline
    insecure: bool = False  # nodes have no keys, so we take their word for who they are
    check: Callable[[], None] = lambda: None  # raises if the link is gone
    attends: Attends = ignore
    largest: int = wire.LARGEST
    _names: dict[int, str] = field(default_factory=dict)  # of nodes that said hello
    _greeted: dict[str, int] = field(default_factory=dict)  # unanswered hellos, and to which node they went
    _owing: dict[str, Waiting] = field(default_factory=dict)  # clients given up on, and what they still work on
    _looked: float = float("-inf")
    _there: dict[str, int] = field(default_factory=dict)

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        coming, order = iter(requests), deque[str]()
        waiting: dict[str, Waiting] = {}
        early: dict[str, Answer] = {}
        exhausted = others = False
        while True:
            while not exhausted and len(order) < WINDOW:
                request = next(coming, None)
                exhausted = request is None
                if request is not None:
                    order.append(request.client)
                    others |= request.client not in self._owing
                    waiting[request.client] = Waiting(request, time.monotonic() + self.timeout)
            while order and order[0] in early:
                yield early.pop(order.popleft())
            if not order:
                if exhausted:
                    return
                continue
            self._send(waiting)
            # Nobody who just answered is given up on, so the time is only checked when nothing came.
            answers = self._received(waiting) or self._given_up(waiting, others)
            for client, answer in answers.items():
                one = waiting.pop(client)
                took = time.monotonic() - (one.until - self.timeout)
                early[client] = replace(self._spooled(one.request, answer), seconds=took)
            self.attends(self._there, waiting)
            if not answers:
                self.check()
                time.sleep(POLL)

    # ---- sending

    def _send(self, waiting: dict[str, Waiting]) -> None:
        from flwr.app import Message

        there = self.there()
        for client, one in waiting.items():
            node = there.get(client)
            if node is None or (one.message is not None and one.node == node):
                continue
            message = Message(
                wire.pack_request(one.request),
                dst_node_id=node,
                message_type=wire.ASK,
                ttl=max(1.0, one.until - time.monotonic()) + 30,
                group_id=str(one.request.round),
            )
            one.node, one.tries = node, one.tries + 1
            one.message = next(iter(self.grid.push_messages([message])), None)

    def there(self) -> dict[str, int]:
        """Who is online now: the node that answers for each name."""
        if time.monotonic() - self._looked >= LOOK_AROUND:
            # Without keys, a site that comes back is a new node, and the old one lingers: the newest counts.
            newest_last = sorted(self.grid.get_nodes(), key=lambda node: str(node.last_activated_at))
            nodes = {node.node_id: node.name for node in newest_last}
            if self.insecure:
                self._ask_names([node for node in nodes if node not in self._names])
                nodes = {node: self._names.get(node, "") for node in nodes}
            self._there = {name: node for node, name in nodes.items() if name}
            self._looked = time.monotonic()
        return self._there

    def _ask_names(self, strangers: list[int]) -> None:
        """Without waiting: a node that sends no name, or something strange, is ignored and delays nobody."""
        from flwr.app import Message, RecordDict

        for node in strangers:
            if node not in self._greeted.values():
                hello = Message(RecordDict(), dst_node_id=node, message_type=wire.HELLO, ttl=60.0)
                self._greeted.update(dict.fromkeys(self.grid.push_messages([hello]), node))
        for reply in self.grid.pull_messages(list(self._greeted)) if self._greeted else ():
            node = self._greeted.pop(reply.metadata.reply_to_message_id)
            if not reply.has_error():
                self._names[node] = wire.read_name(reply.content)

    # ---- receiving

    def _received(self, waiting: dict[str, Waiting]) -> dict[str, Answer]:
        by_message = {one.message: client for client, one in waiting.items() if one.message is not None}
        late = {one.message: client for client, one in self._owing.items() if one.message is not None}
        found: dict[str, Answer] = {}
        for reply in self.grid.pull_messages([*by_message, *late]) if by_message or late else ():
            message = reply.metadata.reply_to_message_id
            if message in late:
                self._too_late(self._owing.pop(late[message]), reply)
            elif message in by_message:
                answer = self._read(waiting[by_message[message]], reply)
                if answer is not None:
                    found[by_message[message]] = answer
        return found

    def _too_late(self, one: Waiting, reply: "Message") -> None:
        """It came too late to count, but it has left its site."""
        if (answer := self._read(one, reply)) is not None:
            self.late(one.request, answer)

    def _read(self, one: Waiting, reply: "Message") -> Answer | None:
        """None: the client is asked again."""
        client = one.request.client
        try:
            if not reply.has_error():
                return wire.read_answer(reply.content, client=client, largest=self.largest)
            code, reason = int(reply.error.code), printable(" ".join(str(reply.error.reason).split()), 200)
        except Exception as wrong:  # whatever one site sends, the others' answers count
            return failed(client, f"its answer cannot be read ({type(wrong).__name__})")
        if code in GONE and one.tries < TRIES:
            one.node = one.message = None  # asked again once its node is back
            self._looked = float("-inf")
            return None
        return failed(
            client, reason if code == wire.UNREADABLE else f"its node failed (Flower's code {code}: {reason})"
        )

    def _given_up(self, waiting: dict[str, Waiting], others: bool) -> dict[str, Answer]:
        """Clients out of time. One still working on an earlier request is waited for only as long as others are."""
        now = time.monotonic()
        busy = {client for client in waiting if client in self._owing}
        only_busy_left = others and not any(one.until > now for client, one in waiting.items() if client not in busy)
        found: dict[str, Answer] = {}
        for client, one in waiting.items():
            late = one.until <= now
            if not late and not (only_busy_left and client in busy):
                continue
            why = f"it did not answer within {self.timeout:.0f} s" if late else "it is busy with an earlier request"
            found[client] = failed(client, why if one.message is not None else "it was offline")
            if one.message is not None:
                self._owing[client] = one
        return found

    def _spooled(self, request: Request, answer: Answer) -> Answer:
        """Early answers wait for their turn on disk, and are read once."""
        if answer.outcome != "done":
            return answer
        self.spool.mkdir(parents=True, exist_ok=True)
        file = self.spool / f"{request.client}.safetensors"
        file.write_bytes(answer.read())

        def read() -> bytes:
            data = file.read_bytes()
            file.unlink()
            return data

        return Answer(**answer.header(), read=read)

    def wait_for(self, clients: Iterable[str], heard: Callable[[list[str]], None], enough: int | None = None) -> None:
        """Waits until all of them are online, or, once the timeout for an answer has passed, ``enough`` of them.

        ``heard`` is told who is missing.
        """
        wanted, until = list(clients), time.monotonic() + self.timeout
        told: list[str] = []
        while missing := [client for client in wanted if client not in self.there()]:
            if enough is not None and len(wanted) - len(missing) >= enough and time.monotonic() > until:
                return
            if missing != told:
                heard(missing)
                told = missing
            self.attends(self._there, ())
            self.check()
            time.sleep(POLL)
