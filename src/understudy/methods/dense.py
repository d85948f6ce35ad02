"""DENSE: "DENSE: Data-Free One-Shot Federated Learning", algorithm 1.

Clients train alone from a common model and send the result once; after that the server asks nothing more. In each epoch
the server makes a batch of images on which the ensemble of the clients' models is confident and the student disagrees
(``synthesis.ensemble``: generator and noise are fresh every time, and the best batch is kept in 8 bits). It adds the
batch to a growing pool and distils the ensemble into the student in one pass over the whole pool:

    T² · KL( softmax(ens(x)/T) ‖ softmax(student(x)/T) ),  ens the mean of the logits, T = 20

The student starts from fresh random weights (``student_init: fresh``). With very skewed labels, "Synthetic data
shuffling accelerates the convergence of federated learning under data heterogeneity" could not make one shot work, so
its authors averaged for ten rounds first and continued from there: preset ``fedssyn`` (``pre_rounds``, ``student_init:
server``).

The ``epochs`` are spread over rounds, ``epochs_a_round`` in each, starting in the round of the upload, so a full run
takes pre_rounds + epochs / epochs_a_round rounds. The clients' models, the pool, the student's momentum and the
ensemble's logits on the pool (which never change) are kept in State. The BatchNorm term applies only if the models have
BatchNorm.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, scalar
from understudy.federation.method import State, Takes, taken_by_all, task
from understudy.federation.registry import method
from understudy.federation.server import Reply, Server
from understudy.learning.local import Local
from understudy.learning.loop import Batch, Descent, Feed, Pull, Slope, train
from understudy.learning.plan import passes
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.outliers import learnt_from
from understudy.methods.shared.terms_and_rules import Term
from understudy.models.network import Network
from understudy.synthesis.divergence import kullback_leibler
from understudy.synthesis.ensemble import Ensemble, Generation, imagine

MODEL, POOL, SPEED, EPOCH = "client.", "pool.", "student.speed", "student.epoch"  # in State; the first two are prefixes


class DenseSettings(AveragingSettings):
    # ``local`` applies to the rounds of averaging at the start.
    pre_rounds: int = Field(default=0, ge=0)  # rounds of averaging before clients train alone
    alone: Local = Local(epochs=400, batch=128, lr=0.01, momentum=0.9)  # how clients then train alone, once
    student_init: Literal["fresh", "server"] = "fresh"  # a new network, or the averaged one
    epochs: int = Field(default=200, ge=0)  # epochs of the server, in total
    epochs_a_round: int = Field(default=10, ge=1)  # epochs of the server per round
    images: int = Field(default=256, ge=2)  # images made per epoch
    generator_steps: int = Field(default=30, ge=0)  # steps of Adam per batch of images
    generator_lr: float = Field(default=1e-3, gt=0)  # learning rate of Adam
    statistics_weight: float = Field(default=1.0, ge=0)  # a, weight of the BatchNorm statistics
    adversarial_weight: float = Field(default=1.0, ge=0)  # b, weight of the student's disagreement
    # how the student trains; its epochs: passes over the pool in each epoch of the server
    student: Local = Local(epochs=1, batch=256, lr=0.005, momentum=0.9)
    temperature: float = Field(default=20.0, gt=0)  # T of the distillation


@method(
    "dense",
    settings=DenseSettings,
    family="a generator on the server",
    sends="its model, once",
    presets={"fedssyn": {"pre_rounds": 10, "student_init": "server"}},
)
class Dense(Averaging):
    settings: DenseSettings

    @property
    def takes(self) -> Takes:
        return taken_by_all([{"image": ""}, super().takes])

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if net.problem.multilabel or len(net.problem.shape) != 3:
            raise UserError("dense makes images of one class each, so records must be images with exactly one label.")
        if self.scored_at_home:
            raise UserError("dense needs whole models on the server, so method.buffers must not be 'local'.")
        if self.settings.student.augment:
            raise UserError(
                "dense: method.student.augment must be empty, because the teachers' logits are stored for each image "
                "and would not fit an augmented one."
            )

    def and_term(self, term: Term) -> Averaging:
        if term.up:
            raise UserError(
                f"{term.name} needs sums from the clients every round, and the clients of dense train once "
                "and alone; leave it out, or add it to a method such as fedavg."
            )
        return super().and_term(term)

    # ---- on the client

    @task(model="weights")
    def train_alone(self, client: Client, brief: Message) -> Message:
        """All of a client's training, once; a client without records sends nothing."""
        if not len(client.own):
            return Message()
        alone = copy.copy(self)
        alone.settings = self.settings.model_copy(update={"local": self.settings.alone})
        return Message(model=alone.work(client, brief)[0].model)

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        """Not `by_sums`: the server keeps every teacher."""
        if server.round <= self.settings.pre_rounds:
            return super().round(server, state)
        if EPOCH in state:
            return self._distil(server, state)
        teachers = self._teachers(server, state)
        if not teachers:
            return state  # nobody had a record
        return learnt_from(teachers, lambda some: self._distil(server, self._gathered(server, state, some)))

    def _teachers(self, server: Server, state: State) -> list[Reply]:
        teachers, wanted = [], state["model"]
        for reply in server.ask(self.train_alone, self._brief(state), to=server.cohort()):
            model = reply.get("model", wanted)
            if model.shape != wanted.shape or model.dtype != wanted.dtype:
                reply.refuse(f"its model is {reply!r}, expected {wanted.numel()} numbers in float32")
            elif "model" in reply:
                teachers.append(reply)
        return teachers

    def _gathered(self, server: Server, state: State, teachers: Sequence[Reply]) -> State:
        models = {MODEL + reply.client: reply["model"] for reply in teachers}
        student = state["model"]
        if self.settings.student_init == "fresh":
            student = self.net.redrawn(int(torch.randint(2**62, (), generator=server.rng("student"))))
        return state.but({**models, "model": student, SPEED: torch.zeros(self.net.parameters), EPOCH: scalar(0)})

    def _distil(self, server: Server, state: State) -> State:
        """Some of the server's epochs; each adds its own part of the pool, so a checkpoint writes only the new ones."""
        done = int(state[EPOCH])
        last = min(self.settings.epochs, done + self.settings.epochs_a_round)
        w, speed = state["model"], state[SPEED].to(self.net.device, copy=True)
        ensemble = Ensemble(self.net.twin(w, "ensemble"), [state[part] for part in state if part.startswith(MODEL)])
        for epoch in range(done, last):
            self.net.load(w)
            x = self._imagine(server, ensemble)
            state = state.but({f"{POOL}{epoch:05d}.x": x, f"{POOL}{epoch:05d}.logits": ensemble.score(x)})
            w = self._learn(server, w, pool(state), speed)
        return state.but({"model": w, SPEED: speed, EPOCH: scalar(last)})

    def _imagine(self, server: Server, ensemble: Ensemble) -> Tensor:
        settings = self.settings
        weights = settings.statistics_weight, settings.adversarial_weight
        how = Generation(settings.generator_steps, settings.generator_lr, *weights)
        return imagine(ensemble, self.net, settings.images, server.rng("images"), how)

    def _learn(self, server: Server, w: Tensor, pool: Examples, speed: Tensor) -> Tensor:
        local = self.settings.student
        steps = local.step_count(len(pool))
        plan = passes(len(pool), steps, local.batch, server.rng("pool"), drop_last=local.drop_last)
        rate, slope = local.rate(server.round, self.rounds), distilling(self.settings.temperature)
        descent = Descent(local, rate, slope=slope, speed=speed)
        return train(self.net, w, Feed(pool, plan, server.rng("augmentation")), descent).model

    def metrics(self, state: State) -> Mapping[str, float]:
        return {} if EPOCH in state else super().metrics(state)  # no client trains any more


def pool(state: State) -> Examples:
    """All images so far, with the ensemble's logits in place of labels."""
    names = sorted({part.rpartition(".")[0] for part in state if part.startswith(POOL)})
    x, logits = (torch.cat([state[f"{name}.{part}"] for name in names]) for part in ("x", "logits"))
    return Examples(x, logits)


def distilling(temperature: float) -> Slope:
    """The slope of T² · KL(softmax(y/T) ‖ softmax(model(x)/T)), with y the teachers' logits."""

    def slope(net: Network, forward: Callable[[], Batch], _: Sequence[Pull]) -> None:
        net.grad.zero_()
        batch = forward()
        said = batch.logits[:, : net.problem.classes]
        apart = kullback_leibler((batch.y / temperature).log_softmax(1), (said / temperature).log_softmax(1))
        (temperature**2 * apart.mean()).backward()  # type: ignore[no-untyped-call]

    return slope
