"""Records of floats as a VAE sees them: rows of numbers and categories, whatever their shape.

A number x has a Gaussian decoder, N(μ(z), σ²), with one σ per number that is learnt like the weights. A category, whose
words are 0 or 1 side by side, has a softmax over its words; a row without any word counts for nothing there, and none
is ever made. The cost of a record is −log p(x|z):

    Σ ½((x − μ)/σ)² + ln σ + ½ ln 2π  over the numbers,  −Σ t·ln softmax  over the words of each category.

Before, numbers are brought to mean 0 and standard deviation 1 over the records that are seen. Under privacy that would
be a release of its own, so there they are taken as they are: scale them (`data.mean` and `data.std`). σ is at least a
tenth, so that no number is copied to the last digit. The steps of a sequence and the pixels of a float image are
numbers like any other: what is made has their means and correlations, and the noise of σ on top.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from understudy.data.problem import Categories, Problem

LEAST_SPREAD = math.log(0.1)
CENTRE, UNIT = "numbers.centre", "numbers.unit"  # in what was learnt
HALF_LOG_TAU = math.log(2 * math.pi) / 2


@dataclass(frozen=True)
class FloatRows:
    """Where in a row the numbers and the words of the categories are, and how numbers are scaled."""

    shape: tuple[int, ...]
    categories: Categories
    learnt: Mapping[str, Tensor] = field(default_factory=dict)  # empty: numbers are taken as they are

    @classmethod
    def scaled_by(cls, x: Tensor, problem: Problem) -> "FloatRows":
        """With the mean and the standard deviation of each number in ``x``."""
        flat = x.flatten(1).to(torch.float64)
        scale = {CENTRE: flat.mean(0), UNIT: flat.std(0, correction=0)}
        for first, words in problem.categories:
            scale[CENTRE][first : first + words], scale[UNIT][first : first + words] = 0, 1
        return cls(problem.shape, problem.categories, {name: t.to(torch.float32) for name, t in scale.items()})

    @classmethod
    def of(cls, state: Mapping[str, Tensor], problem: Problem) -> "FloatRows":
        kept = {name: state[name] for name in (CENTRE, UNIT) if name in state}
        return cls(problem.shape, problem.categories, kept)

    @property
    def numbers(self) -> Tensor:
        """(row,) bool: what is not a word."""
        found = torch.ones(math.prod(self.shape), dtype=torch.bool)
        for first, words in self.categories:
            found[first : first + words] = False
        return found

    def seen(self, x: Tensor) -> Tensor:
        """(n, row), as the networks see it."""
        flat = x.flatten(1).to(torch.float32)
        if not self.learnt:
            return flat
        unit = self.learnt[UNIT]
        return (flat - self.learnt[CENTRE]) / torch.where(unit > 0, unit, 1.0)

    def cost(self, outputs: Tensor, x: Tensor) -> Tensor:
        """−log p(x|z), averaged over the batch; ``outputs``: (n, 2, row), of the decoder."""
        middle, log_spread = outputs.unbind(1)
        each = ((x - middle) * (-log_spread).exp()).square() / 2 + log_spread + HALF_LOG_TAU
        total = (each * self.numbers.to(each)).sum(1)
        for first, words in self.categories:
            said, wanted = middle[:, first : first + words], x[:, first : first + words]
            total = total - (wanted * functional.log_softmax(said, 1)).sum(1)
        return total.mean()

    def drawn(self, outputs: Tensor, rng: torch.Generator) -> Tensor:
        """(n, …) records: every number with its spread, every category as one of its words."""
        middle, log_spread = outputs.unbind(1)
        made = middle + log_spread.exp() * torch.randn(middle.shape, generator=rng)
        for first, words in self.categories:
            made[:, first : first + words] = _one_word(middle[:, first : first + words], rng)
        if self.learnt:
            made = made * self.learnt[UNIT] + self.learnt[CENTRE]
        return made.view(-1, *self.shape)


def _one_word(logits: Tensor, rng: torch.Generator) -> Tensor:
    """(n, words) of 0 and one 1, drawn with the chances of the softmax: the largest after Gumbel noise."""
    uniform = torch.rand(logits.shape, generator=rng, dtype=torch.float64)
    chosen = (logits - (-uniform.clamp(min=1e-300).log()).log()).argmax(1)
    return functional.one_hot(chosen, logits.shape[1]).to(logits.dtype)
