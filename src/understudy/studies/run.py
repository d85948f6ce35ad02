"""One run, from a Config to a folder: rounds, checkpoints, scores."""

import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save

from understudy import __version__
from understudy.config.build import build_data, build_method, build_network, choose_fast_path
from understudy.config.schema import Config
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.engines.choose import choose_engine
from understudy.errors import UserError
from understudy.federation.cohorts import cohort_size
from understudy.federation.exchange import Engine
from understudy.federation.live import LiveServer
from understudy.federation.message import Message, labels_from_wire
from understudy.federation.method import Method, State
from understudy.federation.server import TooFewReplies
from understudy.federation.shelf import write_whole
from understudy.federation.site import Site
from understudy.learning.evaluate import evaluate
from understudy.privacy.ledger import Ledger
from understudy.randomness import private_global_stream
from understudy.studies.folder import Line, RunFolder

PATIENCE = 3  # undone rounds in a row that end a run


class Observer(Protocol):
    """Who watches a run."""

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None: ...
    def heard(self, client: str) -> None: ...
    def scored(self, line: Line) -> None: ...
    def says(self, sentence: str) -> None: ...


class Silent:
    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None: ...
    def heard(self, client: str) -> None: ...
    def scored(self, line: Line) -> None: ...
    def says(self, sentence: str) -> None: ...


class RunStopped(UserError):
    """The run ended before its last round, in good order."""


@dataclass(frozen=True)
class Result:
    folder: Path
    summary: dict[str, Any]
    metrics: list[Line]
    weights: dict[str, torch.Tensor]  # a state dict of the network

    @property
    def accuracy(self) -> float | None:
        found: float | None = self.summary["accuracy"]
        return found


