"""The averaging family: clients train the broadcast model, the server combines their changes.

A member of the family is a few terms (what else pulls at the local model), a rule (how changes are combined) and a
slope. The server sees sums over clients, never a single reply.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from understudy.base_settings import Settings
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message, scalar
from understudy.federation.method import (
    ANYTHING,
    Job,
    Method,
    Pausing,
    State,
    Takes,
    Together,
    by_sums,
    taken_by_all,
    task,
    task_name,
)
from understudy.federation.server import Server
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, Pull, Slope, Trained, plain, train
from understudy.learning.plan import passes
from understudy.learning.together.program import program_for
from understudy.learning.together.stacking import Exercise
from understudy.learning.together.training import train_together
from understudy.methods.shared import local_scores
from understudy.methods.shared.term_checks import Active, Training, check_joins, check_together
from understudy.methods.shared.terms_and_rules import Kit, Parts, Rule, Shapes, SlopeFor, Term
from understudy.models.network import Network

SOMEBODY = 0.5  # a weight below it means no records: clients' weights are whole numbers
LOCAL_WORK = ("train", "work", "fit", "walk")  # what a group of clients does otherwise: see `Averaging.together`

Kits = list[Kit | None]  # one per term


def plainly(_client: Client, _brief: Message, _net: Network) -> Slope:
    """For members of the family that follow the gradient of the loss as it is."""
    return plain


class AveragingSettings(Settings):
    local: Local = Local()  # how a client trains in a round
    weights: Literal["size", "uniform"] = "size"  # weights of clients in the mean: n_k / Σ n, or equal
    buffers: Literal["average", "local", "forbid"] = "average"  # running statistics of BatchNorm and the like
    score_local: bool = False  # record how far local models move and how well they do; see local_scores.py


class Averaging(Method):
    plain_steps: ClassVar[str] = ""  # why only a loss may move the local model, if so
    one_step: ClassVar[bool] = False  # a round is one local step
    head_at_home: ClassVar[bool] = False  # the head stays with its client and is neither sent nor averaged
    as_usual: ClassVar[tuple[str, ...]] = ()  # parts of LOCAL_WORK that a subclass overrides without changing the work

    def __init__(
        self,
        settings: AveragingSettings,
        *,
        terms: Sequence[Term] = (),
        rule: Rule | None = None,
        slope: SlopeFor = plainly,
    ):
        self.settings, self.slope = settings, slope
        self.terms, self.rule = tuple(terms), rule or Rule()
        self._check_terms()

    def _check_terms(self) -> None:
        check_together(self.terms, Training(self.rule, self.settings.local, self.head_at_home))

    def and_term(self, term: Term) -> "Averaging":
        """The same method with one more term, as an add-on makes it."""
        check_joins(term, self.plain_steps, self.one_step)
        joined = copy.copy(self)
        joined.terms = (*self.terms, term)
        joined._check_terms()
        return joined

    @property
    def takes(self) -> Takes:
        return taken_by_all([ANYTHING, *(term.takes for term in self.terms)])

    def adapt_network(self, module: nn.Module, problem: Problem) -> nn.Module:
        for term in self.terms:
            module = term.adapt_network(module, problem)
        return module

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if self.settings.buffers == "forbid" and net.size > net.parameters:
            raise UserError(
                "The network keeps running statistics, but method.buffers is 'forbid'; "
                "choose a network without BatchNorm, or write 'average' or 'local'."
            )
        for term in self.terms:
            term.check(net)

    @property
    def scored_at_home(self) -> bool:
        """With heads or buffers kept at home, the server has only part of any model."""
        return self.head_at_home or self._local_buffers

    @property
    def shared(self) -> slice:
        """The trained part of the vector that is averaged."""
        return self.net.body if self.head_at_home else self.net.trainable

    @property
    def _local_buffers(self) -> bool:
        return self.settings.buffers == "local" and self.net.size > self.net.parameters

    def effort(self, records: int, classes: int) -> int:
        return self.settings.local.step_count(records) * self.settings.local.batch

    def samples(self, records: int, classes: int, rounds: range) -> float:
        steps = self.settings.local.step_count(records)
        return super().samples(records, classes, rounds) + sum(term.samples(steps, rounds) for term in self.terms)

    # ---- on the client

    @task()  # what it sends depends on the rule and the terms: see `jobs`
    def train(self, client: Client, brief: Message) -> Message:
        return self.reply(client, brief, *self.work(client, brief))

    def work(self, client: Client, brief: Message) -> tuple[Trained, Parts]:
        """Local training from the broadcast model, and what the terms send up."""
        w, kits = self._begin(client, brief)
        trained = self.fit(client, brief, w, self._active(kits))
        return trained, self._end(client, kits, trained)

    def _begin(self, client: Client, brief: Message) -> tuple[Tensor, Kits]:
        """The model to train from, and what each term prepared."""
        w = self.whole(client, brief["model"])
        if self.terms:
            self.net.load(w)  # for those that look at it before training does the same
        outside = self.seen_by_terms(client)
        return w, [term.begin(outside, brief, self.net) for term in self.terms]

    def _active(self, kits: Kits) -> list[Pull]:
        return [Active(term, kit) for term, kit in zip(self.terms, kits, strict=True) if kit is not None]

    def _end(self, client: Client, kits: Kits, trained: Trained) -> Parts:
        parts, outside = Parts(), self.seen_by_terms(client)
        for term, kit in zip(self.terms, kits, strict=True):
            parts |= term.end(outside, kit, trained)
        return parts

    def reply(self, client: Client, brief: Message, trained: Trained, of_terms: Parts) -> Message:
        """What a client sends after training."""
        parts = self._shares(client, trained) | of_terms
        if self.settings.score_local:
            parts[local_scores.PART] = self._local_scores(client, trained)
        return Message(parts)

    def seen_by_terms(self, client: Client) -> Client:
        """The client as the hooks before and after training see it."""
        return client

    def plan(self, client: Client) -> Tensor:
        """Which records make up which batch."""
        local = self.settings.local
        steps = local.step_count(len(client.own))
        rng = client.rng("batches")
        return passes(len(client.examples), steps, local.batch, rng, drop_last=local.drop_last)

    def fit(self, client: Client, brief: Message, w: Tensor, pulls: Sequence[Pull]) -> Trained:
        descent = self.descent(client, pulls, self.slope(client, brief, self.net))
        return self.walk(client, w, self.plan(client), descent)

    def descent(self, client: Client, pulls: Sequence[Pull] = (), slope: Slope = plain) -> Descent:
        """From the settings, at the rate of this round."""
        local = self.settings.local
        rate = local.rate(min(client.round, self.rounds), self.rounds)  # the final score comes one round later
        return Descent(local, rate, pulls, slope)

    def walk(
        self, client: Client, w: Tensor, plan: Tensor, descent: Descent, changes: torch.Generator | None = None
    ) -> Trained:
        """Local training along ``plan``; ``changes`` replaces the client's usual stream for augmentation."""
        feed = Feed(client.examples, plan, changes or client.rng("augmentation"))
        return train(self.net, w, feed, descent, records=len(client.own))

    # ---- on several clients at once

    def together(self, task: str) -> Together | None:
        if task != task_name(self.train) or self._why_not_this_method():
            return None
        program = program_for(self.net)
        if isinstance(program, str):
            return None
        return Together(self._pausing, lambda exercises: train_together(self.net, program, exercises))

    def _pausing(self, client: Client, brief: Message) -> Pausing:
        """`train`, with a pause where the training is."""
        w, kits = self._begin(client, brief)
        changes = client.rng("augmentation") if self.settings.local.augment else None
        feed = Feed(client.examples, self.plan(client), changes)
        trained = yield Exercise(w, feed, self.descent(client, self._active(kits)), len(client.own))
        return self.reply(client, brief, trained, self._end(client, kits, trained))

    def why_one_by_one(self) -> str:
        if why := self._why_not_this_method():
            return why
        program = program_for(self.net)
        return program if isinstance(program, str) else ""

    def _why_not_this_method(self) -> str:
        usual = (name in self.as_usual or getattr(type(self), name) is getattr(Averaging, name) for name in LOCAL_WORK)
        if self.slope is not plainly or not all(usual):
            return "this method takes other steps than plain SGD on the loss"
        for term in self.terms:
            if term.changes_loss or (term.pulls and term.in_rows is None):
                return f"{term.name} is computed for one client at a time"
        return ""

    def personal(self, client: Client, model: Tensor) -> Tensor:
        return self.whole(client, model)

    def personal_model(self, client: Client, trained: Trained) -> Tensor:
        """The model that is this client's own after local training."""
        return trained.model

    def _local_scores(self, client: Client, trained: Trained) -> Tensor:
        if trained.records == 0:
            return torch.zeros(local_scores.SIZE)
        personal = self.personal_model(client, trained)
        return local_scores.local_scores(client, self.net, trained.start, trained.model, personal)

    def whole(self, client: Client, model: Tensor) -> Tensor:
        """The broadcast model, completed by what stays with the client."""
        if not self.scored_at_home:
            return model
        net, first = self.net, self.net.initial()
        shared = self.shared.stop
        head = client.memory.get("head", first[net.head]) if self.head_at_home else model[:0]
        buffers = client.memory.get("buffers", first[net.buffers]) if self._local_buffers else model[shared:]
        return torch.cat([model[:shared], head, buffers])

    def _shares(self, client: Client, trained: Trained) -> Parts:
        net, settings = self.net, self.settings
        weight = float(trained.records if settings.weights == "size" else trained.records > 0)
        change = trained.model - trained.start
        parts = self.rule.share(change[self.shared], weight, trained)
        parts["weight"] = scalar(weight)
        if settings.buffers == "average" and net.size > net.parameters:
            parts["buffers"] = change[net.buffers] * weight
        if settings.buffers == "local":
            client.memory["buffers"] = trained.model[net.buffers]
        if self.head_at_home:
            client.memory["head"] = trained.model[net.head]
        return parts

    # ---- on the server

    @by_sums
    def start(self, server: Server) -> State:
        state = super().start(server).but(self.rule.first_state(self.shared.stop))
        for term in self.terms:
            state = state.but(term.first_state(self.net))
        return state

    @by_sums
    def round(self, server: Server, state: State) -> State:
        sums = server.sum(self.train, self._brief(state), server.cohort(), self.reply_shapes(), self._least())
        if float(sums["weight"]) < SOMEBODY:
            return state  # nobody had a record
        return state.but(self.combined(state, sums, len(server.clients)))

    def combined(self, state: State, sums: Message, clients: int) -> Parts:
        """The parts of State that the sums change."""
        net, w = self.net, state["model"]
        parts = self.rule.step(w[self.shared], state, sums, clients)
        at_home, buffers = w[self.shared.stop : net.parameters], w[net.buffers]
        if "buffers" in sums:
            buffers = buffers + sums["buffers"] / sums["weight"]
        parts["model"] = torch.cat([parts["model"], at_home, buffers]).to(torch.float32)
        for term in self.terms:
            parts |= term.fold(state, sums, clients)
        if local_scores.PART in sums:
            parts[local_scores.PART] = sums[local_scores.PART].to(torch.float32)
        return parts

    def model_brief(self, state: State) -> Message:
        return Message(model=self._sent(self.result(state)))

    def local_model(self, brief: Message, reply: Message) -> Tensor | None:
        """Its change comes multiplied by its weight. What stays with the client is not known here."""
        if self.scored_at_home or "change" not in reply or float(reply["weight"]) < SOMEBODY:
            return super().local_model(brief, reply)
        change = torch.cat([reply[part] for part in ("change", "buffers") if part in reply])
        return brief["model"] + change / reply["weight"]

    def broadcast(self, state: State) -> Tensor:
        """The model that clients train from, without what stays with them."""
        return self._sent(state["model"])

    def _sent(self, model: Tensor) -> Tensor:
        if not self.scored_at_home:
            return model
        return torch.cat([model[self.shared], model[self.net.buffers][: self._shared_buffers]])

    @property
    def _shared_buffers(self) -> int:
        return 0 if self._local_buffers else self.net.size - self.net.parameters

    def metrics(self, state: State) -> Mapping[str, float]:
        return local_scores.means(state[local_scores.PART]) if local_scores.PART in state else {}

    def _brief(self, state: State) -> Message:
        further = {part: state[part] for term in self.terms for part in term.down}
        return Message(further, model=self.broadcast(state))

    def result(self, state: State) -> Tensor:
        return self.rule.result(state)

    def reply_shapes(self) -> Shapes:
        """Shapes of everything a client sends up to be summed."""
        net, shapes = self.net, {"weight": (), **self.rule.shapes(self.shared.stop)}
        if self.settings.score_local:
            shapes[local_scores.PART] = (local_scores.SIZE,)
        if self.settings.buffers == "average" and net.size > net.parameters:
            shapes["buffers"] = (net.size - net.parameters,)
        for term in self.terms:
            shapes |= term.shapes(net)
        return shapes

    def _least(self) -> dict[str, float]:
        """A client's weight must not be negative, nor anything else the server divides by."""
        least = {"weight": 0.0, **self.rule.least}
        if self.settings.score_local:
            least[local_scores.PART] = 0.0
        for term in self.terms:
            least |= term.least
        return least

    def jobs(self) -> dict[str, Job]:
        kinds: dict[str, Kind] = {"weight": "scalars", **self.rule.up}
        if self.settings.buffers == "average":
            kinds["buffers"] = "weights"
        if self.settings.score_local:
            kinds[local_scores.PART] = "scalars"
        for term in self.terms:
            kinds |= term.up
        name = task_name(self.train)
        return {**super().jobs(), name: Job(name, self.train, kinds, self.keep_rows)}
