"""One run, from a Config to a folder: rounds, checkpoints, scores."""

import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from understudy import __version__
from understudy.config.build import build_data, build_method, build_network, choose_fast_path, device
from understudy.config.schema import Config
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.engines.choose import choose_engine
from understudy.errors import UserError
from understudy.federation.cohorts import cohort_size
from understudy.federation.exchange import Engine
from understudy.federation.message import Message, labels_from_wire
from understudy.federation.method import Method, State
from understudy.federation.running import RunServer
from understudy.federation.server import TooFewReplies
from understudy.federation.shelf import write_whole
from understudy.federation.site import Site
from understudy.learning.evaluate import evaluate
from understudy.models.registry import FastPath
from understudy.privacy.ledger import Ledger
from understudy.randomness import private_global_stream
from understudy.studies.folder import Line, RunFolder
from understudy.studies.resuming import check_same_run, digest_of_config, digest_of_data

PATIENCE = 3  # undone rounds in a row that end a run


class Observer:
    """Who watches a run; this one does not care."""

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
    watcher = observer or Observer()
    with one_thread():
        folder = RunFolder(out)
        going_on = resume and folder.holds_a_run
        data = build_data(config)
        fast: FastPath = folder.config()["model"]["fast"] if going_on else choose_fast_path(config, data)
        method = build_method(config, build_network(config, data.problem, fast))
        _check(config, data, method, watcher)
        words = config.words(__version__, data.problem, fast, str(device(config)), digest_of_data(data))
        if not going_on:
            folder.create()
        with folder.locked(wait=60 if resume else 0, waiting=watcher.says), _disk_errors_said(out):
            if going_on:
                check_same_run(folder.config(), words)
            folder.write_config(words)
            return _Run(config, data, method, folder, digest_of_config(words), watcher).to_the_end()