def play(config: Config, out: Path, *, resume: bool = False, observer: Observer | None = None) -> Result:
    """Everything is checked and built before the folder is touched."""
    with one_thread():
        data = build_data(config)
        fast = choose_fast_path(config, data)
        net = build_network(config, data.problem, fast)
        method = build_method(config, net)
        cohort = cohort_size(config.plan.cohort, len(data.sites))
        if config.plan.min_replies > cohort:
            raise UserError(
                f"method.min_replies is {config.plan.min_replies}, but a round asks only {cohort} clients; "
                f"write at most {cohort}."
            )
        if method.scored_at_home and not any(len(holding.held_out) for holding in data.sites.values()):
            raise UserError(
                "Part of the model stays with the clients (method.buffers is 'local'), so they must score it: "
                "keep records back there with data.held_out, such as 0.2."
            )
        folder = RunFolder(out)
        words = config.words(__version__, data.problem, fast)
        if resume and folder.holds_a_run:
            check_same_run(folder.config(), words)
        else:
            folder.create()
        with folder.locked(wait=60 if resume else 0):
            folder.write_config(words)
            return _Run(config, data, method, folder, cohort, observer or Silent()).to_the_end()


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread, as in every worker: two would give other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_same_run(saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    """A run is resumed as it was begun; only its rounds and its engine may differ."""
    for key in saved.keys() | wanted.keys():
        a, b = saved.get(key), wanted.get(key)
        if key in ("engine", "version"):
            continue
        if key == "method" and isinstance(a, dict) and isinstance(b, dict):
            a, b = ({k: v for k, v in side.items() if k != "rounds"} for side in (a, b))
        if a != b:
            part = _first_difference(a, b, key)
            raise UserError(f"This folder belongs to another config: {part}; choose another --out.")


def _first_difference(a: object, b: object, key: str) -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in a.keys() | b.keys():
            if a.get(name) != b.get(name):
                return _first_difference(a.get(name), b.get(name), f"{key}.{name}")
    return f"{key} is {a!r} there and {b!r} here"


class _Run:
    def __init__(
        self,
        config: Config,
        data: Federation,
        method: Method,
        folder: RunFolder,
        cohort: int,
        observer: Observer,
    ):
        self.config, self.data, self.method, self.folder = config, data, method, folder
        self.observer = observer
        self.last = config.plan.rounds
        self.cohort = cohort
        self.undone = 0
        self.waiting: Line | None = None  # a line that waits for the clients' scores of its model
        self.at_clients = data.test is None or method.scored_at_home

    def to_the_end(self) -> Result:
        seed = self.config.top.seed
        sites = {
            name: Site(name, holding, self.folder.path / "clients" / name, seed)
            for name, holding in self.data.sites.items()
        }
        if self.data.split is not None:
            self.data.split.save(self.folder.path / "split.json")
        engine = choose_engine(self.config.engine, sites, self.method)
        try:
            return self._with(engine)
        finally:
            engine.close()

    def _with(self, engine: Engine) -> Result:
        done, state, server = self._opened(engine)
        for round in range(done + 1, self.last + 1):
            state = self._round(server, state, round)
            if self.undone >= PATIENCE:
                self._finish(server, state)
                raise RunStopped(self._why_stopped(server, round))
        return self._finish(server, state)

    # ---- beginning, or going on

    def _opened(self, engine: Engine) -> tuple[int, State, LiveServer]:
        entries = self.folder.checkpoints.entries()
        state, notes = self.folder.checkpoints.get(entries[-1]) if entries else (Message(), {})
        server = LiveServer(
            engine,
            self.method,
            list(self.data.sites),
            run=notes.get("run") or secrets.token_hex(8),
            seed=self.config.top.seed,
            cohort=self.cohort,
            at_least=self.config.plan.min_replies,
            score_at_clients=self.at_clients,
            heard=self.observer.heard,
        )
        done = int(notes.get("round", -1))
        kept = self.folder.cut_metrics(done)
        self.observer.begins(self.last, done, len(self.data.sites), self.folder.path)
        if done < 0:
            return 0, self._open(server), server
        server.versions, server.ledger = notes["versions"], Ledger.from_json(notes["ledger"])
        self.undone = notes["undone"]
        for line in kept:
            self.observer.scored(line)
        if not any(line["round"] == done for line in kept):
            self._score(notes["line"], state)
        return done, state, server

    def _open(self, server: LiveServer) -> State:
        began = time.perf_counter()
        server.begin(0)
        try:
            with self._server_stream(0):
                state = self.method.start(server)
        except TooFewReplies as few:
            raise RunStopped(f"The opening failed: {few}{self._failures(server)}.") from None
        self._save(server, state, began)
        return state

    # ---- one round

    def _round(self, server: LiveServer, state: State, round: int) -> State:
        began = time.perf_counter()
        server.begin(round)
        try:
            with self._server_stream(round):
                after = self.method.round(server, state)
            self.undone = 0
        except TooFewReplies:
            server.undo()
            after, self.undone = state, self.undone + 1
        if after.not_finite():
            raise RunStopped(
                f"After round {round} the server's {', '.join(after.not_finite())} is not finite, so the round does "
                "not count; a smaller learning rate may help."
            )
        self._hand_in_scores(server)
        self._save(server, after, began)
        return after

    def _server_stream(self, round: int) -> AbstractContextManager[None]:
        """Dropout in a network that the server trains is as repeatable as on a client."""
        return private_global_stream(self.config.top.seed, round, "server")

    def _save(self, server: LiveServer, state: State, began: float) -> None:
        """The checkpoint first; only then does anything of the round count."""
        books = server.books
        line: Line = {
            "round": server.round,
            "bytes_up": books.bytes_up,
            "bytes_down": books.bytes_down,
            "epsilon": server.ledger.epsilon,
            "clients": len(books.answered),
            "failed": len(books.failures),
            "failures": books.failures,
            "undone": self.undone > 0,
            "seconds": round(time.perf_counter() - began, 3),
        }
        notes = {"round": server.round, "versions": server.settled(), "undone": self.undone, "line": line}
        entry = f"round-{server.round:06d}"
        ledger = server.ledger.to_json()
        self.folder.checkpoints.put(entry, state, run=server.run, ledger=ledger, **notes)
        self.folder.checkpoints.keep_only([entry])
        server.commit()
        self.folder.write_json("ledger.json", ledger)
        for client, sent in books.examples.items():
            self.folder.keep_examples(client, Examples(sent["x"], labels_from_wire(sent["y"])))
        self._score(line, state)

    # ---- scores

    def _score(self, line: Line, state: State) -> None:
        net = self.method.net
        if self.at_clients:
            self.waiting = line
            return
        assert self.data.test is not None
        net.load(self.method.result(state))
        scores = evaluate(net.logits, self.data.test, net.problem).as_dict()
        if self.data.validation is not None:
            kept_back = evaluate(net.logits, self.data.validation, net.problem)
            scores["validation_accuracy"] = kept_back.accuracy
        self._write(line, scores)

    def _hand_in_scores(self, server: LiveServer) -> None:
        """What clients found of the last round's model while they worked on this one."""
        if self.waiting is not None:
            counts = server.books.scores
            self._write(self.waiting, {"accuracy": counts.accuracy, "loss": counts.loss, "scored_at": "clients"})
            self.waiting = None

    def _write(self, line: Line, scores: dict[str, Any]) -> None:
        whole = {"round": line["round"], **scores, **line}
        self.folder.add_line(whole)
        self.observer.scored(whole)

    # ---- the end

    def _finish(self, server: LiveServer, state: State) -> Result:
        if self.waiting is not None:
            server.begin(self.last + 1)
            brief = self.method.closing_brief(state)
            for _ in server.ask(self.method.score, brief, list(server.clients), at_least=0):
                pass
            self._hand_in_scores(server)
        net = self.method.net
        weights = net.named(self.method.result(state))
        write_whole(self.folder.path / "model.safetensors", save(weights))
        metrics = self.folder.metrics()
        summary = summarise(metrics, self.last)
        self.folder.write_json("summary.json", summary)
        return Result(self.folder.path, summary, metrics, weights)

    def _why_stopped(self, server: LiveServer, round: int) -> str:
        return (
            f"{PATIENCE} rounds in a row had too few replies{self._failures(server)}; the run ended after round "
            f"{round} and can be resumed once that is mended."
        )

    def _failures(self, server: LiveServer) -> str:
        if not server.books.failures:
            return ""
        first = server.books.failures[0]
        more = len(server.books.failures) - 1
        return f" ({first['client']}: {first['why']}{f'; {more} more' if more else ''})"


def summarise(metrics: list[Line], rounds: int) -> dict[str, Any]:
    scored = [line["accuracy"] for line in metrics if line.get("accuracy") is not None]
    last = metrics[-1]
    return {
        "accuracy": last.get("accuracy"),
        "best_accuracy": max(scored, default=None),
        "rounds": last["round"],
        "finished": last["round"] >= rounds and not last["undone"],
        "bytes_up": sum(line["bytes_up"] for line in metrics),
        "bytes_down": sum(line["bytes_down"] for line in metrics),
        "epsilon": last["epsilon"],
        "failed": sum(line["failed"] for line in metrics),
        "seconds": round(sum(line["seconds"] for line in metrics), 3),
    }
