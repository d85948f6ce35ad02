"""How a GAN is trained: judge and painter in turn, and an average of the painter along the way."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import starmap

import torch
from pydantic import Field
from torch import Tensor

from understudy.learning import dsa
from understudy.learning.ahead import ahead
from understudy.privacy.sgd import PrivateGradients, PrivateSteps, RecordLoss, clipped_sum, fill_gradients
from understudy.synthesis.checkpoints import CourseSettings
from understudy.synthesis.gan_losses import Loss, Terms, Variant, other_orders, painter_cost, quarters_moved
from understudy.synthesis.gan_networks import Judge, Painter
from understudy.synthesis.vae_training import shuffled

SLIGHT: tuple[dsa.Kind, ...] = ("crop", "scale", "rotate")  # changes after which an image is as real as before
WARM_UP = 10  # updates after which the average forgets its start


class GanSettings(CourseSettings):
    epochs: int = Field(default=150, ge=1)
    least_steps: int = Field(default=0, ge=0)  # few records: more epochs, until so many updates were made
    batch: int = Field(default=32, ge=1)
    variant: Variant = "diffaugment"
    loss: Loss = "non-saturating"
    augmentation: tuple[dsa.Kind, ...] | None = Field(default=None, min_length=1)  # None: the variant's own
    consistency: float = Field(default=10.0, ge=0)  # λ of variant: consistency
    negative: float = Field(default=0.25, ge=0, le=1)  # share of spoilt images of variant: negative
    lr: float = Field(default=5e-4, gt=0)  # of Adam, for both
    momentum: float = Field(default=0.5, ge=0, lt=1)  # β₁
    average: float = Field(default=0.998, ge=0, lt=1)  # of the painter's weights, the part that is kept in an update
    judge_steps: int = Field(default=1, ge=1)  # for one of the painter
    latent: int = Field(default=32, ge=1)
    width: int = Field(default=16, ge=1)  # channels at full size
    hidden: int = Field(default=128, ge=1)  # units of the judge's dense layer

    def steps(self, records: int) -> int:
        """Of the judge."""
        return max(self.epochs * -(-records // self.batch), self.least_steps)

    @property
    def kinds(self) -> tuple[dsa.Kind, ...]:
        """How images are augmented; what the judge must not notice at all is less than what it sees everywhere."""
        own = SLIGHT if self.variant == "consistency" else dsa.WITHOUT_FLIP
        return self.augmentation or own

    @property
    def augments(self) -> bool:
        """Whether images are, before the judge sees them."""
        return self.variant in ("diffaugment", "consistency")

    def paints_after(self, step: int) -> bool:
        """Whether the painter learns after this step of the judge, the first being 1."""
        return step % self.judge_steps == 0

    @property
    def terms(self) -> Terms:
        return Terms(self.variant, self.loss, self.consistency, self.negative)


def kept_share(average: float, updates: int) -> float:
    """Of the average, in an update after so many others: less at first, so that the start does not stay in it."""
    return min(average, (1 + updates) / (WARM_UP + updates))


Change = dsa.Draw | Tensor | None  # of images: augmentation, an order of their quarters, none


@dataclass(frozen=True)
class Turn:
    """What an update of one network draws."""

    z: Tensor  # (n, latent): what images are painted from
    real: Change = None  # of records
    painted: Change = None

    def tensors(self) -> list[Tensor]:
        numbers = [change.u if isinstance(change, dsa.Draw) else change for change in (self.real, self.painted)]
        return [self.z, *(part for part in numbers if part is not None)]

    def sent(self, there: Iterator[Tensor]) -> "Turn":
        """The same with its ``tensors`` on the device, from where they come in their order."""

        def change(drawn: Change) -> Change:
            if drawn is None:
                return None
            return replace(drawn, there=next(there)) if isinstance(drawn, dsa.Draw) else next(there)

        return Turn(next(there), change(self.real), change(self.painted))


@dataclass(frozen=True)
class Drawn:
    """What a step draws."""

    rows: Tensor  # which records
    judge: Turn
    painter: Turn | None  # None: it is not its turn
    told: Sequence[Tensor] = ()  # private: to the painter, in the judge's turn and in its own

    def tensors(self) -> list[Tensor]:
        of_painter = [] if self.painter is None else self.painter.tensors()
        return [self.rows, *self.judge.tensors(), *of_painter, *self.told]

    def sent(self, there: Iterator[Tensor]) -> "Drawn":
        rows, judge = next(there), self.judge.sent(there)
        painter = None if self.painter is None else self.painter.sent(there)
        return Drawn(rows, judge, painter, list(there))


@dataclass
class Gan:
    """All that training moves."""

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
        """The real side by a private step. The painted side rests on no record: it gets no noise, but is clipped image
        by image like the other one, or it would outweigh it."""
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


def changed(x: Tensor, change: Change) -> Tensor:
    if change is None:
        return x
    return augmented(x, change) if isinstance(change, dsa.Draw) else quarters_moved(x, change)


def augmented(x: Tensor, drawn: dsa.Draw) -> Tensor:
    """What is let in is black."""
    return dsa.apply(drawn, x + 1) - 1


# ---- what is drawn


def painters_turn(settings: GanSettings, images: int, rng: torch.Generator) -> Turn:
    z = _noise(settings, images, rng)
    augments = settings.variant == "diffaugment"
    return Turn(z, painted=dsa.draw(settings.kinds, rng, images=images) if augments else None)


def judges_turn(settings: GanSettings, images: int, rng: torch.Generator) -> Turn:
    """As many images on both sides, and both are augmented by one draw, or the judge would tell them by it."""
    z = _noise(settings, images, rng)
    if not settings.augments:
        return Turn(z, _spoiling(settings, images, rng))
    change = dsa.draw(settings.kinds, rng, images=images)
    return Turn(z, change, change)


def judges_private_turn(
    settings: GanSettings, records: int, images: int, coins: torch.Generator, rng: torch.Generator
) -> Turn:
    """The same for a private step: one kind of change, but each side has numbers of its own. The painted side gets no
    noise, so nothing in it may follow from who came, and a record more moves what is drawn for places behind it."""
    z = _noise(settings, images, rng)
    if not settings.augments:
        return Turn(z, _spoiling(settings, records, coins))
    change = dsa.draw(settings.kinds, coins, images=records)
    return Turn(z, change, replace(dsa.draw(settings.kinds, rng, images=images), kind=change.kind))


def _noise(settings: GanSettings, images: int, rng: torch.Generator) -> Tensor:
    return torch.randn(images, settings.latent, generator=rng)


def _spoiling(settings: GanSettings, images: int, rng: torch.Generator) -> Tensor | None:
    return other_orders(torch.rand(images, generator=rng)) if settings.variant == "negative" else None


def _sent_ahead(draws: Iterable[Drawn], device: torch.device) -> Iterator[Drawn]:
    for drawn, there in ahead(draws, Drawn.tensors, device):
        yield drawn.sent(iter(there))


# ---- training


def train(gan: Gan, x: Tensor, told: Tensor, rng: torch.Generator) -> Iterator[int]:
    """Stops after each checkpoint and at the end, and says after which epoch; ``x`` between −1 and 1."""
    settings = gan.settings
    steps = settings.steps(len(x))

    def drawn(step: int, rows: Tensor) -> Drawn:
        judge = judges_turn(settings, len(rows), rng)
        return Drawn(rows, judge, painters_turn(settings, len(rows), rng) if settings.paints_after(step) else None)

    draws = starmap(drawn, enumerate(shuffled(len(x), settings.batch, steps, rng), start=1))
    for step, now in enumerate(_sent_ahead(draws, x.device), start=1):
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
    """Records are seen by the judge's private steps alone; the painter learns from the judge, which costs nothing.

    As many images are painted a step as ``batch`` says, with labels that rest on no record: who came must not show.
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
    for step, now in enumerate(_sent_ahead(draws, x.device), start=1):
        gan.judge_privately(x[now.rows], told[now.rows], now.told[0], now.judge, gradient)
        if now.painter is not None:
            gan.paint_better(now.told[1], now.painter)
        yield from settings.kept_after(step, private.steps)


def _of_one(cost: Callable[..., Tensor]) -> RecordLoss:
    """The cost of one image, which comes without a first axis."""

    def loss(call: Callable[..., Tensor], *row: Tensor) -> Tensor:
        return cost(call, *(part[None] for part in row))[0]

    return loss
