"""``train_together``: `learning.loop.train` for several clients at once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.learning.loop import Descent, RowPull, Trained, plain, train
from understudy.learning.together.layers import Sink
from understudy.learning.together.program import ManyBatches, Program
from understudy.learning.together.stacking import Batches, Exercise, StackedWeights
from understudy.models.network import Network

Blocks = list[Tensor]


def train_alone(net: Network, exercise: Exercise) -> Trained:
    """The slow, obvious version."""
    return train(net, exercise.w, exercise.feed, exercise.descent, records=exercise.records)


def train_together(net: Network, program: Program, exercises: Sequence[Exercise]) -> list[Trained]:
    """What `train_alone` gives for each of them, up to rounding."""
    check_alike(exercises)
    order = sorted(range(len(exercises)), key=lambda at: -exercises[at].steps)
    longest_first = [exercises[at] for at in order]
    weights = StackedWeights(net, [exercise.w for exercise in longest_first])
    steps = _StackedSteps(weights, longest_first)
    with torch.no_grad():
        for batch in Batches(net, longest_first, program.layout) if longest_first[0].steps else ():
            steps.take(program, batch)
    models = weights.rows()
    found: dict[int, Trained] = {}
    for row, at in enumerate(order):
        one = exercises[at]
        found[at] = Trained(one.w, models[row], one.steps, steps.rate * one.steps, one.records)
    return [found[at] for at in range(len(exercises))]


def check_alike(exercises: Sequence[Exercise]) -> None:
    """A program does one thing: what differs between its clients must be in their rows."""
    first = exercises[0].descent
    for exercise in exercises:
        feed, descent = exercise.feed, exercise.descent
        usual = descent.slope is plain and (descent.only, descent.project, descent.speed) == (None, None, None)
        bare = feed.weights is None and feed.transform is None
        alike = (descent.local, descent.rate, len(descent.pulls)) == (first.local, first.rate, len(first.pulls))
        if not (usual and bare and alike and (feed.rng is None) == (exercises[0].feed.rng is None)):
            raise UserError("These clients do not train alike, so they cannot be trained together.")


class _StackedSteps:
    """The optimiser of `learning.loop`, for every client in its row. Those that have finished do not move."""

    def __init__(self, weights: StackedWeights, exercises: Sequence[Exercise]):
        descent = exercises[0].descent
        self.local: Local = descent.local
        self.rate = descent.local.lr if descent.rate is None else descent.rate
        self._weights = weights
        self._pulls = [_stacked(at, [one.descent for one in exercises]) for at in range(len(descent.pulls))]
        self._speeds: Blocks | None = None
        local = self.local
        self._plain = not (self._pulls or local.clip is not None or local.weight_decay or local.momentum)

    def take(self, program: Program, batch: ManyBatches) -> None:
        active = len(batch.share)
        blocks = [block[:active] for block in self._weights.blocks]
        kept = [block[:active] for block in self._weights.kept]
        if self._plain:
            program.gradients(blocks, kept, batch, _Downhill(blocks, self.rate))
            return
        gradients = _Collected(len(blocks))
        program.gradients(blocks, kept, batch, gradients)
        self._step(blocks, gradients.blocks)

    def _step(self, blocks: Blocks, gradients: Blocks) -> None:
        local, active = self.local, len(blocks[0])
        if local.clip is not None:
            norm = torch.stack([grad.reshape(active, -1).square().sum(1) for grad in gradients]).sum(0).sqrt()
            shorter = torch.clamp(local.clip / (norm + 1e-12), max=1)
            for grad in gradients:
                grad.mul_(shorter.view(-1, *[1] * (grad.ndim - 1)))
        if self._pulls:
            self._add_pulls(gradients, torch.cat([block.reshape(active, -1) for block in blocks], 1))
        for block, grad in zip(blocks, gradients, strict=True):
            if local.weight_decay and (local.decay_on == "all" or block.ndim > 2):
                grad.add_(block, alpha=local.weight_decay)
        if local.momentum:
            gradients = self._with_momentum(gradients, active)
        for block, grad in zip(blocks, gradients, strict=True):
            block.add_(grad, alpha=-self.rate)

    def _with_momentum(self, gradients: Blocks, active: int) -> Blocks:
        if self._speeds is None:
            self._speeds = [grad.clone() for grad in gradients]
            return self._speeds
        speeds = [speed[:active] for speed in self._speeds]
        for speed, grad in zip(speeds, gradients, strict=True):
            speed.mul_(self.local.momentum).add_(grad)
        return speeds

    def _add_pulls(self, gradients: Blocks, w: Tensor) -> None:
        """``w``: (clients, trainable)"""
        sizes = [grad[0].numel() for grad in gradients]
        for pull in self._pulls:
            extra = pull(w)
            if extra is not None:
                for grad, piece in zip(gradients, torch.split(extra, sizes, 1), strict=True):
                    grad.add_(piece.reshape(grad.shape))


def _stacked(at: int, descents: Sequence[Descent]) -> RowPull:
    pulls = [descent.pulls[at] for descent in descents]
    rows = pulls[0].in_rows(pulls)
    if rows is None:
        raise UserError("A pull on these clients' models cannot be computed for several of them at once.")
    return rows


class _Downhill(Sink):
    """Plain SGD: takes the step at once, so no gradient of a linear layer is ever written down."""

    def __init__(self, blocks: Blocks, rate: float):
        self._blocks, self._rate = blocks, rate

    def product(self, at: int, slope: Tensor, x: Tensor) -> None:
        self._blocks[at].baddbmm_(slope.transpose(1, 2), x, alpha=-self._rate)

    def whole(self, at: int, gradient: Tensor) -> None:
        self._blocks[at].add_(gradient, alpha=-self._rate)


class _Collected(Sink):
    def __init__(self, blocks: int):
        self.blocks: Blocks = [torch.empty(0)] * blocks

    def product(self, at: int, slope: Tensor, x: Tensor) -> None:
        self.blocks[at] = torch.bmm(slope.transpose(1, 2), x)

    def whole(self, at: int, gradient: Tensor) -> None:
        self.blocks[at] = gradient
