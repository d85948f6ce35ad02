"""The class-conditional diffusion model with which Fedssyn's clients make images.

Paper: Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity. The model is
that of Denoising Diffusion Probabilistic Models with the cosine schedule (`schedule`), trained to find the noise in a
noisy image (`training`), by a U-Net that is given time step and label (`network`).

Where we depart from the published code: the average of the weights warms up, because after a thousand updates it would
still be mostly its random start; start noise is drawn anew for every batch, where that code uses one draw for all;
`tiny` predicts velocity (`schedule`) and sees large images folded; images that cannot be halved often enough are padded
for training and cropped again.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Self

import torch
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import private_global_stream
from understudy.synthesis.diffusion.network import Frame, build, predict
from understudy.synthesis.diffusion.schedule import draw, require_library
from understudy.synthesis.diffusion.settings import DiffusionSettings
from understudy.synthesis.diffusion.training import FramedRecords, train
from understudy.synthesis.generator import Generator, Stage, generator, with_weights

AT_ONCE = 100  # images drawn together
FITTED = "fitted"  # in the state: which labels were seen
NETWORK = "network."  # prefix of the names of its weights


@generator("diffusion", settings=DiffusionSettings)
class Diffusion(Generator):
    """Class-conditional diffusion: a U-Net learns to remove noise, and images start as noise (Fedssyn)."""

    smallest = 2
    goes_on = True

    def __init__(self, settings: DiffusionSettings) -> None:
        require_library()
        self.settings = settings
        self._start: dict[str, Tensor] = {}  # weights to begin at; none: drawn anew

    def beginning_at(self, start: Mapping[str, Tensor]) -> Self:
        begun = copy.copy(self)
        begun._start = {name.removeprefix(NETWORK): w for name, w in start.items() if name.startswith(NETWORK)}
        return begun

    def course(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Iterator[Stage]:
        """The network's weights, and the labels it can be asked for."""
        frame = self._frame(problem)
        if private is None:
            self.require_enough(examples)
        with private_global_stream(int(torch.randint(2**62, (1,), generator=rng))):
            net = build(self.settings, frame, problem.classes, private is not None)
        if self._start:
            self._begin(net)
        net.to(self.device)
        x = frame.put_on(problem.unscale(examples.x).to(torch.float32)).div_(127.5).sub_(1).to(self.device)
        # Under privacy not even the set of labels may depend on the records.
        fitted = torch.ones(problem.classes, dtype=torch.bool)
        if private is None:
            fitted = examples.label_counts(problem.classes) > 0
        records = FramedRecords(x, examples.y.to(self.device), frame)
        for epoch, weights in train(net, records, self.settings, rng, private):
            yield Stage(epoch, {FITTED: fitted} | {NETWORK + name: w for name, w in weights.items()})

    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        frame = self._frame(problem)
        unseen = sorted(set(labels[~state[FITTED][labels]].tolist()))
        if unseen:
            raise UserError(f"The generator has seen no record of class {unseen[0]}; ask for others.")
        net = with_weights(lambda: build(self.settings, frame, problem.classes), state, NETWORK, self.device).eval()
        made = [self._draw(net, part, frame, rng) for part in torch.split(labels, AT_ONCE) if len(part)]
        return torch.cat([torch.empty(0, *problem.shape, dtype=torch.uint8), *made])

    def _begin(self, net: nn.Module) -> None:
        try:
            net.load_state_dict(self._start)
        except RuntimeError:
            raise UserError("The diffusion generator cannot begin at the weights of one with other settings.") from None

    def _frame(self, problem: Problem) -> Frame:
        if problem.multilabel:
            raise UserError("Generator 'diffusion' makes images of one class each, not of several labels; use 'vae'.")
        return Frame(problem, len(self.settings.multipliers), self.settings.full_size)

    def _draw(self, net: nn.Module, labels: Tensor, frame: Frame, rng: torch.Generator) -> Tensor:
        shape, how = (len(labels), *frame.shape), self.settings
        asked, told = (how.sampler, how.sampling_steps, rng, how.predicts), labels.to(self.device)
        made = draw(lambda x, t: predict(net, x, t, told), shape, *asked, device=self.device).cpu()
        if not bool(torch.isfinite(made).all()):
            raise UserError(f"The diffusion generator diverged with lr {how.lr}; lower the generator's lr.")
        return as_pixels(frame.take_off(made))


def as_pixels(x: Tensor) -> Tensor:
    """uint8 pixels from −1 … 1, truncated as published."""
    return x.clamp(-1, 1).add(1).mul_(127.5).to(torch.uint8).contiguous()
