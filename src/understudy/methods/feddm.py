"""FedDM: "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning", algorithm 1.

Pictures travel up instead of weights. In each round a client makes ``ipc`` images for each class that it owns,
whose mean features and logits match those of its records under networks drawn from the sphere of radius ρ
around the broadcast model w_r (the paper's truncated Gaussian is always cut off there, see
``synthesis.matching``). The server pools all images and trains on from w_r, put back into the ball of radius ρ
around w_r after every step.

Where the paper is silent: image momentum 0.5 and the server's momentum 0.9 and decay 5e-4 are those of the
distribution matching that it builds on; a class with fewer than ``min_class_records`` records is left out,
which is what the paper's message sizes imply. ``weights: size`` is its equation 10 with n_{k,c} in place of the
misprinted count: every image weighs n_{k,c} / ipc, which tells the server those counts.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, labels_from_wire, labels_to_wire
from understudy.federation.method import Method, State, task
from understudy.federation.registry import method
from understudy.federation.server import Server
from understudy.learning.local import Local
from understudy.learning.loop import train
from understudy.learning.plan import passes
from understudy.models.network import Network
from understudy.settings import Settings
from understudy.synthesis.matching import into_ball, match_distributions, real_batch


class FedDMSettings(Settings):
    ipc: int = Field(default=10, ge=1)  # images a class
    radius: float = Field(default=5.0, gt=0)  # ρ
    steps: int = Field(default=1000, ge=0)  # T
    real_batch: int = Field(default=256, ge=1)
    image_lr: float = Field(default=1.0, gt=0)
    image_momentum: float = Field(default=0.5, ge=0, lt=1)
    init: Literal["real", "noise"] = "real"
    min_class_records: int = Field(default=10, ge=1)
    weights: Literal["pool", "size"] = "pool"
    classes_at_once: int | None = Field(default=None, ge=1)  # in one pass; None: by the size of the images
    server: Local = Local(epochs=500, batch=256, lr=0.01, momentum=0.9, weight_decay=5e-4)


@method("feddm", settings=FedDMSettings)
class FedDM(Method):
    def __init__(self, settings: FedDMSettings):
        self.settings = settings

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if net.problem.multilabel:
            raise UserError("feddm matches class by class, so every record must have exactly one label.")

    def effort(self, records: int) -> int:
        return self.settings.steps * self.settings.real_batch

    # ---- on the client

    @task(x="examples", y="examples", weight="statistics")
    def distil(self, client: Client, brief: Message) -> Message:
        settings, real = self.settings, client.examples
        counts = real.label_counts(self.net.problem.classes)
        classes = [c for c, n in enumerate(counts.tolist()) if n >= settings.min_class_records]
        x = self.net.problem.scale(self._first_images(client, real, classes))
        if classes:
            x = match_distributions(
                self.net,
                brief["model"],
                real,
                x,
                classes,
                radius=settings.radius,
                steps=settings.steps,
                real_size=settings.real_batch,
                lr=settings.image_lr,
                momentum=settings.image_momentum,
                rng=client.rng("feddm matching"),
                classes_at_once=settings.classes_at_once,
            )
        y = torch.tensor(classes, dtype=torch.int64).repeat_interleave(settings.ipc)
        reply = Message(x=x, y=labels_to_wire(y, self.net.problem.classes))
        if settings.weights == "size":
            reply = reply.but(weight=counts[y].to(torch.float32) / settings.ipc)
        return reply

    def _first_images(self, client: Client, real: Examples, classes: list[int]) -> Tensor:
        rng, ipc = client.rng("feddm first images"), self.settings.ipc
        if self.settings.init == "noise" or not classes:
            return torch.randn(len(classes) * ipc, *self.net.problem.shape, generator=rng)
        chosen = [real_batch(torch.nonzero(real.y == c).flatten(), ipc, rng) for c in classes]
        return real.x[torch.cat(chosen)]

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        replies = list(server.ask(self.distil, Message(model=state["model"]), to=server.cohort()))
        x = torch.cat([reply["x"] for reply in replies])
        y = torch.cat([labels_from_wire(reply["y"]) for reply in replies])
        if not len(y):
            return state
        weights = torch.cat([reply["weight"] for reply in replies]) if self.settings.weights == "size" else None
        return state.but(model=self._learn(server, state["model"], Examples(x, y), weights))

    def _learn(self, server: Server, w: Tensor, pool: Examples, weights: Tensor | None) -> Tensor:
        net, local = self.net, self.settings.server
        centre = w[net.trainable].to(net.device)
        return train(
            net,
            w,
            pool,
            passes(len(pool), local.step_count(len(pool)), local.batch, server.rng("pool"), drop_last=local.drop_last),
            local,
            rate=local.rate(server.round, self.rounds),
            records=len(pool),
            rng=server.rng("augmentation"),
            weights=weights,
            project=lambda here: into_ball(here, centre, self.settings.radius),
        ).model
