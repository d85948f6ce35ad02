"""The rounds of a run, new or resumed, to the end: ask, checkpoint, score."""

import contextlib
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.engines.choose import OpenEngine
from understudy.errors import UserError, resuming
from understudy.federation.cohorts import cohort_size
from understudy.federation.exchange import NOTHING, Engine
from understudy.federation.made_when_asked import MadeWhenAsked
from understudy.federation.memories import Memories
from understudy.federation.message import Message
from understudy.federation.method import Method, State
from understudy.federation.round_record import RepliesWait
from understudy.federation.running import RunFacts, RunServer
from understudy.federation.server import TooFewReplies
from understudy.federation.site import Site
from understudy.files import write_whole
from understudy.randomness import private_global_stream
from understudy.runs.checkpoint import Checkpoint
from understudy.runs.durability import Durability
from understudy.runs.folder import Line, RunFolder
from understudy.runs.lost_work import UnderWay, lost
from understudy.runs.persons import person_summary
from understudy.runs.resuming import digest_of_config, digest_of_run
from understudy.runs.scores import Scorekeeper, summarise
from understudy.runs.status import SCORING
from understudy.runs.watching import AwaitsApproval, Observer, RunDiverged, RunStopped

MOST_UNDONE = 3  # this many undone rounds in a row end a run


@dataclass(frozen=True)
class RunResult:
    """What a run left, as plain values; `understudy.Result` also predicts and draws."""

    folder: Path
    summary: dict[str, Any]
    metrics: list[Line]
    weights: dict[str, torch.Tensor]  # a state dict of the network

    @property
    def accuracy(self) -> float | None:
        found: float | None = self.summary["accuracy"]
        return found


