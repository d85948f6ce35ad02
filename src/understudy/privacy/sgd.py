"""DP-SGD for networks that are not classifiers: generators.

Records come by Poisson draws, the gradient of each record's own loss is clipped over all parameters together, noise is
added once, and the sum is divided by the expected number of records. Whatever else is drawn for a record (its time
step, its noise, whether it is flipped) comes from ``coins``, since a known draw would reveal who is in the batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from understudy.errors import UserError
from understudy.privacy.mechanism import NoisyMeans, heard, poisson_rows

FLOATS_AT_ONCE = 40_000_000  # of single gradients: bounds the memory of a pass

RecordLoss = Callable[..., Tensor]  # (call, *what belongs to one record) -> its loss; call(*inputs) runs the module


@dataclass(frozen=True)
class PrivateSteps:
    rate: float  # q: probability of a record in a step
    steps: int  # in total; each is charged, whether or not a record was drawn
    clip: float  # C
    noise: float  # σ, in units of C
    expected: float  # q n̄, what each sum is divided by
    sampling: torch.Generator  # all three seeded by the operating system
    noises: torch.Generator
    coins: torch.Generator

    def rows(self, records: int) -> Tensor:
        """The records in the next step; there may be none."""
        return poisson_rows(records, self.rate, self.sampling)


class PrivateGradients:
    """Private means of a module's gradients, one per step."""

    def __init__(self, module: nn.Module, private: PrivateSteps) -> None:
        self.module, self.clip = module, private.clip
        self._means = NoisyMeans(
            _zeros(module),
            clip=private.clip,
            noise=private.noise,
            expected=private.expected,
            releases=private.steps,
            rng=private.noises,
        )

    def __call__(self, loss: RecordLoss, *inputs: Tensor, at_once: int | None = None) -> Tensor:
        """Of the next step, as a vector; what is given is told at ``clipped_sum``."""
        return self._means(clipped_sum(self.module, loss, *inputs, clip=self.clip, at_once=at_once))


def fill_gradients(module: nn.Module, mean: Tensor) -> None:
    """``.grad`` of every trainable parameter, from the vector of all of them."""
    trained = list(_trained(module).values())
    for p, part in zip(trained, torch.split(mean, [p.numel() for p in trained]), strict=True):
        p.grad = part.view_as(p).clone()


def clipped_sum(
    module: nn.Module, loss: RecordLoss, *inputs: Tensor, clip: float, at_once: int | None = None
) -> Tensor:
    """Σ gᵢ·min(1, clip/‖gᵢ‖) over the gradients of ``loss``, over all trainable parameters together.

    ``inputs`` have one row per record; ``loss(call, *rows)`` gets the rows of one record without their first axis, and
    runs the module by ``call``. Modules that mix records or make their own draws are refused. ``at_once``: the most
    records in one pass, if layers hold more than gradients do.
    """
    _check(module)
    total = _zeros(module)
    rows = max(1, min(FLOATS_AT_ONCE // max(1, total.numel()), at_once or FLOATS_AT_ONCE))
    weights = {name: p.detach() for name, p in _trained(module).items()}

    def record(weights: dict[str, Tensor], *row: Tensor) -> Tensor:
        return loss(lambda *given, **named: functional_call(module, weights, given, named), *row)

    single = vmap(grad(record), in_dims=(None, *(0 for _ in inputs)))
    for piece in zip(*(torch.split(each, rows) for each in inputs), strict=True):
        if len(piece[0]):
            total += _clipped_piece(list(single(weights, *piece).values()), clip)
    return total


def _trained(module: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def _zeros(module: nn.Module) -> Tensor:
    trained = list(_trained(module).values())
    return torch.zeros(sum(p.numel() for p in trained), device=trained[0].device)


def _clipped_piece(gradients: Sequence[Tensor], clip: float) -> Tensor:
    flat = [g.flatten(1) for g in gradients]
    norm = torch.stack([g.square().sum(1) for g in flat]).sum(0).sqrt()
    factors = (clip / norm.clamp(min=torch.finfo(norm.dtype).tiny)).clamp(max=1)
    factors = torch.where(torch.isfinite(norm), factors, 0.0)
    return torch.cat([factors @ heard(g, factors) for g in flat])


def _check(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            raise UserError("generator: BatchNorm mixes the records of a batch; a private one needs GroupNorm.")
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0 and layer.training:
            raise UserError("generator: dropout is drawn for a whole batch; a private one needs dropout: 0.")
