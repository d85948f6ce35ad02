"""A class-conditional GAN for few records, one of the generators that Fedssyn is compared with.

Papers: Differentiable Augmentation for Data-Efficient GAN Training; Improved Consistency Regularization for GANs;
Negative Data Augmentation (``variant`` chooses; `synthesis.gan.losses` has the formulas). The GAN's generator is called
the painter here and its discriminator the judge. Images are sampled with the painter's weights averaged over training;
both networks are given the labels.

Private: only the judge sees records, by DP-SGD; the painter learns from the judge. Labels in training are then drawn
evenly over the classes, since using the records' own would be a further release.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import private_global_stream
from understudy.synthesis.gan.networks import Judge, Painter
from understudy.synthesis.gan.settings import GanSettings
from understudy.synthesis.gan.training import Gan, train, train_privately
from understudy.synthesis.generator import Generator, Learnt, Stage, generator, with_weights
from understudy.synthesis.image_layout import layout_of
from understudy.synthesis.labels import groups_of, require_seen, told_in_full

AT_ONCE = 500  # images painted in one pass
PAINTER = "painter."  # prefix of the names of its weights


@generator("gan", settings=GanSettings)
class ConditionalGan(Generator):
    """Class-conditional GAN with differentiable augmentation, balanced consistency or negative augmentation."""

    smallest = 2

    def __init__(self, settings: GanSettings) -> None:
        self.settings = settings

    def course(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Iterator[Stage]:
        """The averaged painter's weights; each class's count, unless private."""
        if private is None:
            self.require_enough(examples)
        gan = self._gan(problem, rng)
        x = problem.unscale(examples.x).to(torch.float32).div_(127.5).sub_(1).to(self.device)
        told = told_in_full(examples.y, problem).to(self.device)
        if private is not None:
            for epoch in train_privately(gan, x, told, _evenly(problem), rng, private):
                yield Stage(epoch, self._weights(gan))
            return
        group, groups = groups_of(examples.y, problem)
        count = torch.bincount(group, minlength=groups)
        for epoch in train(gan, x, told, rng):
            yield Stage(epoch, {**self._weights(gan), "count": count})

    def _gan(self, problem: Problem, rng: torch.Generator) -> Gan:
        wanted, layout = self.settings, layout_of(problem, "gan")
        with private_global_stream(int(torch.randint(2**62, (1,), generator=rng))):
            painter = Painter(layout, problem.classes, wanted.latent, wanted.width)
            judge = Judge(layout, problem.classes, wanted.width, wanted.hidden)
        painter, judge = painter.to(self.device), judge.to(self.device)
        return Gan(painter, judge, deepcopy(painter), wanted)

    def _weights(self, gan: Gan) -> Learnt:
        """A copy, since training may go on."""
        weights = {PAINTER + name: value.to("cpu", copy=True) for name, value in gan.averaged.state_dict().items()}
        if not all(bool(torch.isfinite(values).all()) for values in weights.values()):
            raise UserError(f"The GAN diverged with lr {self.settings.lr}; lower the generator's lr.")
        return weights

    @torch.no_grad()
    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        if "count" in state:  # not released by a private fit
            require_seen(groups_of(labels, problem)[0], state["count"])
        wanted, sizes = self.settings, (problem.classes, self.settings.latent, self.settings.width)
        painter = with_weights(lambda: Painter(layout_of(problem, "gan"), *sizes), state, PAINTER, self.device)
        z = torch.randn(len(labels), wanted.latent, generator=rng).to(self.device)
        told = told_in_full(labels, problem).to(self.device)
        parts = zip(torch.split(z, AT_ONCE), torch.split(told, AT_ONCE), strict=True)
        painted = torch.cat([painter(*part) for part in parts])
        return painted.add_(1).mul_(127.5).round_().to(torch.uint8).contiguous().cpu()


def _evenly(problem: Problem) -> Callable[[int, torch.Generator], Tensor]:
    """Draws labels to give the networks: all classes equally likely; with several labels, each by a fair coin."""

    def draw(images: int, rng: torch.Generator) -> Tensor:
        if problem.multilabel:
            return torch.randint(2, (images, problem.classes), generator=rng).float()
        return told_in_full(torch.randint(problem.classes, (images,), generator=rng), problem)

    return draw
