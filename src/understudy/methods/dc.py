"""DC (the federated papers' DSC): "Dataset Condensation with Gradient Matching", algorithm 1, in one shot.

A client condenses its records into ``ipc`` images a class, once, and sends them; the server trains a fresh network on
what all clients sent. With a single client that holds everything this is the central method that "FedLAP-DP: Federated
Learning by Sharing Differentially Private Loss Approximations" quotes.

``iterations`` times a network is drawn at random and led along by training on the images. At each of ``outer`` places
on its way, images take one step (SGD, rate 0.1, momentum 0.5 that lasts throughout) that brings the gradient of each
class's images nearer to that of a real batch of the class, by

    D = Σ_tensors Σ_rows (1 − cos),  summed over classes, 1-D tensors left out

and between places the network takes ``inner`` epochs on the images (SGD, rate 0.01, no momentum). ``outer`` and
``inner`` follow from ipc: 1, 1 for one image a class, 10, 50 for ten, 50, 10 for fifty.

The server's network is trained for 300 epochs at rate 0.01 (momentum 0.9, decay 5e-4), a tenth of it in the second
half; augmentation (``dsa``, off as in the paper) wants 1000. A client that was not there is asked when it first is in a
cohort; the server then begins anew on all images, which are in State. Gradients are taken in evaluation mode.
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
from understudy.federation.message import Message, labels_from_wire, labels_to_wire
from understudy.federation.method import Method, State, task
from understudy.federation.registry import method
from understudy.federation.server import Reply, Server
from understudy.learning.dsa import ALL, Draw, DsaKind, apply, draw, with_changes
from understudy.learning.local import Local
from understudy.learning.loop import Descent, full_gradient
from understudy.learning.pool import PerImage, PoolFeed, learn_near
from understudy.methods.shared.outliers import learnt_from
from understudy.methods.shared.pooled import check_augmentation, check_classes_alone, fault, first_noise
from understudy.models.network import Network
from understudy.synthesis.gradient_matching import Criterion, MovingImages, Target, image_gradient
from understudy.synthesis.matching import real_batch

ANGLES = Criterion(rows="sum")
LOOPS: Mapping[int, tuple[int, int]] = {1: (1, 1), 10: (10, 50), 20: (20, 25), 30: (30, 20), 40: (40, 15), 50: (50, 10)}
POOL = "pool."  # in State: the images of each client that was heard


class CondensationSettings(Settings):
    ipc: int = Field(default=10, ge=1)  # images per class
    iterations: int = Field(default=1000, ge=0)  # networks that are drawn
    outer: int | None = Field(default=None, ge=1)  # places on each network's path; null: by ipc
    inner: int | None = Field(default=None, ge=0)  # epochs on the images between two places; null: by ipc
    real_batch: int = Field(default=256, ge=1)  # real records per class, in each match
    image_lr: float = Field(default=0.1, gt=0)  # learning rate of the images
    image_momentum: float = Field(default=0.5, ge=0, lt=1)  # momentum of the images; it lasts throughout
    net_batch: int = Field(default=256, ge=1)  # images in a batch of the network's training
    net_lr: float = Field(default=0.01, gt=0)  # learning rate of the network
    dsa: bool = False  # differentiable augmentation
    dsa_kinds: tuple[DsaKind, ...] = ALL  # which of them; leave out flip for digits and letters
    server: Local = Local(
        epochs=300, batch=256, lr=0.01, momentum=0.9, weight_decay=5e-4
    )  # how the server trains on all images

    @property
    def loops(self) -> tuple[int, int]:
        """outer, inner"""
        outer, inner = LOOPS.get(self.ipc, (None, None))
        outer, inner = outer if self.outer is None else self.outer, inner if self.inner is None else self.inner
        if outer is None or inner is None:
            raise UserError(
                f"method.outer and method.inner are known for ipc {', '.join(map(str, LOOPS))}; "
                f"give both for {self.ipc}."
            )
        return outer, inner


class DCSettings(CondensationSettings):
    init: Literal["noise", "real"] = "noise"  # images start as noise, or as real records


class Condensing(Method):
    """One shot: images of each client, and a fresh network that learns from them."""

    def __init__(self, settings: CondensationSettings):
        self.settings = settings

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        check_classes_alone(net, "It")
        if self.settings.dsa:
            check_augmentation(net, self.settings.dsa_kinds)
        if net.needs_company:
            raise UserError(
                "model: networks drawn at random have no running statistics to go by, so BatchNorm is refused; "
                "choose one with GroupNorm."
            )
        self.settings.loops  # noqa: B018  refused here, before anything runs

    def effort(self, records: int, classes: int) -> int:
        return 0  # most of it goes through single layers, which are not compiled

    # ---- on the client

    @abstractmethod
    def condense(self, client: Client, brief: Message) -> Message:
        """The task: images ``x`` with labels ``y``."""

    def along(self, client: Client, images: MovingImages) -> Iterator[None]:
        """Loads a network for every place at which ``images`` are to be moved."""
        settings, net = self.settings, self.net
        (outer, inner), draws = settings.loops, client.rng("networks")
        local = Local(epochs=inner, batch=settings.net_batch, lr=settings.net_lr)
        for _ in range(settings.iterations):
            net.load(net.redrawn(int(torch.randint(2**62, (), generator=draws))))
            for place in range(outer):
                if place:
                    augment = PerImage(settings.dsa_kinds, client.rng("dsa of images")) if settings.dsa else None
                    pool = PoolFeed(Examples(images.x, images.y), client.rng("batches of images"), augment=augment)
                    learn_near(net, net.vector.clone(), pool, Descent(local))
                net.module.eval()
                yield

    def moving(self, x: Tensor, y: Tensor) -> MovingImages:
        device, settings = self.net.device, self.settings
        return MovingImages(x.to(device), y.to(device), lr=settings.image_lr, momentum=settings.image_momentum)

    def reply(self, images: MovingImages) -> Message:
        return Message(x=images.x, y=labels_to_wire(images.y, self.net.problem.classes))

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        new = [client for client in server.cohort() if f"{POOL}{client}.y" not in state]
        replies = []
        # Once some were heard, a round does not hang on those that never give anything sound.
        enough = 0 if any(part.startswith(POOL) for part in state) else None
        for reply in server.ask(self.condense, Message(), to=new, at_least=enough) if new else ():
            wrong = fault(reply, self.net, most=self.settings.ipc * self.net.problem.classes)
            if wrong:
                reply.refuse(wrong)
            else:
                replies.append(reply)
        if not any(len(reply["y"]) for reply in replies):
            return state.but(self._kept(replies))
        return state.but(learnt_from(replies, lambda some: self._with(server, state, some)))

    def _kept(self, replies: Sequence[Reply]) -> dict[str, Tensor]:
        return {f"{POOL}{reply.client}.{part}": reply[part] for reply in replies for part in ("x", "y")}

    def _with(self, server: Server, state: State, replies: Sequence[Reply]) -> Message:
        """The images that came, and the network that learns from all there are."""
        kept = self._kept(replies)
        return Message(kept, model=self._learn(server, state.but(kept)))

    def _learn(self, server: Server, state: State) -> Tensor:
        heard = [f"{POOL}{client}" for client in server.clients if f"{POOL}{client}.y" in state]
        pool = Examples(
            torch.cat([self.net.problem.scale(state[f"{name}.x"]) for name in heard]),
            torch.cat([labels_from_wire(state[f"{name}.y"]) for name in heard]),
        )
        w = self.net.redrawn(int(torch.randint(2**62, (), generator=server.rng("fresh network"))))
        kinds = self.settings.dsa_kinds
        for part, rate in halves(self.settings.server):
            augment = PerImage(kinds, server.rng("dsa")) if self.settings.dsa else None
            fed = PoolFeed(pool, server.rng("pool"), server.rng("augmentation"), augment=augment)
            w = learn_near(self.net, w, fed, Descent(part, rate)).model
        return w


def halves(local: Local) -> list[tuple[Local, float]]:
    """The two halves of a training and their rates: a tenth, with fresh momentum, in the second."""
    unit = "steps" if local.epochs is None else "epochs"
    whole = (local.steps if local.epochs is None else local.epochs) or 0
    parts = (whole - whole // 2, whole // 2)
    return [(local.model_copy(update={unit: parts[i]}), local.lr / 10**i) for i in (0, 1)]


@method("dc", settings=DCSettings, sends="images, once")
class DC(Condensing):
    settings: DCSettings

    def __init__(self, settings: DCSettings):
        super().__init__(settings)

    @task(x="examples", y="labels")
    def condense(self, client: Client, brief: Message) -> Message:
        real, counts = client.examples, client.examples.label_counts(self.net.problem.classes)
        members = [torch.nonzero(real.y == c).flatten() for c in torch.nonzero(counts).flatten()]
        images = self.moving(self._first_images(client, real, members), self._labels(counts))
        if members:
            there, looks = real.to(self.net.device), self._looks(client, members)
            for _ in self.along(client, images):
                slopes = [self._gradient(there, *next(looks), images, i) for i in range(len(members))]
                images.step(torch.cat(slopes))
        return self.reply(images)

    def _looks(self, client: Client, members: list[Tensor]) -> Iterator[tuple[Tensor, Draw | None]]:
        """Some records of each class in turn, and how they are changed; drawn ahead for all places."""
        settings, places = self.settings, self.settings.iterations * self.settings.loops[0]

        def look(rows: Tensor) -> tuple[Tensor, Draw | None]:
            chosen = torch.randperm(len(rows), generator=client.rng("real batches"))[: settings.real_batch]
            return rows[chosen], draw(settings.dsa_kinds, client.rng("dsa")) if settings.dsa else None

        return with_changes((look(rows) for _ in range(places) for rows in members), self.net.device)

    def _labels(self, counts: Tensor) -> Tensor:
        return torch.nonzero(counts).flatten().repeat_interleave(self.settings.ipc)

    def _first_images(self, client: Client, real: Examples, members: list[Tensor]) -> Tensor:
        if self.settings.init == "noise" or not members:
            return first_noise(client, len(members) * self.settings.ipc, self.net)
        rng = client.rng("first images")
        return self.net.problem.scale(real.x[torch.cat([real_batch(m, self.settings.ipc, rng) for m in members])])

    def _gradient(self, real: Examples, rows: Tensor, change: Draw | None, images: MovingImages, at: int) -> Tensor:
        """Of one class's distance, in its images."""
        settings, net = self.settings, self.net
        batch = real.take(rows)
        if change is not None:
            batch = Examples(apply(change, net.problem.scale(batch.x)), batch.y)
        target = Target(net, full_gradient(net, net.vector, batch, settings.real_batch), ANGLES)
        mine = slice(at * settings.ipc, (at + 1) * settings.ipc)
        net.module.eval()
        return image_gradient(net, images.x[mine], images.y[mine], target, change)
