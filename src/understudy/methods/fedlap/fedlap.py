"""FedLAP: "FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations", algorithm 1 (for its
private form, algorithm 2, see `fedlap-dp`).

Images travel up instead of weights and approximate the client's loss near the broadcast model w_g. In each round a
client makes ``ipc`` images per class (S) whose gradient resembles that of its records along a short path:

    ``restarts`` (R_i) times: w ← w_g, then at most ``stages`` stages, as long as ‖w − w_g‖ < ``radius`` (r):
        for each of ``real_batches`` Poisson batches: one augmentation for both sides, g_r = ∇ mean ℓ(w, real),
            ``image_steps`` (R_b) steps of the images on D(∇ mean ℓ(w, S), g_r) + ``mse`` (λ)·‖·‖²
        unless it was the last stage: ``path_epochs`` (R_l) epochs of SGD on S move w

The client then trains on S as the server would, ``server_epochs`` epochs from w_g, and measures its real loss after
each epoch: r_k is the distance at which that loss was smallest, at most r. The server pools all images, continues
training from w_g, and stops after the first epoch in which ‖w − w_g‖ ≥ r_g, the smallest r_k (``radius_rule``).

The six counters are those of the released code; the paper's tuple names four and leaves out the real batches. With R_l
= 0, its choice without privacy, w never leaves w_g and only the limit on stages ends the loop. Like the code and unlike
the text: D is a mean over rows (the image rate of 100 belongs to that), images start as real ones, the classes are
those the client owns, and everything is augmented (``dsa``; the paper does not mention it, and its baselines have
none). Unlike the code: r_k comes from an exact pass over the records, not from some batches, and an empty Poisson batch
moves nothing. ``weights: size`` is the paper's N_k/N and reveals N_k to the server; ``uniform`` is 1/K; ``pool``, like
the code, counts every image equally.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message, labels_to_wire, scalar
from understudy.federation.method import ONLY_NUMBERS, Method, State, Takes, task
from understudy.federation.registry import method
from understudy.federation.server import Reply, Server
from understudy.learning.ahead import ahead
from understudy.learning.dsa import Draw, apply, draw, sent_ahead
from understudy.learning.evaluate import tally
from understudy.learning.loop import Descent, Trained, full_gradient
from understudy.learning.pool import PerImage, PoolFeed, Siamese, Trust, learn_from_pool, record_weights
from understudy.methods.fedlap.settings import GENTLER, MEASURED, PRESETS, FedLapSettings
from understudy.methods.shared.outliers import learnt_from
from understudy.methods.shared.pooled import accepted, check_images, pooled, why_unfit
from understudy.models.network import Network
from understudy.privacy.mechanism import poisson_rows
from understudy.synthesis.gradient_matching import MovingImages, Target, match_gradient
from understudy.synthesis.matching import real_batch
from understudy.under_way import counted

RealGradient = Callable[[Tensor, Draw | None], Tensor | None]  # gradient at a model; None: no record was drawn


@method("fedlap", settings=FedLapSettings, presets=PRESETS, usual=GENTLER)
class FedLap(Method):
    def __init__(self, settings: FedLapSettings):
        self.settings = settings

    @property
    def takes(self) -> Takes:
        return ONLY_NUMBERS

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        check_images(net, "fedlap", self.settings.kinds if self.settings.dsa else None)

    def effort(self, records: int, classes: int) -> int:
        settings = self.settings
        seen = settings.most_batches * settings.batch
        return seen + (settings.server_epochs * records if settings.radius_rule in MEASURED else 0)

    # ---- on the client

    @task(x="examples", y="labels", radius="scalars", records="statistics")
    def distil(self, client: Client, brief: Message) -> Message:
        real, w = client.examples, brief["model"]
        if not len(real):
            return self._reply(real)
        y = self._labels(real)
        images = self._moving(self._first_images(client, real, y), y)
        self.match(client, w, images, self._batch_gradient(client, real))
        made = Examples(images.x.cpu(), y)
        reply = self._reply(made)
        if "records" in self._beside:
            reply = reply.but(records=scalar(len(real)))
        if "radius" in self._beside:
            reply = reply.but(radius=scalar(self.radius_of_trust(client, w, made)))
        return reply

    @property
    def _beside(self) -> list[str]:
        """What is sent beside the images."""
        wanted = {"records": self.settings.weights == "size", "radius": self.settings.radius_rule in MEASURED}
        return [part for part in wanted if wanted[part]]

    def _reply(self, made: Examples) -> Message:
        return Message(x=self.net.problem.scale(made.x), y=labels_to_wire(made.y, self.net.problem.classes))

    def keep_rows(self, kinds: Mapping[str, Kind], reply: Message, kept: Tensor) -> Message:
        """All classes of S_k weigh alike, so a class that is gone takes its share of N_k with it. r_k stays as it was
        measured, with all images."""
        beside = {part: reply[part] for part in ("radius", "records") if part in reply}
        left = super().keep_rows(kinds, reply.without(*beside), kept)
        if "records" in beside:
            share = len(set(left["y"].tolist())) / len(set(reply["y"].tolist()))
            beside["records"] = scalar(float(reply["records"]) * share)
        return left.but(beside)

    def _labels(self, real: Examples) -> Tensor:
        """(classes · ipc,), grouped by class."""
        classes = torch.arange(self.net.problem.classes)
        if self.settings.labels == "owned":
            classes = classes[real.label_counts(len(classes)) > 0]
        return classes.repeat_interleave(self.settings.ipc)

    def _first_images(self, client: Client, real: Examples, y: Tensor) -> Tensor:
        rng = client.rng("fedlap first images")
        x = torch.randn(len(y), *self.net.problem.shape, generator=rng)
        for label in sorted(set(y.tolist())) if self.settings.init == "real" else []:
            members = torch.nonzero(real.y == label).flatten()
            if len(members):
                chosen = real_batch(members, self.settings.ipc, rng)
                x[y == label] = self.net.problem.scale(real.x[chosen])
        return x

    def _moving(self, x: Tensor, y: Tensor) -> MovingImages:
        settings, device = self.settings, self.net.device
        return MovingImages(x.to(device), y.to(device), lr=settings.image_lr, momentum=settings.image_momentum)

    def match(self, client: Client, w_g: Tensor, images: MovingImages, real_gradient: RealGradient) -> Tensor:
        """Moves the images along the path, in place, and returns the model at its end."""
        settings, w_g = self.settings, w_g.to(self.net.device)
        w, subsets = w_g, self._subsets(client, len(images.y))
        for _ in range(settings.restarts):
            w = w_g
            for stage in range(1, settings.stages + 1):
                if self._distance(w, w_g) >= settings.radius:
                    break
                self._match_here(client, w, images, real_gradient, subsets)
                if settings.path_epochs and stage < settings.stages:
                    w = self._walk(client, w, Examples(images.x, images.y)).to(self.net.device)
        return w

    def _match_here(
        self,
        client: Client,
        w: Tensor,
        images: MovingImages,
        real_gradient: RealGradient,
        subsets: Iterator[Tensor | None],
    ) -> None:
        settings = self.settings
        for change in self._changes(client):
            self.net.load(w)
            wanted = real_gradient(w, change)
            if wanted is None:
                continue
            target = Target(self.net, wanted, settings.criterion)
            match_gradient(self.net, images, target, steps=settings.image_steps, draw=change, rows=next(subsets))

    def _subsets(self, client: Client, images: int) -> Iterator[Tensor | None]:
        """Which images move in each match of a round; None: all."""
        at_once = self.settings.pool_batch
        if images <= at_once:
            return repeat(None)
        rng = client.rng("fedlap subset")
        drawn = (torch.randperm(images, generator=rng)[:at_once] for _ in range(self.settings.most_batches))
        return (rows for _, (rows,) in ahead(drawn, lambda rows: [rows], self.net.device))

    def _changes(self, client: Client) -> Iterator[Draw | None]:
        """One augmentation for each real batch of a stage."""
        batches, kinds = self.settings.real_batches, self.settings.kinds
        if not kinds:
            return repeat(None, batches)
        return sent_ahead((draw(kinds, client.rng("dsa")) for _ in range(batches)), self.net.device)

    def _batch_gradient(self, client: Client, real: Examples) -> RealGradient:
        """The gradient of the mean loss over a Poisson batch, augmented like the images."""
        rate, rng = min(1.0, self.settings.batch / len(real)), client.rng("fedlap batches")
        batches = self.batches(real, rate, rng, self.settings.most_batches)

        def gradient(w: Tensor, change: Draw | None) -> Tensor | None:
            batch = next(batches)
            return full_gradient(self.net, w, self.seen(batch, change), len(batch)) if len(batch) else None

        return gradient

    def batches(self, real: Examples, rate: float, rng: torch.Generator, most: int) -> Iterator[Examples]:
        """Poisson batches of records, on the network's device; ``most``: as many as a round may take."""
        drawn = (poisson_rows(len(real), rate, rng) for _ in range(most))
        there = self.net.records_there(real)
        for _, (rows,) in counted("moving records", ahead(drawn, lambda rows: [rows], self.net.device), most):
            yield there.take(rows)

    def seen(self, batch: Examples, change: Draw | None) -> Examples:
        """The batch as the network sees it, augmented."""
        x = self.net.problem.scale(batch.x)
        return Examples(x if change is None or not len(batch) else apply(change, x), batch.y)

    def _walk(self, client: Client, w: Tensor, made: Examples) -> Tensor:
        kinds = self.settings.kinds
        augment = PerImage(kinds, client.rng("dsa")) if kinds else None
        pool = PoolFeed(made, client.rng("fedlap path"), augment=augment)
        return self._learn(client, w, pool, self.settings.path_epochs).model

    def radius_of_trust(self, client: Client, w_g: Tensor, made: Examples) -> float:
        """r_k: how far the images lead before the loss on real records rises again."""
        least, found = math.inf, 0.0

        def look(_: int, distance: float) -> None:
            nonlocal least, found
            loss = tally(self.net.logits, self.net.to_score(client.examples), self.net.problem).loss
            if loss is not None and loss < least:
                least, found = loss, distance

        augment = self._siamese(client)
        pool = PoolFeed(made, client.rng("fedlap radius"), augment=augment)
        self._learn(client, w_g, pool, self.settings.server_epochs, watch=look)
        return min(self.settings.radius, found)

    # ---- on either side

    def _learn(self, side: Client | Server, w: Tensor, pool: PoolFeed, epochs: int, **more: Any) -> Trained:
        """Plain SGD on images; ``more`` is passed on to `learn_from_pool`."""
        local = self.settings.on_images(epochs)
        return learn_from_pool(self.net, w, pool, Descent(local, local.rate(side.round, self.rounds)), **more)

    def _siamese(self, side: Client | Server) -> Siamese | None:
        return Siamese(self.settings.kinds, side.rng("dsa")) if self.settings.kinds else None

    def _distance(self, w: Tensor, w_g: Tensor) -> float:
        return float((w - w_g)[self.net.trainable].cpu().norm())

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        asked = server.ask(self.distil, Message(model=state["model"]), to=server.cohort())
        replies = [reply for reply in accepted(asked, self._fault) if len(reply["y"])]
        if not replies:
            return state
        return state.but(learnt_from(replies, lambda some: self._pooled(server, state["model"], some)))

    def _pooled(self, server: Server, start: Tensor, replies: Sequence[Reply]) -> Message:
        radius = self._radius([float(reply["radius"]) for reply in replies if "radius" in self._beside])
        images, order = pooled(replies, self.net.problem), server.rng("fedlap pool")
        pool = PoolFeed(images, order, weights=self._record_weights(replies), augment=self._siamese(server))
        trust = Trust(radius, self.settings.strict)
        learnt = self._learn(server, start, pool, self.settings.server_epochs, trust=trust)
        told = {} if radius is None else {"radius": scalar(radius)}
        told["moved"], told["server_steps"] = scalar(self._distance(learnt.model, start)), scalar(learnt.steps)
        return Message(told, model=learnt.model)

    def _fault(self, reply: Reply) -> str | None:
        wrong = why_unfit(reply, self.net, most=self.settings.ipc * self.net.problem.classes)
        if wrong is None and len(reply["y"]):
            wrong = next(filter(None, (self._fault_beside(reply, part) for part in self._beside)), None)
        return wrong

    def _fault_beside(self, reply: Reply, part: str) -> str | None:
        """r_k must lie in the ball, up to rounding, and the number of records must not be negative."""
        if part not in reply:
            return f"it has no part '{part}'"
        if reply[part].ndim:
            return f"its {part} is more than one number"
        least, most = {"radius": (0.0, self.settings.radius * (1 + 1e-6)), "records": (0.0, math.inf)}[part]
        return None if least <= float(reply[part]) <= most else f"its {part} cannot be {float(reply[part]):g}"

    def _radius(self, measured: Sequence[float]) -> float | None:
        """r_g; None: no limit, train all epochs."""
        if self.settings.radius_rule == "fixed":
            return None
        rule = MEASURED.get(self.settings.radius_rule)
        return self.settings.radius if rule is None else rule(measured)

    def _record_weights(self, replies: Sequence[Reply]) -> Tensor | None:
        """The loss is Σ_k a_k · mean over S_k."""
        if self.settings.weights == "pool":
            return None
        by_size = self.settings.weights == "size"
        shares = [float(reply["records"]) if by_size else 1.0 for reply in replies]
        return record_weights([len(reply["y"]) for reply in replies], shares)

    def metrics(self, state: State) -> Mapping[str, float]:
        """How far the server trusted the images, how far it went, and in how many steps."""
        return {part: float(state[part]) for part in ("radius", "moved", "server_steps") if part in state}
