"""One Gaussian per class as a generator: the mean and the widest axes of a class, in low frequencies, and noise.

A record is u, the lowest ``frequencies`` of the cosine transform of its pixels, each from 0 to 1. A class is N(m, Σ)
with m the mean of its u and Σ their covariance along its ``axes`` widest axes; what varies less is left out. An image
is drawn from it, gets white noise of standard deviation ``noise`` in every pixel, and is rounded to pixels.

Low frequencies and few axes leave little room to remember a record, and noise hides what is left in directions in which
records hardly differ, where attacks look first. None of this is a promise: sums over records are not noised, so the
fewer records a class has, the more of each is in them.
"""

from collections.abc import Iterator, Mapping

import torch
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps
from understudy.synthesis.class_sums import cosines, principal
from understudy.synthesis.generator import Generator, Stage, generator
from understudy.synthesis.labels import groups_of, require_seen


class GaussianSettings(Settings):
    frequencies: int = Field(default=8, ge=1)  # per side of an image, of the cosine transform
    axes: int = Field(default=15, ge=0)  # along which images of a class differ
    noise: float = Field(default=0.25, ge=0)  # standard deviation of white noise in every pixel, of its range


@generator("gaussian", settings=GaussianSettings)
class Gaussian(Generator):
    """One Gaussian per class in low frequencies, along its widest axes; made in moments, and keeps little of a
    record."""

    smallest = 2

    def __init__(self, settings: GaussianSettings) -> None:
        self.settings = settings

    def course(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Iterator[Stage]:
        """For each class its count, its mean and L, with L Lᵀ its covariance along its widest axes."""
        if private is not None:
            raise UserError(
                "Generator 'gaussian' adds up records without noise, so it cannot be private; choose vae, gan or "
                "diffusion."
            )
        self.require_enough(examples)
        basis = self._basis(problem)
        u = _pixels(examples.x, problem) @ basis.T
        group, groups = groups_of(examples.y, problem)
        classes = [self._of_class(u[group == c]) for c in range(groups)]
        means, spreads = (torch.stack(parts) for parts in zip(*classes, strict=True))
        yield Stage(1, {"count": torch.bincount(group, minlength=groups), "mean": means, "spread": spreads})

    def _of_class(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """(d,) and (d, axes): mean and L; zeros for a class without records, and no spread for a single one."""
        d = u.shape[1]
        mean = u.mean(0) if len(u) else u.new_zeros(d)
        apart = u - mean
        axes, variances = principal(apart.T @ apart / max(len(u) - 1, 1), 0.0)
        width = min(self.settings.axes, d)
        return mean, axes[:, :width] * variances[:width].sqrt()

    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        group, _ = groups_of(labels, problem)
        require_seen(group, state["count"])
        spread = state["spread"]  # (classes, d, axes)
        z = torch.randn(len(labels), spread.shape[2], generator=rng)
        noise = self.settings.noise * torch.randn(len(labels), *problem.shape, generator=rng)
        u = state["mean"][group]
        for c in range(len(spread)):
            u[group == c] += z[group == c] @ spread[c].T
        images = (u @ self._basis(problem)).view(-1, *problem.shape) + noise
        return images.mul(255).round_().clamp_(0, 255).to(torch.uint8)

    def _basis(self, problem: Problem) -> Tensor:
        if len(problem.shape) != 3:
            raise UserError(
                f"Generator 'gaussian' makes images (channels, height, width), but the records have shape "
                f"{problem.shape}; use another method."
            )
        return cosines(problem.shape, self.settings.frequencies)


def _pixels(x: Tensor, problem: Problem) -> Tensor:
    """(n, numbers), from 0 to 1."""
    return problem.unscale(x).to(torch.float32).div_(255).flatten(1)
