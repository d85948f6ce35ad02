"""The β-VAE with which Fedssyn's clients make images of dSprites.

Paper: Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity. An image of
class c is decoded from z ~ N(μ_c, I), where μ_c is the mean of the class's posterior means.

Where we go further: any image of 8×8 to 64×64 pixels; ``spread: class`` draws z with the class's own spread (the
variance of its posterior means plus its mean posterior variance), since a unit sphere around μ_c strays into other
classes where one latent space holds several; ``conditional`` gives encoder and decoder the label, and then ``spread:
prior`` draws every class from N(0, I). Only that can be private, because it releases nothing but the weights. Floats,
vectors and sequences as well as images, have a Gaussian decoder and categories a softmax (`vae.rows`).
"""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.data.examples import Examples
from understudy.data.kinds import NUMBERS, PLURAL
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import private_global_stream
from understudy.synthesis.generator import Generator, Learnt, Stage, generator, with_weights
from understudy.synthesis.image_layout import ImageLayout, layout_of
from understudy.synthesis.labels import groups_of, require_seen, told_in_full
from understudy.synthesis.vae.networks import Autoencoder
from understudy.synthesis.vae.rows import FloatRows
from understudy.synthesis.vae.training import VaeSettings, pixel_cost, train, train_privately

AT_ONCE = 500  # images encoded or decoded in one pass
DECODER = "decoder."  # prefix of the names of its weights


@generator("vae", settings=VaeSettings)
class Vae(Generator):
    """β-VAE with rising capacity; samples around each class's mean in latent space (Fedssyn on dSprites). Floats and
    tables with categories too."""

    smallest = 2
    makes = NUMBERS
    makes_floats = True

    def __init__(self, settings: VaeSettings) -> None:
        self.settings = settings

    def course(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Iterator[Stage]:
        """The decoder's weights; each class's count, mean and spread in latent space, unless the prior is used."""
        if private is None:
            self.require_enough(examples)
        elif self.settings.spread != "prior" or not self.settings.conditional:
            raise UserError(
                "Generator 'vae' needs conditional: true and spread: prior to be private, "
                "because each class's place in the latent space would be a further release."
            )
        rows = _rows(examples.x, problem, private is not None)
        told = self._told(examples.y, problem).to(self.device)
        with private_global_stream(int(torch.randint(2**62, (1,), generator=rng))):
            net = Autoencoder(*self._sizes(problem)).to(self.device)
        x = problem.unscale(examples.x).to(torch.float32).div_(255) if rows is None else rows.seen(examples.x)
        x, cost = x.to(self.device), pixel_cost if rows is None else rows.cost
        if private is not None:
            for epoch in train_privately(net, x, told, self.settings, private, cost):
                yield Stage(epoch, self._finite(_weights(net.decoder)))
            return
        if rows is None:
            x = x.to(memory_format=torch.channels_last)
            net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        scale = {} if rows is None else dict(rows.learnt)
        for epoch in train(net, x, told, self.settings, rng, cost):
            found = self._whereabouts(net.encoder, x, told, *groups_of(examples.y, problem))
            yield Stage(epoch, self._finite(_weights(net.decoder) | found | scale))

    def _whereabouts(self, encoder: nn.Module, x: Tensor, told: Tensor, group: Tensor, groups: int) -> Learnt:
        """Where each class lies in the latent space, if it is drawn there, and how many records it has."""
        if self.settings.spread == "prior":
            return {"count": torch.bincount(group, minlength=groups)}
        mean, variance = _encode(encoder, x, told)
        return _statistics(mean.cpu(), variance.cpu(), group, groups)

    def _finite(self, state: Learnt) -> Learnt:
        if not all(bool(torch.isfinite(values).all()) for values in state.values()):
            raise UserError(f"The VAE diverged with lr {self.settings.lr}; lower the generator's lr or gamma.")
        return state

    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        group, _ = groups_of(labels, problem)
        if "count" in state:  # not released by a private fit
            require_seen(group, state["count"])
        z = torch.randn(len(labels), self.settings.latent, generator=rng)
        if self.settings.spread != "prior":
            spread = state["spread"][group] if self.settings.spread == "class" else 1.0
            z = state["mean"][group] + spread * z
        decoder = with_weights(lambda: Autoencoder(*self._sizes(problem)).decoder, state, DECODER, self.device)
        told = self._told(labels, problem)
        outputs = _decode(decoder, z.to(self.device), told.to(self.device))
        return FloatRows.of(state, problem).drawn(outputs.cpu(), rng) if problem.floats else _pixels(outputs).cpu()

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.kind != "image" and not problem.floats:
            raise UserError(f"Generator 'vae' makes {PLURAL[problem.kind]} of floats; write uint8 records as floats.")
        self._sizes(problem)

    def _sizes(self, problem: Problem) -> tuple[ImageLayout | int, int, int, int, int]:
        wanted = self.settings
        told = problem.classes if wanted.conditional else 0
        layout = math.prod(problem.shape) if problem.floats else layout_of(problem, "vae")
        return layout, told, wanted.latent, wanted.width, wanted.hidden

    def _told(self, y: Tensor, problem: Problem) -> Tensor:
        """(n, t): the labels as given to encoder and decoder."""
        if problem.multilabel and not self.settings.conditional:
            raise UserError("Generator 'vae' needs conditional: true when records have several labels.")
        return told_in_full(y, problem) if self.settings.conditional else torch.zeros(len(y), 0)


def _rows(x: Tensor, problem: Problem, private: bool) -> FloatRows | None:
    """None: the records are pixels."""
    if not problem.floats:
        return None
    return FloatRows(problem.shape, problem.categories) if private else FloatRows.scaled_by(x, problem)


def _weights(decoder: nn.Module) -> Learnt:
    """A copy, since training may go on."""
    return {DECODER + name: value.cpu().contiguous().clone() for name, value in decoder.state_dict().items()}


@torch.no_grad()
def _encode(encoder: nn.Module, x: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
    found = [encoder(*part) for part in _parts(x, told)]
    mean, log_variance = (torch.cat(halves) for halves in zip(*found, strict=True))
    return mean, log_variance.exp()


def _statistics(mean: Tensor, variance: Tensor, group: Tensor, groups: int) -> dict[str, Tensor]:
    """For each class: how many records, their mean in the latent space, and the spread around it."""
    count = torch.bincount(group, minlength=groups)
    share = functional.one_hot(group, groups).to(mean.dtype) / count.clamp(min=1)  # (n, groups)
    centre = share.T @ mean
    around = share.T @ ((mean - centre[group]).square() + variance)
    return {"count": count, "mean": centre, "spread": around.sqrt()}


@torch.no_grad()
def _decode(decoder: nn.Module, z: Tensor, told: Tensor) -> Tensor:
    return torch.cat([decoder(*part) for part in _parts(z, told)])


def _pixels(logits: Tensor) -> Tensor:
    return logits.sigmoid().mul_(255).round_().to(torch.uint8).contiguous()


def _parts(rows: Tensor, told: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(torch.split(rows, AT_ONCE), torch.split(told, AT_ONCE), strict=True)
