"""How a GAN is trained: judge and painter in turn, and an average of the painter along the way."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from pydantic import Field
from torch import Tensor, nn

from understudy.learning import dsa
from understudy.privacy.sgd import PrivateSteps, RecordLoss
from understudy.synthesis.checkpoints import CourseSettings
from understudy.synthesis.gan_losses import Loss, Terms, Variant, painter_cost, quarters_moved
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
    def terms(self) -> Terms:
        return Terms(self.variant, self.loss, self.consistency, self.negative)


def kept_share(average: float, updates: int) -> float:
    """Of the average, in an update after so many others: less at first, so that the start does not stay in it."""
    return min(average, (1 + updates) / (WARM_UP + updates))


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

    def painted(self, told: Tensor, rng: torch.Generator) -> Tensor:
        z = torch.randn(len(told), self.settings.latent, generator=rng)
        return self.painter(z.to(told.device), told)  # type: ignore[no-any-return]

    def paint_better(self, told: Tensor, rng: torch.Generator) -> None:
        images = self.painted(told, rng)
        if self.settings.variant == "diffaugment":
            images = augmented(images, dsa.draw(self.settings.kinds, rng, images=len(images)))
        loss = painter_cost(self.judge(images, told), self.settings.loss).mean()
        self._step(self.painter, torch.autograd.grad(loss, list(self.painter.parameters())))
        self._average()

    def judge_better(self, x: Tensor, told: Tensor, rng: torch.Generator) -> None:
        terms = self.settings.terms
        with torch.no_grad():
            painted = self.painted(told, rng)
        real_change, painted_change = changed(self.settings, x, painted, rng)
        real = terms.real(self.judge, x, real_change, told).mean()
        loss = real + terms.painted(self.judge, painted, painted_change, told).mean()
        self._step(self.judge, torch.autograd.grad(loss, list(self.judge.parameters())))

    def judge_privately(
        self, x: Tensor, told: Tensor, painted_told: Tensor, rng: torch.Generator, private: PrivateSteps
    ) -> None:
        """The real side by a private step. The painted side rests on no record: it gets no noise, but is clipped image
        by image like the other one, or it would outweigh it."""
        terms = self.settings.terms
        with torch.no_grad():
            painted = self.painted(painted_told, rng)
        real_change, painted_change = changed_apart(self.settings, x, painted, private.coins, rng)
        private.fill_gradients(self.judge, _of_one(terms.real), x, real_change, told)
        from_records = _gradients(self.judge)
        exact = replace(private, noise=0.0, expected=float(len(painted)))
        exact.fill_gradients(self.judge, _of_one(terms.painted), painted, painted_change, painted_told)
        both = [a + b for a, b in zip(from_records, _gradients(self.judge), strict=True)]
        self._step(self.judge, both)

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


def changed(settings: GanSettings, x: Tensor, painted: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Both sides as the variant changes them: by one draw, or the judge would tell them by it."""
    if settings.variant == "plain":
        return x, painted
    if settings.variant == "negative":
        return quarters_moved(x, torch.rand(len(x), generator=rng)), painted
    drawn = dsa.draw(settings.kinds, rng, images=max(len(x), len(painted)))
    return augmented(x, drawn), augmented(painted, drawn)


def changed_apart(
    settings: GanSettings, x: Tensor, painted: Tensor, coins: torch.Generator, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The same for a private step: one kind of change, but each side has numbers of its own. The painted side gets no
    noise, so nothing in it may follow from who came, and a record more moves what is drawn for places behind it."""
    if settings.variant in ("plain", "negative"):
        return changed(settings, x, painted, coins)
    drawn = dsa.draw(settings.kinds, coins, images=len(x))
    of_painted = dsa.draw(settings.kinds, rng, images=len(painted))
    return augmented(x, drawn), augmented(painted, replace(of_painted, kind=drawn.kind))


def augmented(x: Tensor, drawn: dsa.Draw) -> Tensor:
    """By the first numbers of a draw for at least as many images; what is let in is black."""
    return dsa.apply(dsa.Draw(drawn.kind, drawn.u[: len(x)]), x + 1) - 1


def train(gan: Gan, x: Tensor, told: Tensor, rng: torch.Generator) -> Iterator[int]:
    """Stops after each checkpoint and at the end, and says after which epoch; ``x`` between −1 and 1."""
    settings = gan.settings
    steps = settings.steps(len(x))
    for step, batch in enumerate(shuffled(len(x), settings.batch, steps, rng), start=1):
        rows = batch.to(x.device)
        gan.judge_better(x[rows], told[rows], rng)
        if step % settings.judge_steps == 0:
            gan.paint_better(told[rows], rng)
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
    settings = gan.settings
    for step in range(1, private.steps + 1):
        rows = private.rows(len(x)).to(x.device)
        gan.judge_privately(x[rows], told[rows], some_labels(settings.batch, rng).to(x.device), rng, private)
        if step % settings.judge_steps == 0:
            gan.paint_better(some_labels(settings.batch, rng).to(x.device), rng)
        yield from settings.kept_after(step, private.steps)


def _gradients(net: nn.Module) -> list[Tensor]:
    return [p.grad for p in net.parameters() if p.grad is not None]


def _of_one(cost: Callable[..., Tensor]) -> RecordLoss:
    """The cost of one image, which comes without a first axis."""

    def loss(call: Callable[..., Tensor], *row: Tensor) -> Tensor:
        return cost(call, *(part[None] for part in row))[0]

    return loss
