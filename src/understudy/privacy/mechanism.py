"""The sampled Gaussian mechanism on one vector per record.

Each record is in a release with a fixed probability, by its own draw (Poisson sampling). Its vector is clipped to a
norm, the vectors are summed, Gaussian noise of ``noise`` times the clip is added once, and the sum is divided by a
constant: the expected number of records, never the number drawn. Nothing but the sum may depend on which records were
drawn, so a release without any record is noise alone and costs as much as any other.

Known limits. Streams are torch's Mersenne Twister with its whole state from the operating system: nobody can guess or
repeat them beforehand, but it is not a cryptographic generator, and someone who saw hundreds of its exact outputs could
compute the next ones; releases show sums and roundings of them. Noise is a rounded floating-point number, so attacks
on its last bits (Mironov, On Significance of the Least Significant Bits for Differential Privacy) are not ruled out.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.learning.ahead import ahead

WORDS = 624  # 32-bit words in the state of a Mersenne Twister
BEFORE = 24  # bytes before them in torch's saved state: seed, words left, a flag, the next word


@dataclass(frozen=True)
class NoisySum:
    """One release, as an audit's watcher sees it; the sum without its noise is nowhere."""

    noised: Tensor  # Σ clipped + noise
    divisor: float | Tensor  # what it is divided by; a tensor broadcasts
    clip: float  # C
    noise: float  # σ, in units of C

    @property
    def released(self) -> Tensor:
        return self.noised / self.divisor


# Set by audits alone (`audits.claims.watching`): in a run nobody watches. What a watcher returns is released instead,
# so that an audit can lead a task along the path of another run.
WATCHER: ContextVar[Callable[[NoisySum], Tensor | None] | None] = ContextVar("WATCHER", default=None)


def released(noised: Tensor, *, divisor: float | Tensor, clip: float, noise: float) -> Tensor:
    """The noised sum over its divisor. Every release passes here, where an audit can see it."""
    watcher = WATCHER.get()
    instead = None if watcher is None else watcher(NoisySum(noised, divisor, clip, noise))
    return noised / divisor if instead is None else instead


def secret_generator() -> torch.Generator:
    """A generator with all of its state from the operating system.

    ``manual_seed`` is not enough: on a CPU torch uses 32 bits of any seed, which can be tried one by one.
    """
    rng = torch.Generator()
    state = rng.get_state()
    drawn = torch.frombuffer(bytearray(os.urandom(4 * WORDS)), dtype=torch.int32)
    state[BEFORE : BEFORE + 8 * WORDS].view(torch.int64).copy_(drawn.to(torch.int64) & 0xFFFFFFFF)
    rng.set_state(state)
    return rng


def poisson_rows(n: int, rate: float, rng: torch.Generator) -> Tensor:
    """Indices of the records drawn: each of ``n`` with probability ``rate``; there may be none."""
    if not 0 < rate <= 1:
        raise UserError(f"rate: {rate:g} is not a sampling rate; write a number above 0 and up to 1.")
    return torch.nonzero(torch.rand(n, generator=rng, dtype=torch.float64) < rate).flatten()


def clip_rows(vectors: Tensor, norm: float) -> Tensor:
    """Each row (n, d) clipped to ``norm``; infinite or NaN rows become zero, or they would show through any noise."""
    length = vectors.square().sum(1, keepdim=True).sqrt()
    clipped = vectors * (norm / length.clamp(min=torch.finfo(vectors.dtype).tiny)).clamp(max=1)
    return torch.where(torch.isfinite(length), clipped, 0)


def heard(rows: Tensor, factors: Tensor) -> Tensor:
    """Rows to be summed with ``factors``, (n,); rows with factor 0 become zeros, since 0 · ∞ is not a number.

    So a record whose gradient is not finite counts as zero; otherwise it would show through any noise.
    """
    return torch.where((factors > 0).view(-1, *[1] * (rows.ndim - 1)), rows, 0.0)


class NoisyMeans:
    """One release after another: a sum of vectors clipped to ``clip``, with noise, over ``expected``, which is rate ×
    planned records, whichever were drawn.

    There are as many as ``releases``, the number charged, and each has its own noise, which is sent ahead to the
    device; nothing else may draw from ``rng`` meanwhile. ``like``: a tensor of the sums' shape, type and device.
    """

    def __init__(
        self, like: Tensor, *, clip: float, noise: float, expected: float, releases: int, rng: torch.Generator
    ) -> None:
        check_release(clip, noise)
        if not expected > 0:
            raise UserError(f"expected must be positive, not {expected:g}; write rate × planned records.")
        drawn = (gaussian(like.shape, clip=clip, noise=noise, rng=rng, dtype=like.dtype) for _ in range(releases))
        self.clip, self.noise, self._expected, self._shape = clip, noise, expected, like.shape
        self._noises: Iterator[Tensor] = (there for _, (there,) in ahead(drawn, lambda one: [one], like.device))

    def __call__(self, total: Tensor) -> Tensor:
        if total.shape != self._shape:
            raise ValueError(f"The noise has shape {tuple(self._shape)}, the sum {tuple(total.shape)}.")
        noise = next(self._noises, None)
        if noise is None:
            raise ValueError("This release was not charged: there were more than planned.")
        return released(total + noise, divisor=self._expected, clip=self.clip, noise=self.noise)


def with_noise(total: Tensor, *, clip: float, noise: float, rng: torch.Generator) -> Tensor:
    """A sum of vectors clipped to ``clip``, + N(0, noise²·clip²·I)."""
    drawn = gaussian(total.shape, clip=clip, noise=noise, rng=rng, dtype=total.dtype)
    return released(total + drawn.to(total.device), divisor=1.0, clip=clip, noise=noise)


def gaussian(
    shape: Sequence[int], *, clip: float, noise: float, rng: torch.Generator, dtype: torch.dtype = torch.float32
) -> Tensor:
    """N(0, noise²·clip²·I), on the CPU."""
    check_release(clip, noise)
    # In double precision: torch's single-precision normal never exceeds 5.8.
    drawn = torch.randn(tuple(shape), generator=rng, dtype=torch.float64)
    return (drawn * (noise * clip)).to(dtype)


def check_release(clip: float, noise: float) -> None:
    if not clip > 0:
        raise UserError(f"clip must be positive, not {clip:g}.")
    if not noise >= 0:
        raise UserError(f"noise must be 0 or more, not {noise:g}.")