def _check(config: Config, data: Federation, method: Method, watcher: Observer) -> None:
    asked = cohort_size(config.plan.cohort, len(data.sites))
    if config.plan.min_replies > asked:
        raise UserError(
            f"method.min_replies is {config.plan.min_replies}, but a round asks only {asked} clients; "
            f"write at most {asked}."
        )
    at_home = any(len(holding.held_out) for holding in data.sites.values())
    if method.scored_at_home and not at_home:
        raise UserError(
            "Part of the model stays with the clients (method.buffers is 'local'), so they must score it: "
            "keep records back there with data.held_out, such as 0.2."
        )
    if data.test is None and not at_home:
        watcher.says("There is nothing to score on: no test set, and no records held out at the clients.")
    if config.engine.name == "workers" and method.net.device.type != "cpu":
        watcher.says(f"On {method.net.device} the clients run one after another in this process.")


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread, as in every worker: two would give other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _disk_errors_said(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = error.strerror or str(error)
        raise RunStopped(
            f"{error.filename or out} could not be written or read ({what}); mend that and --resume."
        ) from error


class _Run:
    def __init__(
        self, config: Config, data: Federation, method: Method, folder: RunFolder, digest: str, observer: Observer
    ):
        self.config, self.data, self.method, self.folder = config, data, method, folder
        self.digest, self.observer = digest, observer
        self.last = config.plan.rounds
        self.undone = 0  # rounds in a row
        self.at_clients = data.test is None or method.scored_at_home
        self.waiting: list[Line] = []  # lines that wait for the clients' scores of their common model

    def to_the_end(self) -> Result:
        if self.data.split is not None:
            self.data.split.save(self.folder.path / "split.json")
        engine = choose_engine(self.config.engine, self._sites(), self.method)
        try:
            return self._with(engine)
        finally:
            engine.close()

    def _sites(self) -> dict[str, Site]:
        seed, home = self.config.top.seed, self.folder.path / "clients"
        return {n: Site(n, holding, home / n, seed, self.digest) for n, holding in self.data.sites.items()}

    def _with(self, engine: Engine) -> Result:
        done, state, server = self._opened(engine)
        for round in range(done + 1, self.last + 1):
            try:
                state = self._round(server, state, round)
            except RunStopped:
                self._finish(server, state)
                raise
            if self.undone >= PATIENCE:
                why = self._why_stopped(server, round)
                self._finish(server, state)
                raise RunStopped(why)
        return self._finish(server, state)

    # ---- beginning, or going on

    def _opened(self, engine: Engine) -> tuple[int, State, RunServer]:
        entries = self.folder.checkpoints.entries()
        state, notes = self.folder.checkpoints.get(entries[-1]) if entries else (Message(), {})
        server = RunServer(
            engine,
            self.method,
            list(self.data.sites),
            run=self.folder.run_id(secrets.token_hex(8)),
            config=self.digest,
            seed=self.config.top.seed,
            cohort=cohort_size(self.config.plan.cohort, len(self.data.sites)),
            at_least=self.config.plan.min_replies,
            score_at_clients=self.at_clients,
            heard=self.observer.heard,
        )
        done = int(notes.get("round", -1))
        kept = self.folder.cut_metrics(done)
        self.observer.begins(self.last, done, len(self.data.sites), self.folder.path)
        if done < 0:
            return 0, self._open(server), server
        server.begin(done)
        server.versions, server.ledger = notes["versions"], Ledger.from_json(notes["ledger"])
        self.folder.write_json("ledger.json", notes["ledger"])
        for line in kept:
            self.observer.scored(line)
        scored = {line["round"] for line in kept}
        missing = [line for line in notes["lines"] if line["round"] not in scored]
        self.waiting = missing[:-1]
        if missing:
            self._score(missing[-1], state)
        return done, state, server

    def _open(self, server: RunServer) -> State:
        began = time.perf_counter()
        server.begin(0)
        try:
            with self._server_stream(0):
                state = self.method.start(server)
            server.check_replies()
        except TooFewReplies as few:
            raise RunStopped(f"The opening failed: {few}{self._failures(server)}.") from None
        self._check_finite(state, "the opening")
        self._save(server, state, began)
        return state

    # ---- one round

    def _round(self, server: RunServer, state: State, round: int) -> State:
        began = time.perf_counter()
        server.begin(round)
        try:
            with self._server_stream(round):
                after = self.method.round(server, state)
            server.check_replies()
            self.undone = 0
        except TooFewReplies:
            server.undo()
            after, self.undone = state, self.undone + 1
        self._check_finite(after, f"round {round}")
        self._hand_in_scores(server)
        self._save(server, after, began)
        return after

    def _server_stream(self, round: int) -> AbstractContextManager[None]:
        """Dropout in a network that the server trains is as repeatable as on a client."""
        return private_global_stream(self.config.top.seed, round, "server")

    def _check_finite(self, state: State, when: str) -> None:
        broken = state.not_finite()
        if broken:
            raise RunStopped(
                f"After {when} the server's {', '.join(broken)} is not finite, so it does not count; "
                "a smaller learning rate may help."
            )

    def _save(self, server: RunServer, state: State, began: float) -> None:
        """The checkpoint decides whether the round counts; what is written before it is the same when repeated."""
        books = server.books
        for client, sent in books.examples.items():
            self.folder.keep_examples(client, Examples(sent["x"], labels_from_wire(sent["y"])))
        line: Line = {
            "round": server.round,
            "bytes_up": sum(books.up.values()),
            "bytes_down": sum(books.down.values()),
            "bytes_by_client": {client: [books.up.get(client, 0), down] for client, down in books.down.items()},
            "epsilon": server.ledger.epsilon,
            "clients": len(books.answered),
            "failed": len(books.failures),
            "failures": books.failures,
            "undone": self.undone > 0,
            "seconds": round(time.perf_counter() - began, 3),
        }
        entry, ledger = f"round-{server.round:06d}", server.ledger.to_json()
        notes = {"round": server.round, "versions": server.settled(), "lines": [*self.waiting, line]}
        self.folder.checkpoints.put(entry, state, ledger=ledger, **notes)
        self.folder.checkpoints.keep_only([entry])
        server.commit()
        self.folder.write_json("ledger.json", ledger)
        self._score(line, state)

    # ---- scores

    def _score(self, line: Line, state: State) -> None:
        net = self.method.net
        if self.at_clients:
            self.waiting.append(line)
            return
        assert self.data.test is not None
        net.load(self.method.result(state))
        scores = evaluate(net.logits, self.data.test, net.problem).as_dict()
        if self.data.validation is not None:
            scores["validation_accuracy"] = evaluate(net.logits, self.data.validation, net.problem).accuracy
        self._write(line, scores)

    def _hand_in_scores(self, server: RunServer) -> None:
        """What clients found of the last model while they worked on the next one."""
        counts = server.books.scores
        if counts.count == 0 and self.undone:
            return  # nobody has scored it yet, and the next round brings the same model again
        for line in self.waiting:
            self._write(line, {"accuracy": counts.accuracy, "loss": counts.loss, "scored_at": "clients"})
        self.waiting = []

    def _write(self, line: Line, scores: dict[str, Any]) -> None:
        whole = {"round": line["round"], **scores, **line}
        self.folder.add_line(whole)
        self.observer.scored(whole)

    # ---- the end

    def _finish(self, server: RunServer, state: State) -> Result:
        self.folder.write_json("ledger.json", server.ledger.to_json())
        if self.waiting:
            self._close(server, state)
        weights = self.method.net.named(self.method.result(state))
        write_whole(self.folder.path / "model.safetensors", save(weights))
        metrics = self.folder.metrics()
        summary = summarise(metrics, self.last)
        self.folder.write_json("summary.json", summary)
        return Result(self.folder.path, summary, metrics, weights)

    def _close(self, server: RunServer, state: State) -> None:
        """One last ask for the scores of the last model. It is step 0 of a round that may still come."""
        server.begin(self.waiting[-1]["round"] + 1, first_step=0)
        for _ in server.ask(self.method.score, self.method.model_brief(state), list(server.clients), at_least=0):
            pass
        last, books = self.waiting[-1], server.books
        last["bytes_up"] += sum(books.up.values())
        last["bytes_down"] += sum(books.down.values())
        last["failures"] = [*last["failures"], *books.failures]
        last["failed"] += len(books.failures)
        self.undone = 0
        self._hand_in_scores(server)

    def _why_stopped(self, server: RunServer, round: int) -> str:
        return (
            f"{PATIENCE} rounds in a row had too few replies{self._failures(server)}; the run ended after round "
            f"{round} and can be resumed once that is mended."
        )

    def _failures(self, server: RunServer) -> str:
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
