"""The server that a run uses: it numbers the asks, keeps the books, and hands out what came back."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from understudy.errors import UserError
from understudy.federation.cohorts import draw_cohort, in_order
from understudy.federation.exchange import NOTHING, Answer, Engine, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, task_name
from understudy.federation.server import Brief, Reply, Server, Task, TooFewReplies
from understudy.federation.site import SCORE
from understudy.learning.evaluate import Tally
from understudy.privacy.ledger import Ledger
from understudy.randomness import generator


@dataclass
class Books:
    """What happened in one round."""

    bytes_up: int = 0
    bytes_down: int = 0
    answered: set[str] = field(default_factory=set)
    failures: list[dict[str, str]] = field(default_factory=list)
    scores: Tally = field(default_factory=Tally)  # of the model that the briefs brought
    examples: dict[str, Message] = field(default_factory=dict)  # the newest synthetic set of each client


class LiveServer(Server):
    def __init__(
        self,
        engine: Engine,
        method: Method,
        clients: Sequence[str],
        *,
        run: str,
        seed: int,
        cohort: int,
        at_least: int,
        score_at_clients: bool,
        heard: Callable[[str], None] | None = None,
    ):
        self.clients = in_order(clients)
        self.round = 0
        self.ledger = Ledger()
        self.books = Books()
        self.versions: dict[str, str] = {}  # of client memories, as the checkpoint names them
        self._engine, self.run, self._seed = engine, run, seed
        self._kinds = {name: job.kinds for name, job in method.jobs().items()}
        self._cohort_size, self._at_least, self._score = cohort, at_least, score_at_clients
        self._heard = heard or (lambda client: None)
        self._pending: dict[str, str] = {}  # versions that count once the round is on disk
        self._step = 0
        self._streams: dict[str, torch.Generator] = {}

    # ---- what a method sees

    def cohort(self) -> list[str]:
        rng = generator(self._seed, self.round, "cohort")
        return draw_cohort(list(self.clients), self._cohort_size, rng)

    def rng(self, purpose: str) -> torch.Generator:
        if purpose not in self._streams:
            self._streams[purpose] = generator(self._seed, self.round, "server", purpose)
        return self._streams[purpose]

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        self._step += 1
        name, step = task_name(task), self._step
        if name not in self._kinds:
            raise UserError(f"'{name}' is not a task of this method; mark it with @task.")
        good = 0
        for answer in self._engine.exchange(self._requests(name, step, brief, to)):
            self._heard(answer.client)
            message = self._read(answer)
            if message is None:
                continue
            pending = self._pending.get(answer.client)
            self._pending[answer.client] = answer.version
            reply = Reply(answer.client, message)
            yield reply
            if reply.refusal is not None:
                self._step_back(answer.client, pending)
                self._fail(answer.client, f"the method refused its reply: {reply.refusal}")
                continue
            self._release(name, answer.client, message)
            good += 1
        wanted = self._at_least if at_least is None else at_least
        if good < min(wanted, len(to)):
            raise TooFewReplies(f"{good} of {len(to)} clients answered {name}, {wanted} are needed")

    # ---- what a run does

    def begin(self, round: int) -> None:
        self.round, self._step = round, 0
        self.books, self._pending, self._streams = Books(), {}, {}

    def settled(self) -> dict[str, str]:
        """The versions that count if this round does."""
        return {**self.versions, **self._pending}

    def undo(self) -> None:
        """The round does not count: memories stay where the checkpoint left them."""
        self._pending = {}

    def commit(self) -> None:
        self.versions = self.settled()
        self._engine.settle(self.books.answered)

    # ---- inside

    def _requests(self, task: str, step: int, brief: Brief, to: Sequence[str]) -> Iterator[Request]:
        shared = brief.to_bytes() if isinstance(brief, Message) else b""
        for client in to:
            body = shared if isinstance(brief, Message) else brief(client).to_bytes()
            kept = self.versions.get(client, NOTHING)
            start = self._pending.get(client, kept)
            self.books.bytes_down += len(body)
            yield Request(self.run, client, task, self.round, step, start, kept, self._score, body)

    def _read(self, answer: Answer) -> Message | None:
        if answer.outcome != "done":
            self._fail(answer.client, answer.why)
            return None
        data = answer.read()
        self.books.bytes_up += len(data)
        try:
            message = Message.from_bytes(data)
        except UserError as broken:
            self._fail(answer.client, str(broken))
            return None
        if message.not_finite():
            self._fail(answer.client, f"its reply is not finite in {', '.join(message.not_finite())}")
            return None
        self.books.answered.add(answer.client)
        return self._without_scores(message)

    def _without_scores(self, message: Message) -> Message:
        if SCORE not in message:
            return message
        self.books.scores = self.books.scores + Tally.from_tensor(message[SCORE])
        return message.only(*(part for part in message if part != SCORE))

    def _release(self, task: str, client: str, message: Message) -> None:
        kinds = self._kinds[task]
        sizes = {part: tensor.numel() * tensor.element_size() for part, tensor in message.items()}
        self.ledger.release(client, task, kinds, sizes)
        if kinds.get("x") == kinds.get("y") == "examples" and "x" in message and len(message["x"]):
            self.books.examples[client] = message.only("x", "y")

    def _step_back(self, client: str, pending: str | None) -> None:
        if pending is None:
            del self._pending[client]
        else:
            self._pending[client] = pending

    def _fail(self, client: str, why: str) -> None:
        self.books.failures.append({"client": client, "why": why})
