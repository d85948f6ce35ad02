"""Distribution matching: a few images per class whose mean embedding is that of the real ones near a model.

From "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning". The gradient with respect
to the images depends on records only through each class's mean embedding under a network drawn for the step. So
matching has two parts: looks at the records (``Look``: a network near the model, and the target means under it) and
image steps towards them (``match_means``). Classes can share a pass through the network: as many as make a pass of a
good size (``classes_at_once``), which is more for the few synthetic images than for the many real ones.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.learning import dsa
from understudy.learning.ahead import ahead
from understudy.learning.ball import length
from understudy.learning.pool import Siamese
from understudy.models.network import Network
from understudy.under_way import counted

GOOD_PASS = 160_000  # numbers per pass: ten classes of 256 images of 8×8, one of 32×32; measured

Draws = Sequence[dsa.Draw] | None  # an augmentation for each class
Alter = Callable[[Tensor], Tensor]  # changes the gradient, (classes · ipc, …), before a step


class Wanted(Protocol):
    """The targets for images: mean embeddings under the loaded network."""

    def draw(self) -> Sequence[Tensor]:
        """The random draws for a look, on the processor."""

    def __call__(self, drawn: Sequence[Tensor], draws: Draws) -> Tensor:
        """(classes, d + classes), from the draws, now on the network's device."""


@dataclass(frozen=True)
class RealClasses:
    """The records to match, of some classes."""

    examples: Examples
    classes: Sequence[int]

    def members(self) -> list[Tensor]:
        """Where the records of each class are."""
        return [torch.nonzero(self.examples.y == c).flatten() for c in self.classes]


@dataclass(frozen=True)
class Neighbourhood:
    """Where networks are drawn: ρ away from a model, one per look."""

    model: Tensor
    radius: float  # ρ
    looks: int
    rng: torch.Generator
    augment: Siamese | None = None  # drawn anew for each look and class


@dataclass(frozen=True)
class ImageSteps:
    """How images move: SGD with momentum."""

    lr: float
    momentum: float
    alter: Alter | None = None
    classes_at_once: int | None = None  # per pass; None: set by the size of the images


@dataclass(frozen=True)
class Look:
    """A network near the model, and the target means under it."""

    near: Tensor
    draws: Draws
    means: Tensor  # (classes, d + classes)


def point_on_sphere(size: int, radius: float, rng: torch.Generator) -> Tensor:
    """u · min(1, ρ/‖u‖), u ~ N(0, I), on the processor. For any real network ‖u‖ ≈ √P ≫ ρ: a point on the sphere."""
    u = torch.randn(size, generator=rng)
    return u * min(1.0, radius / float(length(u)))


def real_batch(members: Tensor, size: int, rng: torch.Generator) -> Tensor:
    """``size`` records of a class without replacement; of a smaller class all, with some repeated."""
    if len(members) >= size:
        return members[torch.randperm(len(members), generator=rng)[:size]]
    again = torch.randint(len(members), (size - len(members),), generator=rng)
    return torch.cat([members, members[again]])


def embedding(net: Network, x: Tensor) -> Tensor:
    """(n, d + classes): features and logits side by side."""
    return torch.cat([part.flatten(1) for part in net(x)], 1)


