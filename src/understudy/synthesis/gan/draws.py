"""What a GAN draws for its steps, separate from taking them, so that the draws of many steps go to the device
together.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from understudy.learning import dsa
from understudy.learning.ahead import ahead
from understudy.synthesis.gan.losses import other_orders, quarters_moved
from understudy.synthesis.gan.settings import GanSettings

Change = dsa.Draw | Tensor | None  # to images: augmentation, an order of their quarters, or none


@dataclass(frozen=True)
class Turn:
    """What an update of one network draws."""

    z: Tensor  # (n, latent): what images are painted from
    real: Change = None  # to records
    painted: Change = None

    def tensors(self) -> list[Tensor]:
        numbers = [change.u if isinstance(change, dsa.Draw) else change for change in (self.real, self.painted)]
        return [self.z, *(part for part in numbers if part is not None)]

    def sent(self, there: Iterator[Tensor]) -> "Turn":
        """The same with its ``tensors`` on the device, taken in order from ``there``."""

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
    painter: Turn | None  # None: not its turn
    told: Sequence[Tensor] = ()  # private: labels for the painter, in the judge's turn and in its own

    def tensors(self) -> list[Tensor]:
        of_painter = [] if self.painter is None else self.painter.tensors()
        return [self.rows, *self.judge.tensors(), *of_painter, *self.told]

    def sent(self, there: Iterator[Tensor]) -> "Drawn":
        rows, judge = next(there), self.judge.sent(there)
        painter = None if self.painter is None else self.painter.sent(there)
        return Drawn(rows, judge, painter, list(there))


def sent_ahead(draws: Iterable[Drawn], device: torch.device) -> Iterator[Drawn]:
    for drawn, there in ahead(draws, Drawn.tensors, device):
        yield drawn.sent(iter(there))


def painters_turn(settings: GanSettings, images: int, rng: torch.Generator) -> Turn:
    z = _noise(settings, images, rng)
    augments = settings.variant == "diffaugment"
    return Turn(z, painted=dsa.draw(settings.kinds, rng, images=images) if augments else None)


def judges_turn(settings: GanSettings, images: int, rng: torch.Generator) -> Turn:
    """Equally many images on both sides, augmented by one draw; otherwise the judge could tell them apart by it."""
    z = _noise(settings, images, rng)
    if not settings.augments:
        return Turn(z, _spoiling(settings, images, rng))
    change = dsa.draw(settings.kinds, rng, images=images)
    return Turn(z, change, change)


def judges_private_turn(
    settings: GanSettings, records: int, images: int, coins: torch.Generator, rng: torch.Generator
) -> Turn:
    """The same for a private step: one kind of change, but each side draws its own numbers. The painted side gets no
    noise, so nothing in it may depend on who was sampled, and one more record shifts all draws after it."""
    z = _noise(settings, images, rng)
    if not settings.augments:
        return Turn(z, _spoiling(settings, records, coins))
    change = dsa.draw(settings.kinds, coins, images=records)
    return Turn(z, change, replace(dsa.draw(settings.kinds, rng, images=images), kind=change.kind))


def _noise(settings: GanSettings, images: int, rng: torch.Generator) -> Tensor:
    return torch.randn(images, settings.latent, generator=rng)


def _spoiling(settings: GanSettings, images: int, rng: torch.Generator) -> Tensor | None:
    return other_orders(torch.rand(images, generator=rng)) if settings.variant == "negative" else None


def changed(x: Tensor, change: Change) -> Tensor:
    if change is None:
        return x
    return augmented(x, change) if isinstance(change, dsa.Draw) else quarters_moved(x, change)


def augmented(x: Tensor, drawn: dsa.Draw) -> Tensor:
    """Exposed pixels are black."""
    return dsa.apply(drawn, x + 1) - 1
