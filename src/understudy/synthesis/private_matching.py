"""Class means for distribution matching with record-level privacy, and the published clipping, which has none.

A record enters the statistic of its own class only, so releasing all classes costs as much as releasing one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.models.network import Network
from understudy.privacy.mechanism import NoisyMeans, clip_rows, gaussian, poisson_rows, released
from understudy.synthesis.matching import Draws, RealClasses, at_once, augmented, embedding

NOISE_IMAGES = 256
Stream = Callable[[str], torch.Generator]  # a client's secret stream, by purpose


@dataclass(frozen=True)
class PlannedRelease:
    """(Σ clipped + N(0, σ²C²)) / q n̄ over records sampled at rate q; all numbers are planned, none is counted."""

    rate: float  # q
    records: int  # n̄; per class if each has its own release
    clip: float  # C
    noise: float  # σ


def clip_from_noise(net: Network, w: Tensor, rng: torch.Generator, images: int = NOISE_IMAGES) -> float:
    """The median norm of embeddings of N(0, 1) images under ``w``: a clip that depends on no record."""
    net.load(w)
    x = torch.randn(images, *net.problem.shape, generator=rng).to(net.device)
    with net.scoring():
        return float(embedding(net, x).norm(dim=1).median())


class PrivateMeans:
    """The released means of all classes under the loaded network; one release per call.

    ``planned``: n̄ + m of each class, if they differ; a noised count in place of n̄ is planned too.
    """

    def __init__(
        self,
        net: Network,
        real: RealClasses,
        release: PlannedRelease,
        secret: Stream,
        classes_at_once: int | None = None,
        planned: Sequence[float] = (),
    ):
        self._net, self._release = net, release
        self._pixels, self._members = net.there(real.examples.x), real.members()
        self._sampling, self._noising = secret("records"), secret("noise")
        with torch.no_grad():
            self._width = embedding(net, torch.zeros(1, *net.problem.shape, device=net.device)).shape[1]
        expected = [release.rate * records for records in planned or [release.records] * len(real.classes)]
        self._divisors = torch.tensor(expected, device=net.device)[:, None]  # (classes, 1)
        batch = max(1, round(max(expected)))
        self._group = classes_at_once or max(1, at_once(batch, torch.empty(1, *net.problem.shape)))

    def draw(self) -> Sequence[Tensor]:
        """Noise, and which records of each class."""
        release, shape = self._release, (len(self._members), self._width)
        rows = [members[poisson_rows(len(members), release.rate, self._sampling)] for members in self._members]
        return [gaussian(shape, clip=release.clip, noise=release.noise, rng=self._noising), *rows]

    def __call__(self, drawn: Sequence[Tensor], draws: Draws) -> Tensor:
        noise, *rows = drawn
        groups = range(0, len(rows), self._group)
        sums = [
            self._clipped_sums(rows[at : at + self._group], draws and draws[at : at + self._group]) for at in groups
        ]
        noised, release = torch.cat(sums) + noise, self._release
        return released(noised, divisor=self._divisors, clip=release.clip, noise=release.noise)

    def _clipped_sums(self, rows: Sequence[Tensor], draws: Draws) -> Tensor:
        """(classes, d + classes), for a few classes in one pass; zero if no record was drawn."""
        sizes = [len(some) for some in rows]
        if not sum(sizes):
            return torch.zeros(len(rows), self._width, device=self._net.device)
        x = self._pixels[torch.cat(list(rows))]
        if draws:
            x = augmented(self._net.problem.scale(x), sizes, draws)
        v = clip_rows(embedding(self._net, x), self._release.clip)
        return torch.stack([part.sum(0) for part in torch.split(v, sizes)])


class PublishedNoise:
    """Each class's gradient, which is already a mean over the batch, clipped to C, plus N(0, (noise·C)²).

    No guarantee at all: one record can move the clipped mean by 2C, whatever the batch. ``like``: the images.
    """

    def __init__(self, like: Tensor, ipc: int, *, clip: float, noise: float, steps: int, rng: torch.Generator) -> None:
        self._by_class = len(like) // ipc, ipc * math.prod(like.shape[1:])
        rows = like.reshape(self._by_class)
        self._noisy = NoisyMeans(rows, clip=clip, noise=noise, expected=1.0, releases=steps, rng=rng)

    def __call__(self, grad: Tensor) -> Tensor:
        return self._noisy(clip_rows(grad.reshape(self._by_class), self._noisy.clip)).view_as(grad)