def match_distributions(
    net: Network,
    x: Tensor,
    real: RealClasses,
    batch: int,
    near: Neighbourhood,
    steps: ImageSteps,
    sampling: torch.Generator | None = None,
) -> Tensor:
    """``x``: (classes · ipc, …) float, grouped by class; returned after one step of SGD per look on

    Σ_c ‖mean h(x_c) − mean h(x̃_c)‖² + ‖mean z(x_c) − mean z(x̃_c)‖²

    with h the features and z the logits of a freshly drawn network, and x_c ``batch`` records of class c, drawn from
    ``sampling`` where they are not to share a stream with the networks.
    """
    wanted = _RealMeans(net, real, batch, sampling or near.rng, steps.classes_at_once)
    looks = looks_near(net, near, wanted, len(real.classes))
    return match_means(net, x, looks, len(x) // len(real.classes), steps)


def looks_near(net: Network, near: Neighbourhood, wanted: Wanted, classes: int) -> Iterator[Look]:
    """One after another, each with its own weights; the network must be frozen meanwhile."""
    start, augment = near.model.to(net.device), near.augment

    def drawn() -> _Drawn:
        away = point_on_sphere(net.parameters, near.radius, near.rng)
        draws = () if augment is None else tuple(augment.draw(0) for _ in range(classes))
        return _Drawn(away, draws, wanted.draw())

    looks = ahead((drawn() for _ in range(near.looks)), _Drawn.tensors, net.device)
    for look, (away, *sent) in counted("moving records", looks, near.looks):
        w = start.clone()
        w[net.trainable] += away
        net.load(w)
        there = zip(look.draws, sent[: len(look.draws)], strict=True)
        draws = None if augment is None else [replace(draw, there=u) for draw, u in there]
        with torch.no_grad():
            means = wanted(sent[len(look.draws) :], draws)
        yield Look(w, draws, means)


@dataclass(frozen=True)
class _Drawn:
    """What is drawn for a look."""

    away: Tensor  # (parameters,)
    draws: Sequence[dsa.Draw]
    of_wanted: Sequence[Tensor]

    def tensors(self) -> list[Tensor]:
        return [self.away, *(draw.u for draw in self.draws), *self.of_wanted]


def match_means(net: Network, x: Tensor, looks: Iterable[Look], ipc: int, steps: ImageSteps) -> Tensor:
    """``x`` after one step of SGD per look on Σ_c ‖wanted_c − mean v(x̃_c)‖²."""
    x = x.to(net.device).clone()
    group = steps.classes_at_once or at_once(ipc, x)
    speed: Tensor | None = None
    with net.frozen():
        for look in looks:
            net.load(look.near)
            grad = torch.cat(
                [_gradient_of_some(net, x, look, ipc, at, group) for at in range(0, len(look.means), group)]
            )
            grad = grad if steps.alter is None else steps.alter(grad)
            speed = grad if speed is None else speed.mul_(steps.momentum).add_(grad)
            x.sub_(speed, alpha=steps.lr)
    return x.cpu()


def _gradient_of_some(net: Network, x: Tensor, look: Look, ipc: int, at: int, group: int) -> Tensor:
    """For the images of ``group`` classes from ``at`` on."""
    some = slice(at, at + group)
    return matching_gradient(
        net, x[at * ipc : (at + group) * ipc], look.means[some], ipc, look.draws and look.draws[some]
    )


def at_once(images: int, like: Tensor) -> int:
    """How many classes of ``images`` each make a pass of a good size."""
    return max(1, GOOD_PASS // (images * like[0].numel()))


def matching_gradient(net: Network, x: Tensor, wanted: Tensor, ipc: int, draws: Draws = None) -> Tensor:
    """The gradient with respect to the images of Σ_c ‖wanted_c − mean v(x̃_c)‖², v the embedding."""
    x = x.detach().requires_grad_()
    made = embedding(net, augmented(x, ipc, draws)).view(len(x) // ipc, ipc, -1).mean(1)
    return torch.autograd.grad((made - wanted).square().sum(), x)[0]


def augmented(x: Tensor, each: int | list[int], draws: Draws) -> Tensor:
    """Scaled images, grouped by class, ``each`` per class, with the augmentation of their class."""
    if not draws:
        return x
    parts = zip(draws, torch.split(x, each), strict=True)
    return torch.cat([dsa.apply(draw, part) if len(part) else part for draw, part in parts])


class _RealMeans:
    """The mean embedding of a batch of each class."""

    def __init__(
        self, net: Network, real: RealClasses, size: int, rng: torch.Generator, classes_at_once: int | None
    ) -> None:
        x = real.examples.x
        self._net, self._pixels, self._size, self._rng = net, net.there(x), size, rng
        self._members = real.members()
        self._group = classes_at_once or at_once(size, x)

    def draw(self) -> Sequence[Tensor]:
        """(classes, size): which records."""
        return [torch.stack([real_batch(rows, self._size, self._rng) for rows in self._members])]

    def __call__(self, drawn: Sequence[Tensor], draws: Draws) -> Tensor:
        (batches,) = drawn
        groups = range(0, len(batches), self._group)
        return torch.cat(
            [self._means(batches[at : at + self._group], draws and draws[at : at + self._group]) for at in groups]
        )

    def _means(self, batches: Tensor, draws: Draws) -> Tensor:
        x = self._pixels[batches.flatten()]
        if draws:
            x = augmented(self._net.problem.scale(x), self._size, draws)
        return embedding(self._net, x).view(*batches.shape, -1).mean(1)
