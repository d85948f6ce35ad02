"""How a GAN is trained: judge and painter in turn, and an average of the painter along the way."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap

import torch
from torch import Tensor

from understudy.learning.plan import shuffled_batches
from understudy.privacy.sgd import PrivateGradients, PrivateSteps, RecordLoss, clipped_sum, fill_gradients
from understudy.synthesis.gan.draws import (
    Drawn,
    Turn,
    changed,
    judges_private_turn,
    judges_turn,
    painters_turn,
    sent_ahead,
)
from understudy.synthesis.gan.losses import painter_cost
from understudy.synthesis.gan.networks import Judge, Painter
from understudy.synthesis.gan.settings import GanSettings

WARM_UP = 10  # updates over which the average forgets its start


def kept_share(average: float, updates: int) -> float:
    """Share of the average kept in the next update: less at first, so that the start is forgotten."""
    return min(average, (1 + updates) / (WARM_UP + updates))


@dataclass
class Gan:
    """Everything that training changes."""

    painter: Painter
    judge: Judge
    averaged: Painter
    settings: GanSettings

    def __post_init__(self) -> None:
        wanted = self.settings
        self.adams = {
            net: torch.optim.Adam(net.parameters(), lr=wanted.lr, betas=(wanted.momentum, 0.99))
            for net in (self.painter, self.judge)
        }
        self.updates = 0

    def paint_better(self, told: Tensor, turn: Turn) -> None:
        images = changed(self.painter(turn.z, told), turn.painted)
        loss = painter_cost(self.judge(images, told), self.settings.loss).mean()
        self._step(self.painter, torch.autograd.grad(loss, list(self.painter.parameters())))
        self._average()

    def judge_better(self, x: Tensor, told: Tensor, turn: Turn) -> None:
        terms = self.settings.terms
        with torch.no_grad():
            painted = self.painter(turn.z, told)
        real = terms.real(self.judge, x, changed(x, turn.real), told).mean()
        loss = real + terms.painted(self.judge, painted, changed(painted, turn.painted), told).mean()
        self._step(self.judge, torch.autograd.grad(loss, list(self.judge.parameters())))

    def judge_privately(
        self, x: Tensor, told: Tensor, painted_told: Tensor, turn: Turn, gradient: PrivateGradients
    ) -> None:
        """The real side takes a private step. The painted side depends on no record, so it gets no noise, but it is
        clipped per image like the real one, which it would otherwise outweigh."""
        terms = self.settings.terms
        with torch.no_grad():
            painted = self.painter(turn.z, painted_told)
        from_records = gradient(_of_one(terms.real), x, changed(x, turn.real), told)
        of_painted = painted, changed(painted, turn.painted), painted_told
        from_painted = clipped_sum(self.judge, _of_one(terms.painted), *of_painted, clip=gradient.clip) / len(painted)
        fill_gradients(self.judge, from_records + from_painted)
        self.adams[self.judge].step()

    def _step(self, net: Painter | Judge, gradients: Sequence[Tensor]) -> None:
        for p, gradient in zip(net.parameters(), gradients, strict=True):
            p.grad = gradient
        self.adams[net].step()

    @torch.no_grad()
    def _average(self) -> None:
        keep = kept_share(self.settings.average, self.updates)
        for mean, p in zip(self.averaged.parameters(), self.painter.parameters(), strict=True):
            mean.lerp_(p, 1 - keep)
        self.updates += 1


def train(gan: Gan, x: Tensor, told: Tensor, rng: torch.Generator) -> Iterator[int]:
    """Yields the epoch after each checkpoint and at the end; ``x`` between −1 and 1."""
    settings = gan.settings
    steps = settings.steps(len(x))

    def drawn(step: int, rows: Tensor) -> Drawn:
        judge = judges_turn(settings, len(rows), rng)
        return Drawn(rows, judge, painters_turn(settings, len(rows), rng) if settings.paints_after(step) else None)

    draws = starmap(drawn, enumerate(shuffled_batches(len(x), settings.batch, steps, rng), start=1))
    for step, now in enumerate(sent_ahead(draws, x.device), start=1):
        gan.judge_better(x[now.rows], told[now.rows], now.judge)
        if now.painter is not None:
            gan.paint_better(told[now.rows], now.painter)
        yield from settings.kept_after(step, steps)


def train_privately(
    gan: Gan,
    x: Tensor,
    told: Tensor,
    some_labels: Callable[[int, torch.Generator], Tensor],
    rng: torch.Generator,
    private: PrivateSteps,
) -> Iterator[int]:
    """Only the judge's private steps see records; the painter learns from the judge, which costs nothing.

    Each step paints ``batch`` images with labels that depend on no record, so that they do not show who was sampled.
    """
    settings, images = gan.settings, gan.settings.batch
    gradient = PrivateGradients(gan.judge, private)

    def drawn(step: int) -> Drawn:
        rows, labels = private.rows(len(x)), some_labels(images, rng)
        judge = judges_private_turn(settings, len(rows), images, private.coins, rng)
        if not settings.paints_after(step):
            return Drawn(rows, judge, None, [labels])
        more = some_labels(images, rng)
        return Drawn(rows, judge, painters_turn(settings, images, rng), [labels, more])

    draws = map(drawn, range(1, private.steps + 1))
    for step, now in enumerate(sent_ahead(draws, x.device), start=1):
        gan.judge_privately(x[now.rows], told[now.rows], now.told[0], now.judge, gradient)
        if now.painter is not None:
            gan.paint_better(now.told[1], now.painter)
        yield from settings.kept_after(step, private.steps)


def _of_one(cost: Callable[..., Tensor]) -> RecordLoss:
    """The loss of one image, given without a batch axis."""

    def loss(call: Callable[..., Tensor], *row: Tensor) -> Tensor:
        return cost(call, *(part[None] for part in row))[0]

    return loss