class Rounds:
    """One run from its opening, or from its checkpoint, to its end."""

    def __init__(
        self,
        config: Config,
        data: Federation,
        method: Method,
        folder: RunFolder,
        words: dict[str, Any],  # the config as in its file
        observer: Observer,
        sites_elsewhere: bool = False,  # then they, not ``data``, say which records they have
    ):
        self.config, self.data, self.method, self.folder = config, data, method, folder
        self.observer, self._sites_elsewhere = observer, sites_elsewhere
        self.digest, self.digest_begun_with = digest_of_config(words), digest_of_run(words)
        self.last = config.plan.rounds
        self.undone = 0  # rounds in a row
        self.durability = Durability(repeatable=self._repeatable, last=self.last)
        self.under_way = UnderWay(folder.path)
        self.memories = Memories(folder.path, config.engine.client_memory * 2**20)
        self.scores = Scorekeeper(method, data, folder, observer, config.top.measure, durable=not self._repeatable)

    def to_the_end(self, open_engine: OpenEngine) -> RunResult:
        split = self.data.split if self.data.population is None else self.data.population
        if split is not None:
            split.save(self.folder.path / "split.json")
        with open_engine(self._sites(), self.method) as engine:
            return self._run_with(engine)

    @property
    def _in_memory(self) -> bool:
        """Whether clients work in this process or in those that it forks, and not on other machines."""
        return self.config.engine.name in ("inline", "workers")

    @property
    def _repeatable(self) -> bool:
        """What cost privacy or waits for a person must survive a kill; everything else is made again."""
        return self._in_memory and self.config.top.privacy is None and self.config.policy is None

    def _sites(self) -> Mapping[str, Site]:
        seed, home = self.config.top.seed, self.folder.path / "clients"
        memories = self.memories if self._repeatable else None
        shared = (seed, self.digest, self.data.test, self.config.top.privacy, self.config.policy)

        def made(name: str) -> Site:
            return Site(name, self.data.sites[name], home / name, *shared, memories=memories)

        return MadeWhenAsked(self.data.sites, made)

    def _run_with(self, engine: Engine) -> RunResult:
        server = self._server(engine)
        try:
            done, state = self._restored_or_opened(server)
            return self._remaining_rounds(server, state, done)
        except RepliesWait as waits:
            raise AwaitsApproval(self._why_waiting(waits, server.round)) from None
        finally:
            # However it ended: what was sent in a round that does not count has left all the same.
            self.folder.releases.close()
            self.memories.close()
            with contextlib.suppress(OSError, UserError):
                self.folder.write_json("ledger.json", self.folder.ledger())

    def _remaining_rounds(self, server: RunServer, state: State, done: int) -> RunResult:
        for round in range(done + 1, self.last + 1):
            if not server.able():
                gone = "has spent its privacy budget" + (" or is left out" if server.left_out else "")
                self.observer.says(f"Every client {gone}; the run ends before round {round}.")
                break
            try:
                state = self._round(server, state, round)
            except RunStopped:
                self._finish(server, state)
                raise
            if self.undone >= MOST_UNDONE:
                why = self._why_stopped(server, round)
                self._finish(server, state)
                raise RunDiverged(why)
        return self._finish(server, state)

    # ---- starting or resuming

    def _server(self, engine: Engine) -> RunServer:
        facts = RunFacts(
            run=self.folder.run_id(secrets.token_hex(8)),
            config=self.digest,
            seed=self.config.top.seed,
            cohort=cohort_size(self.config.plan.cohort, len(self.data.sites)),
            at_least=self.config.plan.min_replies,
            score_at_clients=self.scores.at_clients,
            held_out=self._held_out(),
        )
        population, released = self.data.population, self.folder.releases.add
        clients = list(self.data.sites) if population is None else population.index.names
        exchanged = self.folder.transcript.add if self.config.top.transcript else None
        heard, phase = self._heard, self.observer.phase
        return RunServer(
            engine, self.method, clients, facts, heard=heard, phase=phase, released=released, exchanged=exchanged
        )

    def _heard(self, client: str) -> None:
        self.observer.heard(client)
        self.under_way.beat()

    def _held_out(self) -> Mapping[str, int]:
        """The most records each client may have scored on."""
        most = self.config.engine.most_held_out if self._sites_elsewhere else None
        return MadeWhenAsked(
            self.data.sites, lambda name: len(self.data.sites[name].held_out) if most is None else most
        )

    def _restored_or_opened(self, server: RunServer) -> tuple[int, State]:
        checkpoint = self.folder.newest_checkpoint()
        if checkpoint is not None:
            self.folder.checkpoints.keep_only([checkpoint.entry])  # a newer one is damaged
        done = -1 if checkpoint is None else checkpoint.round
        kept = self.folder.cut_metrics(done)
        self.under_way.go_on(done)
        self.observer.begins(self.last, done, len(self.data.sites), self.folder.path)
        server.ledger = self.folder.releases.begin()
        with contextlib.suppress(UserError):  # a client whose charge log cannot be read fails, and the others continue
            server.ledger = self.folder.releases.with_charge_logs(self.folder.releases.ledger())
        if checkpoint is None:
            return 0, self._open(server)
        server.restore(done, checkpoint.versions, checkpoint.spent, checkpoint.left_out)
        if not self._in_memory and not self._sites_elsewhere:
            self.memories.hand_over(self.folder.path / "clients", self.folder.id, checkpoint.versions)
        for line in kept:
            self.observer.scored(line)
        scored = {line["round"] for line in kept}
        missing = [line for line in checkpoint.lines if line["round"] not in scored]
        self.scores.waiting = missing[:-1]
        if missing:
            self.scores.score(missing[-1], checkpoint.state)
        return done, checkpoint.state

    def _open(self, server: RunServer) -> State:
        server.begin(0)
        with self.under_way.of_round(0, server.record):
            try:
                with self._server_stream(0):
                    state = self.method.start(server)
                server.check_replies()
            except TooFewReplies as few:
                raise RunDiverged(f"The opening failed: {few}{server.record.failures_in_brief()}.") from None
            self._check_state(state, "the opening")
            self._save_and_score(server, state)
        return state

    # ---- one round

    def _round(self, server: RunServer, state: State, round: int) -> State:
        server.begin(round)
        with self.under_way.of_round(round, server.record):
            try:
                with self._server_stream(round):
                    after = self.method.round(server, state)
                server.check_replies()
                self.undone = 0
            except TooFewReplies:
                server.undo()
                after, self.undone = state, self.undone + 1
            self._check_state(after, f"round {round}")
            self.scores.hand_in(server.record.scores, last_chance=self.undone == 0)
            self._save_and_score(server, after)
        return after

    def _server_stream(self, round: int) -> AbstractContextManager[None]:
        """Makes dropout in a network that the server trains as repeatable as on a client."""
        return private_global_stream(self.config.top.seed, round, "server")

    def _check_state(self, state: State, when: str) -> None:
        if not isinstance(state, Message):
            name, wrong = type(self.method).__name__, type(state).__name__
            raise UserError(f"After {when} {name} returned {wrong}; return a State, such as state.but(model=...).")
        broken = state.not_finite()
        if broken:
            raise RunDiverged(
                f"After {when} the server's {', '.join(broken)} is not finite, so it does not count; "
                "a smaller learning rate may help."
            )

    def _save_and_score(self, server: RunServer, state: State) -> None:
        """The checkpoint decides whether the round counts; what is written before it comes out the same if repeated."""
        self.observer.phase(server.round, SCORING)
        for client, sent in server.record.examples.items():
            self.folder.keep_examples(client, sent)
        line = self._line(server)
        checkpoint = Checkpoint(
            state,
            server.round,
            server.settled(),
            [*self.scores.waiting, line],
            sorted(server.spent),
            sorted(server.left_out),
            self.digest_begun_with,
        )
        durable = self.durability.needed(server.round)
        if durable:
            self.folder.sync_metrics()  # it has all lines but the one that the checkpoint has
        self.memories.save(checkpoint.versions, durable=durable)
        self.folder.save_checkpoint(checkpoint, durable=durable)
        server.commit()
        counts = {client: checkpoint.versions.get(client, NOTHING) for client in server.record.down}
        self.memories.settle(counts, tidy=durable)
        self.folder.releases.settle(server.ledger)
        self.scores.score(line, state, lambda: self.under_way.seconds)

    def _line(self, server: RunServer) -> Line:
        """The metrics line of the round that just ended, without its scores."""
        record = server.record
        return {
            "round": server.round,
            "bytes_up": sum(record.up.values()),
            "bytes_down": sum(record.down.values()),
            "bytes_by_client": record.by_client(),
            "epsilon": server.ledger.epsilon,
            "clients": len(record.answered),
            "failed": len(record.failures),
            "failures": record.failures,
            "workers_died": record.workers_died,
            "lost": record.lost,
            "undone": self.undone > 0,
            "seconds": self.under_way.seconds,
            "seconds_by_client": record.seconds,
        }

    # ---- the end

    def _finish(self, server: RunServer, state: State) -> RunResult:
        if self.scores.waiting:
            self._ask_for_last_scores(server, state)
        weights = self.method.net.named(self.method.result(state))
        write_whole(self.folder.path / "model.safetensors", save(weights))
        self.folder.sync_metrics()
        metrics = self.folder.metrics()
        summary = summarise(metrics, self.last, lost(self.folder.path, metrics[-1]["round"]), self.folder.epsilon())
        with contextlib.suppress(UserError):  # of a charge log that cannot be read
            summary |= person_summary(self.folder.path, self.folder.ledger())
        self.folder.write_json("summary.json", summary)
        return RunResult(self.folder.path, summary, metrics, weights)

    def _ask_for_last_scores(self, server: RunServer, state: State) -> None:
        """Asks once more, for scores of the last model. It is step 0 of a round that may still come."""
        last = self.scores.waiting[-1]
        server.begin(last["round"] + 1, first_step=0)
        who = self._who_can_score(server)
        if who:
            for _ in server.ask(self.method.score, self.method.model_brief(state), who, at_least=0):
                pass
        record = server.record
        last["bytes_up"] += sum(record.up.values())
        last["bytes_down"] += sum(record.down.values())
        before = last["bytes_by_client"]
        for client, (up, down) in record.by_client().items():
            had_up, had_down = before.get(client, (0, 0))
            before[client] = [had_up + up, had_down + down]
        last["epsilon"] = server.ledger.epsilon
        last["failures"] = [*last["failures"], *record.failures]
        last["failed"] += len(record.failures)
        last["workers_died"] = last.get("workers_died", 0) + record.workers_died
        last["lost"] = [*last.get("lost", ()), *record.lost]
        self.scores.hand_in(record.scores)

    def _who_can_score(self, server: RunServer) -> list[str]:
        """All that may hold records back. Of a population, the cohort that would come next: every round before was
        scored by as many."""
        if not self._sites_elsewhere and not self.data.remote and not self.data.holds_out:
            return []
        return list(server.clients) if self.data.population is None else server.cohort()

    def _why_stopped(self, server: RunServer, round: int) -> str:
        return (
            f"{MOST_UNDONE} rounds in a row had too few replies{server.record.failures_in_brief()}; the run ended "
            f"after round {round} and can be resumed once that is fixed."
        )

    def _why_waiting(self, waits: RepliesWait, round: int) -> str:
        here = self.folder.path if (self.folder.path / "clients").is_dir() else "FOLDER"
        return (
            f"A person must approve what {waits.task} would send from {', '.join(waits.clients)} "
            f"({f'round {round}' if round else 'the opening'}): review it with `understudy review {here}` "
            f"(in a terminal: `understudy approve {here}`), and run again with {resuming()}."
        )
