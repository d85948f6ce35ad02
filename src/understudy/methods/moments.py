"""Moments, a method of this project: clients send noised sums, and the server makes the images itself.

Images that each client makes from its own noised statistics carry its noise in full. Sums add up: noise grows with √K
over K clients, and what they say with K. So a client sends only sums over its records, one per round, and the server
draws as many images as it likes from what they tell; that costs no privacy.

A record is u, the lowest ``frequencies`` of its cosine transform over C, clipped to norm 1.

    round 1   counts, Σ ‖u‖² and Σ u for each class                      → a mean m_c per class
    round 2   Σ v vᵀ, v = u − m_c over its typical norm, clipped to 1    → one covariance for all classes, its axes
    round 3   Σ v vᵀ for each class, v along the first ``axes`` axes     → a covariance per class

Every round looks where the previous one pointed: centred records are shorter than records, so the same noise is less of
them, and a few axes hold less noise than all. A record belongs to one class, so sums for all classes cost as one, and a
record moves what is sent in a round by at most 1. σ, or ``noise: null`` solved from ``privacy.epsilon``, is for the
whole run: round r has the noise σ/√share_r, where shares add up to 1, and 1/σ² is what adds up in composition. Noise
covers counts too, no planned number of records is needed, and labels stay secret.

The server weighs the sums of each class by noised counts, trims eigenvalues by ``trim`` times what noise alone would
reach, draws ``ipc`` images per class from N(m_c, Σ_c), rounds them to pixels, turns, scales, slants and shifts each a
little (``warp``), which costs nothing and gives what a covariance cannot hold, and trains on them: ``draws`` fresh sets
per round, each at a third of the learning rate of the one before. After the third round nobody is asked any more.
Without ``privacy`` in the config the sums go without noise: a sum over few records gives them away.
"""

import math
from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from understudy.base_settings import Settings
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import ONLY_NUMBERS, Method, State, Summed, Takes, task, task_name
from understudy.federation.registry import method
from understudy.federation.server import Reply, Server, Task
from understudy.learning.local import Local
from understudy.learning.loop import Descent
from understudy.learning.pool import PoolFeed, learn_from_pool
from understudy.learning.warping import warped
from understudy.methods.shared.outliers import learnt_from
from understudy.methods.shared.pooled import check_images
from understudy.models.network import Network
from understudy.privacy.accounting import Spending
from understudy.privacy.mechanism import clip_rows, with_noise
from understudy.privacy.planning import cost_of, solved_noise
from understudy.synthesis.class_sums import cosines, packed
from understudy.synthesis.moment_estimates import Estimates

AT_ONCE = 500  # records whose rows are in memory at a time
BudgetShare = Annotated[float, Field(gt=0)]


class MomentsSettings(Settings):
    frequencies: int = Field(default=10, ge=1)  # per side of an image, of the cosine transform
    axes: int = Field(default=40, ge=1)  # along which classes have their own covariance
    clip: float | None = Field(default=None, gt=0)  # C, norm of a record; null: √ of how many numbers it has
    # of the budget for rounds 1, 2 and 3, in 1/σ²
    shares: tuple[BudgetShare, BudgetShare, BudgetShare] = (0.25, 0.2, 0.55)
    counted: float = Field(default=0.1, gt=0, lt=1)  # part of each share for counts
    noise: float | None = Field(default=None, gt=0)  # σ of the whole run; null: solved from privacy.epsilon
    trim: float = Field(default=0.25, ge=0)  # how far eigenvalues shrink, in units of what noise alone would reach
    ipc: int = Field(default=1000, ge=1)  # images per class in a set
    draws: int = Field(default=3, ge=1)  # fresh sets of images per round
    rounded: bool = True  # images are rounded to pixels; false: records are floats
    warp: float = Field(default=0.15, ge=0, lt=1)  # how far images are turned, scaled, slanted and shifted; 0: not
    server: Local = Local(epochs=8, batch=256, lr=0.1, momentum=0.9, weight_decay=5e-4)  # how it trains on each set


