"""The server that a run uses: it numbers the asks, keeps the round's record, and hands out what came back."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.cohorts import draw_cohort, in_order
from understudy.federation.exchange import NOTHING, Answer, Engine, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, task_name
from understudy.federation.release import labelled
from understudy.federation.server import Brief, Reply, Server, Task, TooFewReplies
from understudy.federation.site import SCORE, check_version
from understudy.learning.evaluate import Tally
from understudy.printing import printable
from understudy.privacy.charges import Charge, Place, composed
from understudy.privacy.ledger import Ledger, Release
from understudy.randomness import generator

LARGEST = 1e15  # of a number in a reply: squares of millions of them still add up to a float32
UNDECLARED = "undeclared"
MOST_CHARGES = 64  # of one reply: one for each mechanism, and again for every time that the work failed
MOST_WAYS = 256  # pairs of rate and noise of one client in a run, each of which takes time to count


class RepliesWait(Exception):
    """People at some clients have to look at a reply before it leaves; the round is asked again once they have."""

    def __init__(self, task: str, clients: Sequence[str]):
        self.task, self.clients = task, clients
        super().__init__(f"replies to {task} wait for approval at {', '.join(clients)}")


@dataclass
class RoundRecord:
    """What happened in one round."""

    up: dict[str, int] = field(default_factory=dict)  # bytes, by client
    down: dict[str, int] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    failures: list[dict[str, str]] = field(default_factory=list)
    workers_died: int = 0  # processes that had to be replaced
    lost: list[str] = field(default_factory=list)  # clients that failed because theirs died again and again
    scores: Tally = field(default_factory=Tally)  # of the model that the briefs brought
    examples: dict[str, Examples] = field(default_factory=dict)  # the newest synthetic set of each client

    def by_client(self) -> dict[str, list[int]]:
        """Bytes up and down of everybody who was asked."""
        return {client: [self.up.get(client, 0), down] for client, down in self.down.items()}

    def fail(self, client: str, why: str) -> None:
        """The one place where words of a site, or about what it sent, come in: made fit for a terminal."""
        self.failures.append({"client": client, "why": printable(why)})

    def note_deaths(self, answer: Answer) -> None:
        self.workers_died += answer.deaths
        if answer.lost:
            self.lost.append(answer.client)


@dataclass
class _Ask:
    """One exchange of a round, and how many of its replies still count."""

    task: str
    round: int
    step: int
    asked: int
    needed: int
    good: int = 0
    scoring: set[str] = field(default_factory=set)  # clients that were asked for scores, and have not sent them yet
    waiting: list[str] = field(default_factory=list)  # clients where a person has to look first

    def check(self) -> None:
        if self.waiting:
            raise RepliesWait(self.task, self.waiting)
        if self.good < min(self.needed, self.asked):
            raise TooFewReplies(f"{self.good} of {self.asked} clients answered {self.task}, {self.needed} are needed")


class RunServer(Server):
    def __init__(
        self,
        engine: Engine,
        method: Method,
        clients: Sequence[str],
        *,
        run: str,
        config: str,
        seed: int,
        cohort: int,
        at_least: int,
        score_at_clients: bool,
        held_out: Mapping[str, int],
        heard: Callable[[str], None] | None = None,
        released: Callable[[Release], None] | None = None,
    ):
        self.clients = in_order(clients)
        self.round = 0
        self.ledger = Ledger()
        self.record = RoundRecord()
        self.versions: dict[str, str] = {}  # of client memories, as the checkpoint names them
        self.spent: set[str] = set()  # clients without privacy budget for what they were asked
        self.left_out: set[str] = set()  # clients that a method has left out for good
        self._engine, self._run, self._config, self._seed = engine, run, config, seed
        self._problem, self._promise = method.net.problem, method.privacy
        self._held_out = held_out  # the most records that each client may have scored on
        self._kinds = {name: job.kinds for name, job in method.jobs().items()}
        self._cohort_size, self._at_least, self._score = cohort, at_least, score_at_clients
        self._heard = heard or (lambda client: None)
        self._released = released or (lambda release: None)  # hears of every reply before the method does
        engine.late = self._late
        self.begin(0)

    # ---- what a method sees

    def cohort(self) -> list[str]:
        rng = generator(self._seed, self.round, "cohort")
        there = set(self.able()) | self._gone_now
        return draw_cohort([client for client in self.clients if client in there], self._cohort_size, rng)

    def leave_out(self, client: str, why: str) -> None:
        self.left_out.add(client)
        self._gone_now.add(client)
        self.record.fail(client, f"it is left out from now on: {why}")

    def rng(self, purpose: str) -> torch.Generator:
        if purpose not in self._streams:
            self._streams[purpose] = generator(self._seed, self.round, "server", purpose)
        return self._streams[purpose]

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        name = task_name(task)
        if name not in self._kinds:
            raise UserError(f"'{name}' is not a task of this method; mark it with @task.")
        strangers = [client for client in to if client not in self.clients]
        if strangers or len(set(to)) < len(to):
            who = f"'{strangers[0]}', who is not there" if strangers else "a client twice"
            raise UserError(f"{name} was asked of {who}; ask every client once.")
        to = [client for client in to if client not in self.left_out]
        self._step += 1
        asked = _Ask(name, self.round, self._step, len(to), self._at_least if at_least is None else at_least)
        self._asks.append(asked)
        return self._replies(asked, brief, to)

    # ---- what a run does

    def begin(self, round: int, *, first_step: int = 1) -> None:
        self.round, self._step = round, first_step - 1
        self.record = RoundRecord()
        self._asks: list[_Ask] = []
        self._open = False
        self._pending: dict[str, str] = {}  # versions that count once the round is on disk
        self._scored: set[str] = set()  # who was asked for scores in this round already
        self._gone_now: set[str] = set()  # spent or left out; they stay in this round's cohort, the same all through
        self._streams: dict[str, torch.Generator] = {}

    def able(self) -> list[str]:
        """Who can still be asked."""
        return [client for client in self.clients if client not in self.spent and client not in self.left_out]

    def check_replies(self) -> None:
        """At the end of a round: a method may have refused replies after it had read them all."""
        for asked in self._asks:
            asked.check()

    def settled(self) -> dict[str, str]:
        """The versions that count if this round does."""
        return {**self.versions, **self._pending}

    def undo(self) -> None:
        """The round does not count: memories stay where the checkpoint left them."""
        self._pending = {}

    def commit(self) -> None:
        self.versions = self.settled()
        self._engine.settle(self.record.answered)

    # ---- inside

    def _replies(self, asked: _Ask, brief: Brief, to: Sequence[str]) -> Iterator[Reply]:
        if self._open:
            raise UserError(f"{asked.task} was asked while replies to another ask were still coming; read those first.")
        self._open = True
        try:
            for answer in self._engine.exchange(self._requests(asked, brief, to)):
                self._heard(answer.client)
                self.record.note_deaths(answer)
                message = self._read(asked, answer)
                if message is not None:
                    yield self._reply(asked, answer, message)
        finally:
            self._open = False
        asked.check()

    def _requests(self, asked: _Ask, brief: Brief, to: Sequence[str]) -> Iterator[Request]:
        shared = brief.to_bytes() if isinstance(brief, Message) else b""
        for client in to:
            message = brief if isinstance(brief, Message) else brief(client)
            body = shared or message.to_bytes()
            settled = self.versions.get(client, NOTHING)
            self.record.down[client] = self.record.down.get(client, 0) + len(body)
            score = self._score and "model" in message and client not in self._scored
            if score:
                self._scored.add(client)
                asked.scoring.add(client)
            yield Request(
                run=self._run,
                config=self._config,
                client=client,
                task=asked.task,
                round=self.round,
                step=asked.step,
                start=self._pending.get(client, settled),
                settled=settled,
                score=score,
                body=body,
            )

    def _read(self, asked: _Ask, answer: Answer) -> Message | None:
        """What a client sent, if it counts. Whatever it is, reading it ends here: in a message, or in its failure."""
        try:
            return self._message(asked, answer)
        except UserError as broken:
            self.record.fail(answer.client, str(broken))
            return None

    def _late(self, request: Request, answer: Answer) -> None:
        """It counts for nothing. What left and what it cost is written down all the same."""
        asked = _Ask(request.task, request.round, request.step, asked=0, needed=0)
        with contextlib.suppress(UserError):
            self._message(asked, answer)

    def _message(self, asked: _Ask, answer: Answer) -> Message | None:
        client, record = answer.client, self.record
        if answer.outcome == "waiting":
            asked.waiting.append(client)
            return None
        if answer.outcome != "done":
            self._write_down(asked, client, b"", {}, self._charges(asked, answer))
            if answer.outcome == "spent":
                self.spent.add(client)
                self._gone_now.add(client)
            raise UserError(answer.why)
        data = answer.read()
        record.up[client] = record.up.get(client, 0) + len(data)
        # It has left the house: from here on it is in the ledger, whatever becomes of it.
        try:
            check_version(answer.version)
            message, charges = Message.from_bytes(data), self._charges(asked, answer)
        except UserError:
            self._write_down(asked, client, data, {UNDECLARED: (UNDECLARED, len(data))}, ())
            raise
        self._write_down(asked, client, data, self._parts(asked, message), charges)
        reply = message.without(SCORE)
        undeclared = [part for part in reply if part not in self._kinds[asked.task]]
        if undeclared:
            raise UserError(f"its reply holds {undeclared[0]}, which is not declared")
        if reply.not_finite():
            raise UserError(f"its reply is not finite in {', '.join(reply.not_finite())}")
        if beyond := reply.beyond(LARGEST):
            raise UserError(f"its reply goes beyond ±{LARGEST:g} in {beyond[0]}")
        if SCORE in message:
            record.scores = record.scores + self._tally(asked, client, message[SCORE])
        return reply

    def _charges(self, asked: _Ask, answer: Answer) -> list[Charge]:
        """What the task spent, as its site says; refused where it could not be counted."""
        if len(answer.charges) > MOST_CHARGES:
            raise UserError(f"it sent {len(answer.charges)} charges of privacy; at most {MOST_CHARGES} are taken")
        charges = [Charge.of(charge) for charge in answer.charges]
        before = self.ledger.charges.get(answer.client, {})
        for charge in charges:
            self._check_charge(asked, charge, before)
        every = [*before.values(), *charges]
        if len({charge.way for charge in every}) > MOST_WAYS:
            raise UserError(f"it spent privacy at more than {MOST_WAYS} different rates or noises")
        if charges:
            composed(every, charges[0].delta, charges[0].accountant)
        return charges

    def _check_charge(self, asked: _Ask, charge: Charge, before: Mapping[Place, Charge]) -> None:
        """It is of this ask, and counted as the config promises it."""
        if self._promise is None:
            raise UserError("it says that it spent privacy, and the config promises none")
        if (charge.run, charge.round, charge.step) != (self._run, asked.round, asked.step):
            raise UserError("it sent a charge of privacy that is not of this ask")
        promised = (self._promise.delta, self._promise.accountant, self._promise.test_noise)
        if (charge.delta, charge.accountant, charge.test_noise) != promised:
            raise UserError("it counts privacy otherwise than the config promises it")
        if replace(before.get(charge.place, charge), covers=charge.covers) != charge:
            raise UserError("it changed a charge of privacy that it had sent before")

    def _parts(self, asked: _Ask, message: Message) -> dict[str, tuple[str, int]]:
        """Kinds and sizes; of what is not declared in one line, whatever a site calls it."""
        kinds = {**self._kinds[asked.task], SCORE: "statistics"}
        sizes = {part: tensor.numel() * tensor.element_size() for part, tensor in message.items()}
        parts: dict[str, tuple[str, int]] = {part: (kinds[part], size) for part, size in sizes.items() if part in kinds}
        if undeclared := [size for part, size in sizes.items() if part not in kinds]:
            parts[UNDECLARED] = (UNDECLARED, sum(undeclared))
        return parts

    def _write_down(
        self,
        asked: _Ask,
        client: str,
        data: bytes,
        parts: Mapping[str, tuple[str, int]],
        charges: Sequence[Charge],
    ) -> None:
        digest = hashlib.sha256(data).hexdigest()
        release = Release(client, asked.round, asked.step, asked.task, parts, tuple(charges), digest, heard=self.round)
        self._released(release)
        self.ledger.record(release)

    def _tally(self, asked: _Ask, client: str, numbers: torch.Tensor) -> Tally:
        if client not in asked.scoring:
            raise UserError("it sent scores that nobody asked for")
        asked.scoring.remove(client)
        return Tally.from_tensor(numbers, self._problem, self._held_out[client])

    def _reply(self, asked: _Ask, answer: Answer, message: Message) -> Reply:
        client, before = answer.client, self._pending.get(answer.client)
        self._pending[client] = answer.version
        self.record.answered.add(client)
        asked.good += 1
        sent = labelled(message, self._kinds[asked.task], self._problem)
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
