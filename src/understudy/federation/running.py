"""The server that a run uses: it numbers the asks, keeps the round's record, and hands out the replies."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from understudy.data.population import NumberedNames
from understudy.errors import UserError
from understudy.federation.cohorts import draw_cohort, in_order
from understudy.federation.exchange import NOTHING, Answer, Engine, Request
from understudy.federation.incoming import Incoming
from understudy.federation.message import Message
from understudy.federation.method import Method, task_name
from understudy.federation.release import labelled
from understudy.federation.round_record import Ask, RoundRecord
from understudy.federation.server import Brief, Reply, Server, Task
from understudy.federation.transcript import Exchanged
from understudy.privacy.ledger import Ledger, Release
from understudy.randomness import generator

AT_THE_SERVER = "work at the server"  # the phase after an exchange


@dataclass(frozen=True)
class RunFacts:
    """What stays the same throughout a run."""

    run: str  # its unique name
    config: str  # digest of what server and clients must agree on
    seed: int
    cohort: int  # clients per round
    at_least: int  # replies without which a round is undone
    score_at_clients: bool
    held_out: Mapping[str, int]  # the most records each client may have scored on


class RunServer(Server):
    def __init__(
        self,
        engine: Engine,
        method: Method,
        clients: Sequence[str],
        facts: RunFacts,
        *,
        heard: Callable[[str], None] | None = None,
        phase: Callable[[int, str, Sequence[str]], None] | None = None,  # told: round, task, who is asked
        released: Callable[[Release], None] | None = None,
        exchanged: Callable[[Exchanged], None] | None = None,  # for a transcript
    ):
        self.clients: Sequence[str] = clients if isinstance(clients, NumberedNames) else in_order(clients)
        self._known = self.clients if isinstance(self.clients, NumberedNames) else frozenset(self.clients)
        self.round = 0
        self.record = RoundRecord()
        self.versions: dict[str, str] = {}  # of client memories, as the checkpoint names them
        self.spent: set[str] = set()  # clients without privacy budget for what they were asked
        self.left_out: set[str] = set()  # clients that a method has permanently left out
        self._engine, self._facts, self._problem = engine, facts, method.net.problem
        self._incoming = Incoming(method, facts.run, facts.held_out, released)
        self._heard = heard or (lambda client: None)
        self._phase = phase or (lambda round, task, asked: None)
        self._exchanged = exchanged
        self._briefs: dict[str, Message] = {}  # on their way, for the transcript
        engine.late = self._late
        self.begin(0)

    @property
    def ledger(self) -> Ledger:
        """Everything that has left the clients so far."""
        return self._incoming.ledger

    @ledger.setter
    def ledger(self, ledger: Ledger) -> None:
        self._incoming.ledger = ledger

    # ---- what a method sees

    def cohort(self) -> list[str]:
        rng = generator(self._facts.seed, self.round, "cohort")
        away = (self.spent | self.left_out) - self._gone_now
        there = [client for client in self.clients if client not in away] if away else self.clients
        return draw_cohort(there, self._facts.cohort, rng)

    def leave_out(self, client: str, why: str) -> None:
        self.left_out.add(client)
        self._gone_now.add(client)
        self.record.fail(client, f"it is left out from now on: {why}")

    def rng(self, purpose: str) -> torch.Generator:
        if purpose not in self._streams:
            self._streams[purpose] = generator(self._facts.seed, self.round, "server", purpose)
        return self._streams[purpose]

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        name = task_name(task)
        if name not in self._incoming.kinds:
            raise UserError(f"'{name}' is not a task of this method; mark it with @task.")
        strangers = [client for client in to if client not in self._known]
        if strangers or len(set(to)) < len(to):
            who = f"'{strangers[0]}', who is not a client" if strangers else "a client twice"
            raise UserError(f"{name} was asked of {who}; ask every client once.")
        to = [client for client in to if client not in self.left_out]
        self._step += 1
        asked = Ask(name, self.round, self._step, len(to), self._facts.at_least if at_least is None else at_least)
        self._asks.append(asked)
        return self._replies(asked, brief, to)

    # ---- what a run does

    def begin(self, round: int, *, first_step: int = 1) -> None:
        self.round, self._step = round, first_step - 1
        self.record = RoundRecord()
        self._asks: list[Ask] = []
        self._open = False
        self._pending: dict[str, str] = {}  # versions that count once the round is on disk
        self._scored: set[str] = set()  # clients already asked for scores in this round
        self._gone_now: set[str] = set()  # spent or left out; they stay in this round's cohort, which never changes
        self._streams: dict[str, torch.Generator] = {}

    def restore(self, done: int, versions: Mapping[str, str], spent: Iterable[str], left_out: Iterable[str]) -> None:
        """Goes on after round ``done``, as its checkpoint has it."""
        self.begin(done)
        self.versions, self.spent, self.left_out = dict(versions), set(spent), set(left_out)

    def able(self) -> bool:
        """Whether anyone can still be asked."""
        return len(self.clients) > len(self.spent | self.left_out)

    def check_replies(self) -> None:
        """At the end of a round, since a method may have refused replies after reading them all."""
        for asked in self._asks:
            asked.check_read()
            asked.check()

    def settled(self) -> dict[str, str]:
        """The memory versions that count if this round does."""
        together = {**self.versions, **self._pending}
        return {client: version for client, version in together.items() if version != NOTHING}

    def undo(self) -> None:
        """The round does not count: memories stay where the checkpoint left them."""
        self._pending = {}

    def commit(self) -> None:
        self.versions = self.settled()
        self._engine.settle(self.record.answered)

    # ---- inside

    def _replies(self, asked: Ask, brief: Brief, to: Sequence[str]) -> Iterator[Reply]:
        if self._open:
            raise UserError(f"{asked.task} was asked while replies to another ask were still coming; read those first.")
        self._open = asked.read = True
        self._phase(self.round, asked.task, to)
        try:
            for answer in self._engine.exchange(self._requests(asked, brief, to)):
                self._heard(answer.client)
                self.record.note_deaths(answer)
                self.record.note_seconds(answer)
                message = self._read(asked, answer)
                if message is not None:
                    yield self._reply(asked, answer, message)
        finally:
            self._open = False
            self._phase(self.round, AT_THE_SERVER, ())
        asked.check()

    def _requests(self, asked: Ask, brief: Brief, to: Sequence[str]) -> Iterator[Request]:
        shared = brief.to_bytes() if isinstance(brief, Message) else b""
        for client in to:
            message = brief if isinstance(brief, Message) else brief(client)
            body = shared or message.to_bytes()
            if self._exchanged is not None:
                self._briefs[client] = message
            settled = self.versions.get(client, NOTHING)
            self.record.down[client] = self.record.down.get(client, 0) + len(body)
            score = self._facts.score_at_clients and "model" in message and client not in self._scored
            if score:
                self._scored.add(client)
                asked.scoring.add(client)
            yield Request(
                run=self._facts.run,
                config=self._facts.config,
                client=client,
                task=asked.task,
                round=self.round,
                step=asked.step,
                start=self._pending.get(client, settled),
                settled=settled,
                score=score,
                body=body,
            )

    def _read(self, asked: Ask, answer: Answer) -> Message | None:
        """What a client sent, if it counts. Whatever it sent, the result is a message or the client's failure."""
        if answer.outcome == "waiting":
            asked.waiting.append(answer.client)
            return None
        try:
            return self._message(asked, answer)
        except UserError as broken:
            self.record.fail(answer.client, str(broken))
            return None

    def _message(self, asked: Ask, answer: Answer) -> Message:
        if answer.outcome == "done":
            return self._incoming.message(asked, answer, self.record, self.round)
        self._incoming.failure(asked, answer, self.round)
        if answer.outcome == "spent":
            self.spent.add(answer.client)
            self._gone_now.add(answer.client)
        raise UserError(answer.why)

    def _late(self, request: Request, answer: Answer) -> None:
        """A late answer does not count. What left and what it cost is recorded all the same."""
        asked = Ask(request.task, request.round, request.step, asked=0, needed=0)
        with contextlib.suppress(UserError):
            if answer.outcome != "waiting":
                self._message(asked, answer)

    def _reply(self, asked: Ask, answer: Answer, message: Message) -> Reply:
        client, before = answer.client, self._pending.get(answer.client)
        self._pending[client] = answer.version
        self.record.answered.add(client)
        asked.good += 1
        if self._exchanged is not None:
            brief = self._briefs.pop(client)
            self._exchanged(Exchanged(client, asked.round, asked.step, asked.task, brief, message))
        sent = labelled(message, self._incoming.kinds[asked.task], self._problem)
        if sent is not None and len(sent):
            self.record.examples[client] = sent

        def refuse(why: str) -> None:
            if self._asks[-1] is not asked or asked not in self._asks:
                raise UserError(f"The reply of {client} to {asked.task} can only be refused before the next ask.")
            asked.good -= 1
            self.record.answered.discard(client)
            self.record.examples.pop(client, None)
            self.record.fail(client, f"the method refused its reply: {why}")
            del self._pending[client]
            if before is not None:
                self._pending[client] = before

        return Reply(client, message, refuse)