@method("moments", settings=MomentsSettings, family="a generator on the server", sends="noised sums over its records")
class Moments(Method):
    def __init__(self, settings: MomentsSettings):
        self.settings = settings

    @property
    def takes(self) -> Takes:
        return ONLY_NUMBERS

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        settings, shape = self.settings, net.problem.shape
        check_images(net, "moments")
        if self.privacy is None and settings.noise is not None:
            raise UserError("method.noise spends privacy; write `privacy: {epsilon: 8, delta: 1e-5}` in the config.")
        self.basis = cosines(shape, settings.frequencies)
        self.clip = settings.clip or math.sqrt(math.prod(shape))
        d = len(self.basis)
        self.estimates = Estimates(net.problem.classes, d, min(settings.axes, d), settings.counted, settings.trim)
        self.noises(0)  # refuses a budget that cannot be reached

    @property
    def private(self) -> bool:
        return self.privacy is not None

    def noises(self, own: int) -> list[float]:
        """σ of each round that asks, for a client with this many records; 0: none was promised."""
        shares = self.settings.shares
        if self.privacy is None:
            return [0.0] * len(shares)
        before = self.spent_before(own)
        total = self.settings.noise or solved_noise(self.privacy, 1.0, 1, before)

        def split() -> list[float]:
            return [total * math.sqrt(sum(shares) / share) for share in shares]

        while self.settings.noise is None and self.privacy.epsilon is not None:
            spent = tuple(Spending(1.0, noise, 1) for noise in split())
            if cost_of((*before, *spent), self.privacy) <= self.privacy.epsilon:
                break
            total *= 1.0005  # three bounds rounded up can exceed one
        return split()

    # ---- on the client

    @task(sums="statistics")
    def tell_means(self, client: Client, brief: Message) -> Message:
        return self._told_by(client, 0, brief)

    @task(sums="statistics")
    def tell_shared(self, client: Client, brief: Message) -> Message:
        return self._told_by(client, 1, brief)

    @task(sums="statistics")
    def tell_own(self, client: Client, brief: Message) -> Message:
        return self._told_by(client, 2, brief)

    def _told_by(self, client: Client, stage: int, brief: Message) -> Message:
        """The sum of the rows of all its records, with noise, paid for before a record is touched."""
        noise = self.noises(len(client.own))[stage]
        if noise:
            client.budget.charge(rate=1.0, noise=noise, steps=1, clip=1.0, covers=("sums",), mechanism="Gaussian")
        parts = torch.split(torch.arange(len(client.examples)), AT_ONCE)
        nothing = torch.zeros(self._numbers(stage))
        sums = sum((ROWS[stage](self, client.examples.take(part), brief).sum(0) for part in parts), nothing)
        if noise:
            sums = with_noise(sums, clip=1.0, noise=noise, rng=client.secret_rng("noise"))
        return Message(sums=sums)

    def _numbers(self, stage: int) -> int:
        """That a client sends."""
        classes, d, width = self.net.problem.classes, self.estimates.d, self.estimates.width
        return (classes + 1 + classes * d, 1 + _half(d), classes * (1 + _half(width)))[stage]

    # What a record adds: rows of norm at most 1.

    def _means_rows(self, records: Examples, brief: Message) -> Tensor:
        u, a, b = self._vectors(records), *self.estimates.factors
        a /= math.sqrt(2)  # a record is one in a count, and at most one in Σ ‖u‖²
        of_class = self._of_class(records)
        return torch.cat([a * of_class, a * u.square().sum(1, keepdim=True), b * _placed(u, of_class)], 1)

    def _shared_rows(self, records: Examples, brief: Message) -> Tensor:
        v = _shortened(self._vectors(records) - brief["means"][records.y], brief["reach"])
        a, b = self.estimates.factors
        return torch.cat([torch.full((len(v), 1), a), b * _squares(v)], 1)

    def _own_rows(self, records: Examples, brief: Message) -> Tensor:
        v = _shortened((self._vectors(records) - brief["means"][records.y]) @ brief["axes"], brief["reach"])
        a, b = self.estimates.factors
        of_class = self._of_class(records)
        return torch.cat([a * of_class, b * _placed(_squares(v), of_class)], 1)

    def _of_class(self, records: Examples) -> Tensor:
        """(n, classes): ones and zeros."""
        return functional.one_hot(records.y, self.net.problem.classes).to(torch.float32)

    def _vectors(self, records: Examples) -> Tensor:
        """u of each record: norm at most 1."""
        x = self.net.problem.scale(records.x).flatten(1).to(torch.float32)
        return clip_rows(x @ self.basis.T, self.clip) / self.clip

    # ---- on the server

    def summed(self, task: str, brief: Message) -> Summed | None:
        stages = [task_name(work) for work in (self.tell_means, self.tell_shared, self.tell_own)]
        if task not in stages:
            return None
        stage = stages.index(task)

        return Summed(lambda records: ROWS[stage](self, records, brief), self.noises(0)[stage])

    def round(self, server: Server, state: State) -> State:
        if "means" not in state:
            return self._after(server, state, 0, self.tell_means, Message())
        if "axes" not in state:
            brief = state.only("means").but(reach=state["within"].sqrt())
            return self._after(server, state, 1, self.tell_shared, brief)
        if "own" not in state:
            axes, reach = self.estimates.stretched(state)
            return self._after(server, state, 2, self.tell_own, state.only("means").but(axes=axes, reach=reach))
        return state.but(model=self._learn(server, state))

    def _after(self, server: Server, state: State, stage: int, work: Task, brief: Message) -> State:
        """The sums of those who answered, what they tell, and a model trained on images drawn from it."""
        replies, numbers = [], self._numbers(stage)
        for reply in server.ask(work, brief, to=server.cohort()):
            if tuple(reply) != ("sums",) or reply["sums"].dtype != torch.float32 or reply["sums"].shape != (numbers,):
                reply.refuse(f"it holds {reply!r}, but {numbers} sums are expected")
            else:
                replies.append(reply)
        if not replies:
            return state

        def learn(some: Sequence[Reply]) -> Message:
            found = self._told(state, stage, torch.stack([reply["sums"] for reply in some]).double())
            return found if found.not_finite() else found.but(model=self._learn(server, state.but(found)))

        return state.but(learnt_from(replies, learn))

    def _told(self, state: State, stage: int, sums: Tensor) -> Message:
        noise = self.noises(0)[stage]
        if stage == 0:
            found = self.estimates.means(sums, noise)
        elif stage == 1:
            found = self.estimates.axes(sums, noise, state["within"])
        else:
            found = self.estimates.own(sums, noise, state)
        return Message({part: tensor.to(torch.float32) for part, tensor in found.items()})

    def _learn(self, server: Server, state: State) -> Tensor:
        local, model = self.settings.server, state["model"]
        for number in range(self.settings.draws):
            pool = self.images(state, server.rng("images"))
            if not len(pool):
                break
            feed = PoolFeed(pool, order=server.rng("pool"), rng=server.rng("augmentation"))
            rate = local.rate(server.round, self.rounds) / 3**number
            model = learn_from_pool(self.net, model, feed, Descent(local, rate)).model
        return model

    def images(self, state: State, rng: torch.Generator) -> Examples:
        """``ipc`` of each class that somebody seems to hold."""
        settings, problem = self.settings, self.net.problem
        seen = torch.nonzero(state["counts"] > 0).flatten()
        drawn = [self.estimates.drawn(state, c, settings.ipc, rng) for c in seen.tolist()]
        u = torch.cat([torch.zeros(0, len(self.basis)), *drawn])
        x = (self.clip * u @ self.basis).view(-1, *problem.shape)
        if len(problem.shape) == 3:
            x = warped(problem.scale(problem.unscale(x)) if settings.rounded else x, settings.warp, rng)
        return Examples(x, seen.repeat_interleave(settings.ipc))


def _shortened(v: Tensor, reach: Tensor) -> Tensor:
    """Norm at most 1; 1 for a record of norm ``reach`` or more."""
    return clip_rows(v / reach, 1.0)


def _squares(v: Tensor) -> Tensor:
    """v vᵀ of each row, packed."""
    return packed(v[:, :, None] * v[:, None, :])


def _placed(rows: Tensor, of_class: Tensor) -> Tensor:
    """(n, classes · d): each row in the place of its class, zeros elsewhere."""
    return (of_class[:, :, None] * rows[:, None, :]).flatten(1)


def _half(d: int) -> int:
    """Numbers of a symmetric matrix."""
    return d * (d + 1) // 2


ROWS = (Moments._means_rows, Moments._shared_rows, Moments._own_rows)  # by round
