"""The β-VAE with which Fedssyn's clients make images of dSprites.

Paper: Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity.
An image of class c is decoded from z ~ N(μ_c, I), μ_c being the mean of the class's posterior means.

Where we go further: any image of 8×8 to 64×64 pixels; ``spread: class`` draws z with the class's own spread
(the variance of its posterior means plus its mean posterior variance), since a unit sphere around μ_c strays
into other classes where one latent space holds several; ``conditional`` tells encoder and decoder the label.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import private_global_stream
from understudy.synthesis.generator import Generator, Stage, generator
from understudy.synthesis.vae_networks import Decoder, Encoder, Layout
from understudy.synthesis.vae_training import VaeSettings, train

SMALLEST_SIDE, LARGEST_SIDE = 8, 64
AT_ONCE = 500  # images that are encoded or decoded in one pass
DECODER = "decoder."  # before the names of its weights


@generator("vae", settings=VaeSettings)
class Vae(Generator):
    """β-VAE with rising capacity; draws around each class's mean in latent space (Fedssyn on dSprites)."""

    smallest = 2

    def __init__(self, settings: VaeSettings) -> None:
        self.settings = settings

    def course(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Iterator[Stage]:
        """The decoder's weights; each class's count, mean and spread in the latent space."""
        self.require_enough(examples)
        sizes = self._sizes(problem)
        pixels = problem.unscale(examples.x).to(torch.float32).div_(255)
        x = pixels.to(memory_format=torch.channels_last)
        told = self._told(examples.y, problem)
        with private_global_stream(int(torch.randint(2**62, (1,), generator=rng))):
            encoder, decoder = Encoder(*sizes), Decoder(*sizes)
        for net in (encoder, decoder):
            net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        train(encoder, decoder, x, told, self.settings, rng)
        mean, variance = _encode(encoder, x, told)
        if not bool(torch.isfinite(mean).all() and torch.isfinite(variance).all()):
            raise UserError(f"The VAE diverged with lr {self.settings.lr}; lower the generator's lr or gamma.")
        weights = {DECODER + name: value.contiguous() for name, value in decoder.state_dict().items()}
        yield Stage(self.settings.epochs, weights | _statistics(mean, variance, *_groups(examples.y, problem)))

    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        group, _ = _groups(labels, problem)
        unseen = sorted(set(group[state["count"][group] == 0].tolist()))
        if unseen:
            raise UserError(f"The generator has seen no record of class {unseen[0]}; ask for others.")
        noise = torch.randn(len(labels), self.settings.latent, generator=rng)
        spread = state["spread"][group] if self.settings.spread == "class" else 1.0
        with torch.device("meta"):  # no weights are drawn: they are in the state
            decoder = Decoder(*self._sizes(problem))
        weights = {name.removeprefix(DECODER): w for name, w in state.items() if name.startswith(DECODER)}
        decoder.load_state_dict(weights, assign=True)
        return _decode(decoder, state["mean"][group] + spread * noise, self._told(labels, problem))

    def _sizes(self, problem: Problem) -> tuple[Layout, int, int, int, int]:
        shape, wanted = problem.shape, self.settings
        if len(shape) != 3 or not SMALLEST_SIDE <= min(shape[1:]) <= max(shape[1:]) <= LARGEST_SIDE:
            raise UserError(
                f"Generator 'vae' makes images (channels, height, width) of "
                f"{SMALLEST_SIDE} to {LARGEST_SIDE} pixels a side, and records here have shape {shape}; "
                f"resize them or use another generator."
            )
        channels, high, wide = shape
        told = problem.classes if wanted.conditional else 0
        return Layout(channels, high, wide), told, wanted.latent, wanted.width, wanted.hidden

    def _told(self, y: Tensor, problem: Problem) -> Tensor:
        """(n, t): what encoder and decoder are told of the labels."""
        if problem.multilabel and not self.settings.conditional:
            raise UserError("Generator 'vae' needs conditional: true where records have several labels.")
        if not self.settings.conditional:
            return torch.zeros(len(y), 0)
        return y.to(torch.float32) if problem.multilabel else functional.one_hot(y, problem.classes).float()


def _groups(y: Tensor, problem: Problem) -> tuple[Tensor, int]:
    """Whose mean each record belongs to: its class's, or everybody's where records have several labels."""
    return (torch.zeros(len(y), dtype=torch.int64), 1) if problem.multilabel else (y, problem.classes)


@torch.no_grad()
def _encode(encoder: Encoder, x: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
    found = [encoder(*part) for part in _parts(x, told)]
    mean, log_variance = (torch.cat(halves) for halves in zip(*found, strict=True))
    return mean, log_variance.exp()


def _statistics(mean: Tensor, variance: Tensor, group: Tensor, groups: int) -> dict[str, Tensor]:
    """Of each class: how many records, their mean in the latent space, and the spread around it."""
    count = torch.bincount(group, minlength=groups)
    share = functional.one_hot(group, groups).to(mean.dtype) / count.clamp(min=1)  # (n, groups)
    centre = share.T @ mean
    around = share.T @ ((mean - centre[group]).square() + variance)
    return {"count": count, "mean": centre, "spread": around.sqrt()}


@torch.no_grad()
def _decode(decoder: Decoder, z: Tensor, told: Tensor) -> Tensor:
    logits = torch.cat([decoder(*part) for part in _parts(z, told)])
    return logits.sigmoid().mul_(255).round_().to(torch.uint8).contiguous()


def _parts(rows: Tensor, told: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(torch.split(rows, AT_ONCE), torch.split(told, AT_ONCE), strict=True)
