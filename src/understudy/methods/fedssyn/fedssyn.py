"""Fedssyn: "Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity".

An add-on to any method. Before the first round each client trains a generator on a share ρ (``records``) of its records
and sends ñ (``images``) labelled images with the class frequencies of that share, in bytes; of float records (vectors,
tables, sequences) it sends float records, made by ``vae``. The server joins them,
draws one permutation and deals every client an equal part, which comes with the client's first brief. Clients that sent
nothing receive their part too, whether they have too few records or their generator failed. From then on clients train
on their own records and the dealt ones; the number of gradient steps is still that of their own records.

The controls of the paper: (a) the underlying method alone; (b) ``deal: own``, where each client keeps the images it
made itself (no image is sent); (c) this; (d) ``source: real``, which shuffles ``images`` real records of each client:
the upper bound, and no privacy at all; (e) and (f) the method ``central``, on real and on synthetic records.

Where we go further: with ``warm_start`` the server trains on all images before round 1, which costs no further byte,
and clients begin with that model. It is the model of round 0.

Before images are sent, near-copies of the client's records can be dropped or counted, and a client whose generator
makes too many of them sends nothing (``veto: stop``, `methods.fedssyn.veto`). If a generator diverged or collapsed, the
client notices and sends nothing. ``keep_generator`` keeps the stages of its training with the client (the generator's
``checkpoints``), and a later run can sample from them (``from_run``, ``epoch``).

With ``dp`` the generator learns by DP-SGD (`methods.fedssyn.privacy`). The paper prints σ = 1.906 for (10, 1e-5), which
holds for one batch size only; here σ is solved from the budget. Its claim covers the exchange (``scope: exchange``):
models that clients train later on the same records get no noise, so the run as a whole has no guarantee. ``scope: all``
needs a private method underneath; both draw on one budget, and that method's noise is solved for what is left.

The presets are the CIFAR set-ups, ``paper`` and ``release`` for 10 clients and others for 40 and 100. ñ is 50 000/N in
the paper; the authors' scripts have 5000, 1125 and 500 (for CIFAR-100 also 1000). How clients train is up to the
underlying method: ``fedavg`` has presets ``fedssyn`` and ``fedssyn-release``.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.kinds import stand_ins
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.exchange_once import ExchangeOnce
from understudy.federation.message import Kind, Message, labels_from_wire, labels_to_wire
from understudy.federation.method import (
    ANYTHING,
    ONLY_NUMBERS,
    Dealt,
    Job,
    Method,
    State,
    Takes,
    taken_by_all,
    task,
    task_name,
)
from understudy.federation.registry import AROUND_ROUNDS, add_on
from understudy.federation.server import Reply, Server
from understudy.learning.loop import Descent
from understudy.learning.pool import PoolFeed, learn_from_pool
from understudy.methods.fedssyn.kept_generators import keep, kept_by
from understudy.methods.fedssyn.privacy import PrivateExchange, private_exchange, rehearse
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.methods.fedssyn.veto import after_veto
from understudy.methods.shared.imitation import Imitation, SeenAndUnseen, check_single_labels
from understudy.methods.shared.outliers import learnt_from
from understudy.methods.shared.pooled import accepted, of_one_kind, why_unfit
from understudy.models.network import Network
from understudy.synthesis.generator import Stage

POOL_X, POOL_Y, GIVEN = "fedssyn.x", "fedssyn.y", "fedssyn.given"  # in State: the shuffled pool; who has its part
MADE = "fedssyn.made."  # in State after the opening, per client: images sent, near-copies, out of how many

PUBLISHED: Mapping[str, Any] = {"generator": {"name": "diffusion", "preset": "paper"}, "records": 0.75}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {**PUBLISHED, "images": 5000},
    "paper-40": {**PUBLISHED, "images": 1250},
    "paper-100": {**PUBLISHED, "images": 500},
    "release": {**PUBLISHED, "images": 5000},
    "release-40": {**PUBLISHED, "images": 1125},
    "release-100": {**PUBLISHED, "images": 500},
}

MOST_IMAGES = 2**40  # that a client may claim to have made
BYTES = torch.zeros(0, dtype=torch.uint8)


class Fedssyn(ExchangeOnce):
    given, once = GIVEN, (POOL_X, POOL_Y)

    def __init__(self, settings: FedssynSettings, inner: Method):
        super().__init__(inner)
        self.settings = settings
        self.generator = settings.built()
        self.exchange: PrivateExchange | None = None

    def bind(self, net: Network, rounds: int) -> None:
        check_single_labels(net.problem)
        self.generator.device = net.device
        if self.settings.source == "generator":
            self.generator.check(net.problem)
        if self.settings.dp is not None:
            before = self.spent_before
            self.exchange = exchange = private_exchange(self.settings, self.privacy, self.inner, before)
            rehearse(self.generator, net.problem)
            self.spent_before = lambda own: (*before(own), *exchange.spendings(own))
        elif self.inner.private and self.settings.deal == "own":
            raise UserError(
                "with.fedssyn: a client's own images would carry its records past the noise of the underlying method; "
                "set with.fedssyn.dp, or write deal: shuffled."
            )
        super().bind(net, rounds)
        if self.settings.warm_start is not None:
            self._check_warm_start()

    def _check_warm_start(self) -> None:
        if self.inner.scored_at_home:
            raise UserError(
                "with.fedssyn.warm_start: part of every model stays with its client, so the server has no whole model "
                "to train; leave it out."
            )
        if self.inner.begins_anew:
            raise UserError(
                "with.fedssyn.warm_start: the underlying method trains freshly drawn networks, so a model from before "
                "round 1 would not be used; leave it out."
            )

    @property
    def takes(self) -> Takes:
        made = ONLY_NUMBERS if self.settings.source == "generator" else ANYTHING
        return taken_by_all([made, self.inner.takes])

    @property
    def private(self) -> bool:
        return self.settings.dp is not None and self.inner.private

    # ---- on the client

    @task(x="examples", y="labels", duplicates="statistics")  # which of them: see `jobs`
    def generate(self, client: Client, brief: Message) -> Message:
        made, found = after_veto(self.settings, client, *self._made(client), self._features)
        message = Message(x=made.x, y=labels_to_wire(made.y, self.net.problem.classes))
        if self.settings.deal == "own":
            client.keep_dealt(message)
            message = Message()
        return message if found is None else message.but(duplicates=found)

    def _made(self, client: Client) -> tuple[Examples, SeenAndUnseen]:
        """Images, and which of the client's records were seen in making them."""
        imitation = Imitation(self.settings, self.generator, self.net.problem)
        all_seen = SeenAndUnseen(client.own, client.own.none())
        if self.settings.source == "real":
            order = torch.randperm(len(client.own), generator=client.rng("fedssyn real records"))
            return client.own.take(order[: imitation.wanted(len(client.own))]), all_seen

        def note(stage: Stage) -> None:
            if self.settings.keep_generator:
                keep(client.memory, stage, client.own)

        if self.exchange is not None:
            return self.exchange.of(client, imitation, note), all_seen
        if self.settings.from_run is not None:
            return self._made_again(client, imitation, Path(self.settings.from_run)), all_seen
        shares = imitation.shares(client)
        return imitation.of(client, lambda client, some: imitation.learn(client, some, keep=note), shares), shares

    def _made_again(self, client: Client, imitation: Imitation, run: Path) -> Examples:
        try:
            return imitation.of(client, lambda client, _: kept_by(client.id, client.own, run, self.settings.epoch))
        except (RuntimeError, KeyError):
            raise UserError(
                f"with.fedssyn.from_run: what {client.id} kept in {run} is not a {self.settings.generator['name']} "
                "with these settings; copy the generator from that run's config.yaml."
            ) from None

    def _features(self, x: Tensor) -> Tensor:
        """Features of the untrained network: the same for every client and independent of the records."""
        with self.net.scoring():
            return self.net.at(self.net.initial(), x)[0].cpu()

    def jobs(self) -> dict[str, Job]:
        """Its own task with what it really sends, and those of the underlying method."""
        kinds: dict[str, Kind] = {} if self.settings.deal == "own" else {"x": "examples", "y": "labels"}
        if self.settings.veto is not None:
            kinds["duplicates"] = "statistics"
        mine = task_name(self.generate)
        return {**super().jobs(), mine: Job(mine, self.generate, kinds, self.keep_rows)}

    def keep_rows(self, kinds: Mapping[str, Kind], reply: Message, kept: Tensor) -> Message:
        """How many near-copies the veto found is about all images that were made, and stays."""
        found = {"duplicates": reply["duplicates"]} if "duplicates" in reply else {}
        return super().keep_rows(kinds, reply.without("duplicates"), kept).but(found)

    def keep(self, client: Client, parts: Message) -> None:
        client.keep_dealt(Message(x=parts[POOL_X], y=parts[POOL_Y]))

    # ---- on the server

    def start(self, server: Server) -> State:
        replies = list(accepted(server.ask(self.generate, Message(), to=server.clients), self._fault))
        if self.settings.deal != "own":
            replies = of_one_kind(replies)
        if self.settings.deal == "own" or not replies:
            pool = Message({GIVEN: torch.ones(len(server.clients), dtype=torch.uint8)})  # nothing to deal
        else:
            pool = learnt_from(replies, lambda some: self._pool(server, some))
        counts = {MADE + reply.client: self._counts(reply) for reply in replies if reply.refusal is None}
        state = self.open_with(server, pool.without("model").but(counts))
        return self.inner.begun_at(state, pool["model"]) if "model" in pool else state

    def _pool(self, server: Server, replies: Sequence[Reply]) -> Message:
        """All images, shuffled; with ``warm_start`` also the ``model`` that learnt from them."""
        pool, local = _shuffled(replies, server.rng("fedssyn shuffle")), self.settings.warm_start
        if local is None or not len(pool[POOL_Y]):
            return pool
        images = Examples(pool[POOL_X], labels_from_wire(pool[POOL_Y]))
        feed = PoolFeed(images, server.rng("fedssyn warm start"), server.rng("fedssyn warm start augmentation"))
        return pool.but(model=learn_from_pool(self.net, self.net.initial(), feed, Descent(local)).model)

    def parts_for(self, state: State, at: int, clients: int) -> Message:
        mine = slices(len(state[POOL_Y]), clients)[at]
        return Message({POOL_X: state[POOL_X][mine], POOL_Y: state[POOL_Y][mine]})

    def dealt(self, state: State, clients: Sequence[str]) -> Mapping[str, Dealt]:
        if POOL_Y not in state:
            return super().dealt(state, clients)
        parts = {client: self.parts_for(state, at, len(clients)) for at, client in enumerate(clients)}
        return {
            client: Dealt(
                Examples(part[POOL_X], labels_from_wire(part[POOL_Y])),
                sum(tensor.nbytes for tensor in part.values()),
                bool(given),
            )
            for (client, part), given in zip(parts.items(), state[GIVEN].tolist(), strict=True)
        }

    def _fault(self, reply: Reply) -> str | None:
        why = None if self.settings.deal == "own" else why_unfit(reply, self.net, most=self.settings.images)
        wanted = self.net.problem.dtype
        if why is None and self.settings.source == "generator" and "x" in reply and reply["x"].dtype != wanted:
            why = f"its records are not in {str(wanted).removeprefix('torch.')}"
        if why is None and self.settings.veto is not None and not _are_counts(reply.get("duplicates", BYTES)):
            why = "it does not report how many near-copies there were, out of how many"
        return why

    def _counts(self, reply: Mapping[str, Tensor]) -> Tensor:
        sent = len(reply["y"]) if "y" in reply else -1  # images that stay at home are not counted here
        return torch.tensor([sent, *(reply["duplicates"].tolist() if "duplicates" in reply else (0, sent))])

    def round(self, server: Server, state: State) -> State:
        after = super().round(server, state)
        return after.only(*(part for part in after if not part.startswith(MADE)))

    def remarks(self, state: State) -> Sequence[str]:
        made = {part.removeprefix(MADE): state[part].tolist() for part in state if part.startswith(MADE)}
        return [*super().remarks(state), *(self._of_all(state, made) if made else ()), *self._of_each(made)]

    def _of_all(self, state: State, made: Mapping[str, Sequence[int]]) -> Iterator[str]:
        pool, clients = len(state.get(POOL_Y, ())), len(state[GIVEN])
        several = stand_ins(self.net.problem.kind)
        if self.settings.deal == "shuffled" and self.settings.images != 0 and not pool:
            yield f"Nothing was shuffled: no client made any {several}, so the underlying method trains alone."
        if pool % clients:
            yield f"{pool} {several} for {clients} clients: parts of {pool // clients} and {pool // clients + 1}."
        if self.settings.veto is not None and not any(near for _, near, _ in made.values()):
            yield f"None of {sum(of for _, _, of in made.values())} {several} was a near-copy of a record."

    def _of_each(self, made: Mapping[str, Sequence[int]]) -> Iterator[str]:
        done = "sent anyway" if self.settings.veto == "flag" else "dropped"
        several = stand_ins(self.net.problem.kind)
        for client, (sent, near, of) in made.items():
            if near:
                yield f"{client}: {near} of {of} {several} were near-copies of its records, {done}."
            elif sent == 0 and self.settings.images != 0 and self.settings.source == "generator":
                yield f"{client}: no {several} were made, because it has too few records for a generator."


def _shuffled(replies: Sequence[Reply], rng: torch.Generator) -> Message:
    """Draws the one permutation; its result stays in State."""
    x, y = torch.cat([reply["x"] for reply in replies]), torch.cat([reply["y"] for reply in replies])
    order = torch.randperm(len(y), generator=rng)
    return Message({POOL_X: x[order], POOL_Y: y[order]})


def slices(total: int, parts: int) -> list[slice]:
    """Equal parts; if they do not divide evenly, the first ones are longer by one."""
    short, longer = divmod(total, parts)
    ends = [short * k + min(k, longer) for k in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


def _are_counts(duplicates: Tensor) -> bool:
    if tuple(duplicates.shape) != (2,) or duplicates.dtype != torch.int64:
        return False
    near, of = map(int, duplicates)
    return 0 <= near <= of <= MOST_IMAGES


@add_on(
    "fedssyn",
    settings=FedssynSettings,
    layer=AROUND_ROUNDS,
    presets=PRESETS,
    family="pictures teach, clients learn",
    sends="images, once",
)
def fedssyn(settings: FedssynSettings, method: Method) -> Method:
    return Fedssyn(settings, method)
