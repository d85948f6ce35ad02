"""Understudy, our own method: images from generators that were stopped early and taught one another by their images.

Each client trains a small diffusion model on part of its records (``records``) for a hundred updates, far fewer than
its best images would need, and sends images: as many as it has records, in its own class frequencies. From the images
of all clients the server trains a generator of the same kind, for as long as it likes (``server_updates``): that costs
no client anything more. In the next round every client begins at that generator, which knows all classes by now, and
takes another hundred updates on the same records. Its new images take the place of the old. A client sends
``exchanges`` times, then no more. The server trains a fresh network on the newest images of all, each of them turned,
slanted and moved a little every time (``augment: [warp]``), at a rate that falls along half a cosine.

What images give away first are the records of small holdings. So classes of which a client has fewer than
``min_class_records`` records are neither learnt nor sent, and in an exchange a generator sees each record ``looks``
times, whether its client has many or few: the batch grows with the records.

What we think makes it work: most of what a generator learns in its first updates is what all such images have in
common, and that it can learn from others' images; a generator that has seen each record only a few times has learnt the
kind, not the record; and warps make up for images that are not sharp (docs/studies/frontier has the numbers). Nothing
but images leaves; there is no noise, so there is no ε. For a promise see `moments`, or `fedssyn` with ``dp``.

With ``rounds: 1`` there is one exchange; then set ``generator.least_steps`` to 200 and ``looks`` to null. Vectors and
sequences, which no diffusion model makes, are learnt by a VAE, once and not stopped early: what those give away was not
measured.

A client that was absent begins at the server's generator, if there is one, when it is first in a cohort; the server
then starts again on all images, which are kept in State.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.kinds import stand_ins
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, labels_from_wire, labels_to_wire
from understudy.federation.method import ONLY_NUMBERS, Method, State, Takes, task
from understudy.federation.registry import KindDefaults, method
from understudy.federation.server import Reply, Server
from understudy.learning.local import Local
from understudy.learning.loop import Descent
from understudy.learning.pool import PoolFeed, learn_from_pool
from understudy.methods.shared.generated_start import of_classes
from understudy.methods.shared.imitation import (
    Imitation,
    ImitationSettings,
    built_generator,
    check_single_labels,
    require_fitting,
)
from understudy.methods.shared.pooled import pooled, why_unfit
from understudy.methods.shared.sent_sets import SentSets
from understudy.models.network import Network
from understudy.synthesis.generator import Generator, Learnt
from understudy.synthesis.labels import largest_remainder

POOL = "understudy."  # in State, before a client's name
START = "start."  # in State and in briefs: what the server's generator learnt
LEARNT_FROM = "learnt_from"  # in State: how many sets had come when it did
ORDER = "understudy.order"  # in a client's memory: its records, those that it learns from first
STOPPED_EARLY = {"name": "diffusion", "epochs": 1, "least_steps": 100}
PARTS = 6  # of the server's training, each at a rate of its own


class UnderstudySettings(ImitationSettings):
    where: ClassVar[str] = "method.generator"
    stand_in: ClassVar[Mapping[str, Any]] = STOPPED_EARLY

    # a name or file.py:Class, and its settings; by default a diffusion model that is stopped early
    generator: dict[str, Any] = Field(default=STOPPED_EARLY, validate_default=True)
    min_class_records: int = Field(default=50, ge=1)  # records of a class that a client needs to send images of it
    # times that a generator sees each record in an exchange, in `least_steps` updates; the batch grows with them;
    # null: `generator.batch`, however few records there are
    looks: int | None = Field(default=6, ge=1)
    exchanges: int = Field(default=2, ge=1)  # how often a client sends images, in as many rounds; the newest count
    # updates of the server's generator, on the images of all, at which clients begin the next time
    server_updates: int = Field(default=800, ge=1)
    # how the server trains on all images; its learning rate falls along half a cosine
    server: Local = Local(epochs=60, batch=64, lr=0.05, momentum=0.9, weight_decay=5e-4, augment=("warp",))


UNWARPED = {
    "generator": {"name": "vae"},
    "looks": None,
    "exchanges": 1,
    "server": Local(epochs=60, batch=64, lr=0.05, momentum=0.9),
}
BY_KIND: KindDefaults = {"vector": UNWARPED, "sequence": UNWARPED}


@method("understudy", settings=UnderstudySettings, usual=BY_KIND, sends="images, twice")
class Understudy(Method):
    def __init__(self, settings: UnderstudySettings):
        self.settings = settings
        self.generator = settings.built()
        self.pool = SentSets(POOL, settings.exchanges)

    @property
    def takes(self) -> Takes:
        return ONLY_NUMBERS

    @property
    def begins_anew(self) -> bool:
        return True

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        check_single_labels(net.problem)
        self.generator.device = net.device
        self.generator.check(net.problem)
        self._check_course()
        if self.privacy is not None and self.privacy.epsilon is not None:
            raise UserError(
                "understudy adds no noise to its images, so no privacy.epsilon can hold; leave privacy out, or choose "
                "moments."
            )

    def _check_course(self) -> None:
        """How long and from where generators are trained."""
        words = self.settings.generator
        if self.settings.exchanges > 1 and not self.generator.goes_on:
            raise UserError(
                f"method.exchanges: generator '{words['name']}' cannot go on from what another has learnt; set "
                "exchanges=1 and looks=null, or choose diffusion."
            )
        if self.settings.exchanges > 1 and not {"epochs", "least_steps"} <= words.keys():
            raise UserError(
                f"method.exchanges: the server trains for server_updates, and generator '{words['name']}' has no "
                "settings epochs and least_steps to say so; set exchanges=1, or choose diffusion."
            )
        looks = self.settings.looks
        if looks is not None and words.get("epochs", 1) > looks:
            raise UserError(
                f"method.looks: {words['epochs']} epochs of the generator see each record more than {looks} times; set "
                "generator.epochs=1, or looks=null."
            )
        if looks is not None and not (words.get("least_steps") and "batch" in words):
            raise UserError(
                f"method.looks: it sets the batch of generator.least_steps updates, and generator '{words['name']}' "
                "has none; set generator.least_steps=100, or looks=null for batches of one size."
            )

    # ---- on the client

    @task(x="examples", y="labels")
    def portray(self, client: Client, brief: Message) -> Message:
        """Images of the classes that it holds enough records of."""
        made = self._made(client, self._held(client.own), _start_in(brief))
        return Message(x=made.x, y=labels_to_wire(made.y, self.net.problem.classes))

    def _held(self, own: Examples) -> Examples:
        counts = own.label_counts(self.net.problem.classes).tolist()
        return of_classes(own, [c for c, n in enumerate(counts) if n >= self.settings.min_class_records])

    def _made(self, client: Client, held: Examples, start: Learnt) -> Examples:
        require_fitting(client, self.net.problem)
        seen = held.take(self._order(client, len(held))[: round(self.settings.records * len(held))])
        if len(seen) < self.generator.smallest:
            return held.none()
        generator = self._for(len(seen))
        imitation = Imitation(self.settings, generator.beginning_at(start) if start else generator, self.net.problem)
        counts = seen.label_counts(self.net.problem.classes)
        learnt = imitation.learn(client, seen)
        return imitation.painted(client, learnt, largest_remainder(imitation.wanted(len(held)), counts))

    def _for(self, records: int) -> Generator:
        """With batches so large that the updates of an exchange see each record `looks` times, whether a client has few
        or many; with fewer updates where even batches of one would see them more often."""
        looks, updates = self.settings.looks, self.settings.generator.get("least_steps")
        if looks is None or updates is None:
            return self.generator
        batch = max(1, round(looks * records / updates))
        return self._generator(batch=batch, least_steps=min(updates, looks * records))

    def _generator(self, **changes: int) -> Generator:
        made = built_generator({**self.settings.generator, **changes})
        made.device = self.generator.device
        return made

    def _order(self, client: Client, held: int) -> Tensor:
        """The same whenever it is asked, so that records it does not learn from are never learnt from."""
        kept = client.memory.get(ORDER)
        if kept is None or len(kept) != held:
            kept = torch.randperm(held, generator=client.rng("understudy records"))
            client.memory[ORDER] = kept
        return kept

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        state = self._with_start(server, state)
        brief = Message({name: state[name] for name in state if name.startswith(START)})
        asked = self.pool.ask_new(server, state, self.portray, self._fault, brief)
        return self.pool.learnt(server, state, asked, lambda kept: self._learn(server, kept))

    def _with_start(self, server: Server, state: State) -> State:
        """With what a generator learns from all images so far, if somebody is about to begin there."""
        if self.settings.exchanges == 1 or not self.pool.due(state, server.cohort()):
            return state
        sets = torch.tensor(sum(self.pool.sent(state, client) for client in server.clients))
        kept = [sent for sent in self.pool.kept(state, server.clients) if len(sent["y"])]
        images = sum(len(sent["y"]) for sent in kept)
        if images < max(1, self.generator.smallest) or (LEARNT_FROM in state and torch.equal(state[LEARNT_FROM], sets)):
            return state
        pool = Examples(torch.cat([sent["x"] for sent in kept]), labels_from_wire(torch.cat([s["y"] for s in kept])))
        longer = self._generator(epochs=1, least_steps=self.settings.server_updates)
        found = longer.fit(pool, self.net.problem, server.rng("generator"))
        start = Message({START + name: _halved(tensor) for name, tensor in found.items()})
        return state if start.not_finite() else state.but(start, **{LEARNT_FROM: sets})

    def remarks(self, state: State) -> Sequence[str]:
        """If everybody answered and nobody sent anything, the model is still as it was drawn."""
        labels = [tensor for name, tensor in state.items() if name.startswith(POOL) and name.endswith(".y")]
        if not labels or any(len(y) for y in labels) or self.settings.images == 0:
            return ()
        least, several = self.settings.min_class_records, stand_ins(self.net.problem.kind)
        return (
            f"No {several} have come yet, so the model has learnt nothing: a client sends those of classes of which it "
            f"has {least} records or more. A lower method.min_class_records gives more of small classes away.",
        )

    def _fault(self, reply: Reply) -> str | None:
        wrong, problem = why_unfit(reply, self.net, most=self.settings.images), self.net.problem
        if wrong is None and reply["x"].dtype != problem.dtype:
            wanted = "pixels" if problem.dtype == torch.uint8 else "float32 numbers"
            return f"its {stand_ins(problem.kind)} are not {wanted}, which its generator makes"
        return wrong

    def _learn(self, server: Server, kept: Sequence[Message]) -> Tensor:
        """A fresh network, trained on the images of all clients."""
        pool = pooled(kept, self.net.problem)
        w = self.net.redrawn(int(torch.randint(2**62, (), generator=server.rng("fresh network"))))
        for part, rate in cooling(self.settings.server):
            feed = PoolFeed(pool, server.rng("pool"), server.rng("augmentation"))
            w = learn_from_pool(self.net, w, feed, Descent(part, rate)).model
        return w


def _halved(tensor: Tensor) -> Tensor:
    """Sixteen bits are enough to begin at, and half the bytes."""
    return tensor.to(torch.float16) if tensor.is_floating_point() else tensor


def _start_in(brief: Message) -> Learnt:
    return {name.removeprefix(START): brief[name] for name in brief if name.startswith(START)}


def cooling(local: Local) -> Iterator[tuple[Local, float]]:
    """Training in equal parts (the first ones longer by one), at rates along half a cosine from ``local.lr``."""
    unit = "steps" if local.epochs is None else "epochs"
    whole = (local.steps if local.epochs is None else local.epochs) or 0
    for at in range(PARTS):
        length = whole // PARTS + (at < whole % PARTS)
        if length:
            yield local.model_copy(update={unit: length}), local.lr * (1 + math.cos(math.pi * at / PARTS)) / 2
