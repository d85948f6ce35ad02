"""DC (called DSC in the federated papers): "Dataset Condensation with Gradient Matching", algorithm 1, in one shot.

Each client condenses its records into ``ipc`` images per class and sends them once; the server trains a fresh network
on the images of all clients. With a single client that holds everything, this is the central method quoted by
"FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations".

The client draws ``iterations`` random networks and trains each one on the images. At each of ``outer`` points along
that training, the images take one step (SGD, rate 0.1, momentum 0.5, never reset) that brings the gradient of each
class's images closer to the gradient of a real batch of that class, measured by

    D = Σ_tensors Σ_rows (1 − cos),  summed over classes, 1-D tensors left out

Between two points the network trains for ``inner`` epochs on the images (SGD, rate 0.01, no momentum). By default
``outer`` and ``inner`` follow from ipc: 1 and 1 for one image per class, 10 and 50 for ten, 50 and 10 for fifty.

The server trains its network for 300 epochs at rate 0.01 (momentum 0.9, decay 5e-4), dropping to a tenth of that rate
halfway. With augmentation (``dsa``, off as in the paper) use 1000 epochs. A client that was absent is asked the
first time it is in a cohort; the server then starts again on all images, which are kept in State. Gradients are taken
in evaluation mode.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, labels_to_wire
from understudy.federation.method import ONLY_NUMBERS, Method, State, Takes, task
from understudy.federation.registry import method
from understudy.federation.server import Server
from understudy.learning.dsa import ALL, Draw, DsaKind, apply, draw, with_changes
from understudy.learning.local import Local
from understudy.learning.loop import Descent, full_gradient
from understudy.learning.pool import PerImage, PoolFeed, learn_from_pool
from understudy.methods.shared.pooled import check_images, first_noise, pooled, why_unfit
from understudy.methods.shared.sent_sets import SentSets
from understudy.models.network import Network
from understudy.synthesis.gradient_matching import Criterion, MovingImages, Target, image_gradient
from understudy.synthesis.matching import real_batch

ANGLES = Criterion(rows="sum")
LOOPS: Mapping[int, tuple[int, int]] = {1: (1, 1), 10: (10, 50), 20: (20, 25), 30: (30, 20), 40: (40, 15), 50: (50, 10)}
POOL = SentSets("pool.")


class CondensationSettings(Settings):
    ipc: int = Field(default=10, ge=1)  # images per class
    iterations: int = Field(default=1000, ge=0)  # random networks to match along
    outer: int | None = Field(default=None, ge=1)  # matching points on each network's path; null: set by ipc
    inner: int | None = Field(default=None, ge=0)  # epochs on the images between two points; null: set by ipc
    real_batch: int = Field(default=256, ge=1)  # real records per class, in each match
    image_lr: float = Field(default=0.1, gt=0)  # learning rate of the images
    image_momentum: float = Field(default=0.5, ge=0, lt=1)  # momentum of the images, never reset
    net_batch: int = Field(default=256, ge=1)  # images per batch when the network trains
    net_lr: float = Field(default=0.01, gt=0)  # learning rate of the network
    dsa: bool = False  # differentiable augmentation
    dsa_kinds: tuple[DsaKind, ...] = ALL  # kinds to draw from; leave out flip for digits and letters
    # how the server trains on all images
    server: Local = Local(epochs=300, batch=256, lr=0.01, momentum=0.9, weight_decay=5e-4)

    @property
    def loops(self) -> tuple[int, int]:
        """outer, inner"""
        outer, inner = LOOPS.get(self.ipc, (None, None))
        outer, inner = outer if self.outer is None else self.outer, inner if self.inner is None else self.inner
        if outer is None or inner is None:
            raise UserError(
                f"method.outer and method.inner have defaults for ipc {', '.join(map(str, LOOPS))} only; "
                f"give both for ipc {self.ipc}."
            )
        return outer, inner


class DCSettings(CondensationSettings):
    init: Literal["noise", "real"] = "noise"  # images start as noise, or as real records


class Condensing(Method):
    """One shot: each client sends images once, and a fresh network learns from them."""

    def __init__(self, settings: CondensationSettings):
        self.settings = settings

    @property
    def takes(self) -> Takes:
        return ONLY_NUMBERS

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        check_images(net, "It", self.settings.dsa_kinds if self.settings.dsa else None)
        if net.needs_company:
            raise UserError(
                "model: BatchNorm is refused, because randomly drawn networks have no running statistics; "
                "choose a network with GroupNorm."
            )
        self.settings.loops  # noqa: B018  refused here, before anything runs

    @property
    def begins_anew(self) -> bool:
        return True

    def effort(self, records: int, classes: int) -> int:
        return 0  # most of the work is done layer by layer, which is not compiled

    # ---- on the client

    @abstractmethod
    def condense(self, client: Client, brief: Message) -> Message:
        """The task: images ``x`` with labels ``y``."""

    def along(self, client: Client, images: MovingImages) -> Iterator[None]:
        """Loads a network for every point at which ``images`` take a step."""
        settings, net = self.settings, self.net
        (outer, inner), draws = settings.loops, client.rng("networks")
        local = Local(epochs=inner, batch=settings.net_batch, lr=settings.net_lr)
        for _ in range(settings.iterations):
            net.load(net.redrawn(int(torch.randint(2**62, (), generator=draws))))
            for place in range(outer):
                if place:
                    augment = PerImage(settings.dsa_kinds, client.rng("dsa of images")) if settings.dsa else None
                    pool = PoolFeed(Examples(images.x, images.y), client.rng("batches of images"), augment=augment)
                    learn_from_pool(net, net.vector.clone(), pool, Descent(local))
                net.module.eval()
                yield

    def moving(self, x: Tensor, y: Tensor) -> MovingImages:
        device, settings = self.net.device, self.settings
        return MovingImages(x.to(device), y.to(device), lr=settings.image_lr, momentum=settings.image_momentum)

    def reply(self, images: MovingImages) -> Message:
        return Message(x=images.x, y=labels_to_wire(images.y, self.net.problem.classes))

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        most = self.settings.ipc * self.net.problem.classes
        replies = POOL.ask_new(server, state, self.condense, lambda reply: why_unfit(reply, self.net, most=most))
        return POOL.learnt(server, state, replies, lambda kept: self._learn(server, kept))

    def _learn(self, server: Server, kept: Sequence[Message]) -> Tensor:
        """A fresh network, trained on the images of all clients."""
        pool = pooled(kept, self.net.problem)
        w = self.net.redrawn(int(torch.randint(2**62, (), generator=server.rng("fresh network"))))
        kinds = self.settings.dsa_kinds
        for part, rate in halves(self.settings.server):
            augment = PerImage(kinds, server.rng("dsa")) if self.settings.dsa else None
            fed = PoolFeed(pool, server.rng("pool"), server.rng("augmentation"), augment=augment)
            w = learn_from_pool(self.net, w, fed, Descent(part, rate)).model
        return w


def halves(local: Local) -> list[tuple[Local, float]]:
    """The two halves of training and their rates: a tenth, with fresh momentum, in the second."""
    unit = "steps" if local.epochs is None else "epochs"
    whole = (local.steps if local.epochs is None else local.epochs) or 0
    parts = (whole - whole // 2, whole // 2)
    return [(local.model_copy(update={unit: parts[i]}), local.lr / 10**i) for i in (0, 1)]


@method("dc", settings=DCSettings, sends="images, once")
class DC(Condensing):
    settings: DCSettings

    @task(x="examples", y="labels")
    def condense(self, client: Client, brief: Message) -> Message:
        real, counts = client.examples, client.examples.label_counts(self.net.problem.classes)
        owned = torch.nonzero(counts).flatten()
        members = [torch.nonzero(real.y == c).flatten() for c in owned]
        labels = owned.repeat_interleave(self.settings.ipc)
        images = self.moving(self._first_images(client, real, members), labels)
        if members:
            there, looks = self.net.records_there(real), self._looks(client, members)
            for _ in self.along(client, images):
                slopes = [self._gradient(there, *next(looks), images, i) for i in range(len(members))]
                images.step(torch.cat(slopes))
        return self.reply(images)

    def _looks(self, client: Client, members: list[Tensor]) -> Iterator[tuple[Tensor, Draw | None]]:
        """Some records of each class in turn, and their augmentation; drawn ahead for all points."""
        settings, places = self.settings, self.settings.iterations * self.settings.loops[0]

        def look(rows: Tensor) -> tuple[Tensor, Draw | None]:
            chosen = torch.randperm(len(rows), generator=client.rng("real batches"))[: settings.real_batch]
            return rows[chosen], draw(settings.dsa_kinds, client.rng("dsa")) if settings.dsa else None

        return with_changes((look(rows) for _ in range(places) for rows in members), self.net.device)

    def _first_images(self, client: Client, real: Examples, members: list[Tensor]) -> Tensor:
        if self.settings.init == "noise" or not members:
            return first_noise(client, len(members) * self.settings.ipc, self.net)
        rng = client.rng("first images")
        return self.net.problem.scale(real.x[torch.cat([real_batch(m, self.settings.ipc, rng) for m in members])])

    def _gradient(self, real: Examples, rows: Tensor, change: Draw | None, images: MovingImages, at: int) -> Tensor:
        """The gradient of one class's distance with respect to its images."""
        settings, net = self.settings, self.net
        batch = real.take(rows)
        if change is not None:
            batch = Examples(apply(change, net.problem.scale(batch.x)), batch.y)
        target = Target(net, full_gradient(net, net.vector, batch, settings.real_batch), ANGLES)
        mine = slice(at * settings.ipc, (at + 1) * settings.ipc)
        net.module.eval()
        return image_gradient(net, images.x[mine], images.y[mine], target, change)
