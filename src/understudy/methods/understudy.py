"""Understudy, our own method: one exchange of images from generators that were stopped early.

Each client trains a small diffusion model on part of its records (``records``) for a few hundred updates, far fewer
than its best images would need, and sends images once: as many as it has records, in its own class frequencies. Classes
of which it holds fewer than ``min_class_records`` records are neither learnt nor sent, since those are the records that
images give away first. The server trains a fresh network on all images, each of them turned, slanted and moved a little
every time (``augment: [warp]``), at a rate that falls along half a cosine.

What we think makes it work: warps make up for images that are not sharp, and a generator that has seen each record only
a few times has learnt the kind, not the record (docs/studies/frontier has the numbers). Nothing but images leaves, and
only once; there is no noise, so there is no ε. For a promise see `moments`, or `fedssyn` with ``dp``.

A client that was absent is asked the first time it is in a cohort; the server then starts again on all images, which
are kept in State.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, labels_to_wire
from understudy.federation.method import ONLY_NUMBERS, Method, State, Takes, task
from understudy.federation.registry import KindDefaults, method
from understudy.federation.server import Reply, Server
from understudy.learning.local import Local
from understudy.learning.loop import Descent
from understudy.learning.pool import PoolFeed, learn_from_pool
from understudy.methods.shared.generated_start import of_classes
from understudy.methods.shared.imitation import Imitation, ImitationSettings, check_single_labels, require_fitting
from understudy.methods.shared.pooled import of_one_kind, pooled, why_unfit
from understudy.methods.shared.sent_once import SentOnce
from understudy.models.network import Network
from understudy.synthesis.labels import largest_remainder

POOL = SentOnce("understudy.")
STOPPED_EARLY = {"name": "diffusion", "epochs": 1, "least_steps": 200}
PARTS = 6  # of the server's training, each at a rate of its own


class UnderstudySettings(ImitationSettings):
    where: ClassVar[str] = "method.generator"

    # a name or file.py:Class, and its settings; by default a diffusion model that is stopped early
    generator: dict[str, Any] = Field(default=STOPPED_EARLY, validate_default=True)
    min_class_records: int = Field(default=50, ge=1)  # records of a class that a client needs to send images of it
    # how the server trains on all images; its learning rate falls along half a cosine
    server: Local = Local(epochs=60, batch=64, lr=0.05, momentum=0.9, weight_decay=5e-4, augment=("warp",))


UNWARPED = {"generator": {"name": "vae"}, "server": Local(epochs=60, batch=64, lr=0.05, momentum=0.9)}
BY_KIND: KindDefaults = {"vector": UNWARPED, "sequence": UNWARPED}


@method("understudy", settings=UnderstudySettings, usual=BY_KIND, sends="images, once")
class Understudy(Method):
    def __init__(self, settings: UnderstudySettings):
        self.settings = settings
        self.generator = settings.built()

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
        if self.privacy is not None and self.privacy.epsilon is not None:
            raise UserError(
                "understudy adds no noise to its images, so no privacy.epsilon can hold; leave privacy out, or choose "
                "moments."
            )

    # ---- on the client

    @task(x="examples", y="labels")
    def portray(self, client: Client, brief: Message) -> Message:
        """Images of the classes that it holds enough records of."""
        made = self._made(client, self._held(client.own))
        return Message(x=made.x, y=labels_to_wire(made.y, self.net.problem.classes))

    def _held(self, own: Examples) -> Examples:
        counts = own.label_counts(self.net.problem.classes).tolist()
        return of_classes(own, [c for c, n in enumerate(counts) if n >= self.settings.min_class_records])

    def _made(self, client: Client, held: Examples) -> Examples:
        require_fitting(client, self.net.problem)
        imitation = Imitation(self.settings, self.generator, self.net.problem)
        order = torch.randperm(len(held), generator=client.rng("understudy records"))
        seen = held.take(order[: round(self.settings.records * len(held))])
        if len(seen) < self.generator.smallest:
            return held.none()
        counts = seen.label_counts(self.net.problem.classes)
        learnt = imitation.learn(client, seen)
        return imitation.painted(client, learnt, largest_remainder(imitation.wanted(len(held)), counts))

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        asked = POOL.ask_new(server, state, self.portray, self._fault)
        known = [part["x"].dtype for part in POOL.kept(state, server.clients) if len(part["y"])]
        replies = of_one_kind(asked, known)
        return POOL.learnt(server, state, replies, lambda kept: self._learn(server, kept))

    def _fault(self, reply: Reply) -> str | None:
        return why_unfit(reply, self.net, most=self.settings.images)

    def _learn(self, server: Server, kept: Sequence[Message]) -> Tensor:
        """A fresh network, trained on the images of all clients."""
        pool = pooled(kept, self.net.problem)
        w = self.net.redrawn(int(torch.randint(2**62, (), generator=server.rng("fresh network"))))
        for part, rate in cooling(self.settings.server):
            feed = PoolFeed(pool, server.rng("pool"), server.rng("augmentation"))
            w = learn_from_pool(self.net, w, feed, Descent(part, rate)).model
        return w


def cooling(local: Local) -> Iterator[tuple[Local, float]]:
    """Training in equal parts (the first ones longer by one), at rates along half a cosine from ``local.lr``."""
    unit = "steps" if local.epochs is None else "epochs"
    whole = (local.steps if local.epochs is None else local.epochs) or 0
    for at in range(PARTS):
        length = whole // PARTS + (at < whole % PARTS)
        if length:
            yield local.model_copy(update={unit: length}), local.lr * (1 + math.cos(math.pi * at / PARTS)) / 2
