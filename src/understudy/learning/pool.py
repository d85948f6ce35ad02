"""Learning from a pool of records, mostly synthetic ones, that stand in for those of all clients.

It is the one training loop with an order drawn anew each epoch, augmentation of whole batches, and, where the pool is
trusted only near the first model, a stop at that distance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.learning import dsa
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, Trained, Transform, train
from understudy.learning.plan import EMPTY, passes, steps_of_epochs
from understudy.models.network import Network

Watch = Callable[[int, float], None]  # epochs done, distance from the start; the network holds the model


@dataclass(frozen=True)
class Siamese:
    """One draw for all images of a batch, and a new one for each batch."""

    kinds: Sequence[dsa.DsaKind]
    rng: torch.Generator

    def draw(self, records: int) -> dsa.Draw:
        return dsa.draw(self.kinds, self.rng)


class PerImage(Siamese):
    """One kind per batch, with parameters for each image."""

    def draw(self, records: int) -> dsa.Draw:
        return dsa.draw(self.kinds, self.rng, images=records)


@dataclass(frozen=True)
class PoolFeed:
    """Records as the network takes them, in an order drawn anew each epoch."""

    examples: Examples
    order: torch.Generator
    rng: torch.Generator | None = None  # for ``local.augment``
    weights: Tensor | None = None  # see `record_weights`
    augment: Transform | None = None


@dataclass(frozen=True)
class Trust:
    """How far a model may go from its start: training ends after the first epoch with ‖w − start‖ ≥ ``radius``, whose
    last steps may lie outside. ``strict`` checks after every step, for which a device has to wait, and undoes the one
    that leaves the ball."""

    radius: float | None = None  # None: anywhere
    strict: bool = False


ANYWHERE = Trust()


def learn_from_pool(
    net: Network, w: Tensor, pool: PoolFeed, descent: Descent, trust: Trust = ANYWHERE, watch: Watch | None = None
) -> Trained:
    """Trains from ``w`` on the records of ``pool``, for as long as set; ``watch`` is called after each epoch."""
    local, records = descent.local, len(pool.examples)
    plan = passes(records, local.step_count(records), local.batch, pool.order, drop_last=local.drop_last)
    bounds = _Bounds(net, w, _steps_an_epoch(net, plan, records, local), trust, watch)
    feed = Feed(pool.examples, plan, pool.rng, pool.weights, pool.augment)
    return train(net, w, feed, descent, after=bounds.after)


def record_weights(sizes: Sequence[int], shares: Sequence[float]) -> Tensor:
    """One number per record of the pool, such that the loss is Σ_k share_k · mean over party k's records.

    Only ratios matter: the training loop scales the mean to 1.
    """
    counts = torch.tensor(sizes)
    return (torch.tensor(shares, dtype=torch.float32) / counts.clamp(min=1)).repeat_interleave(counts)


def _steps_an_epoch(net: Network, plan: Tensor, records: int, local: Local) -> int:
    """As the loop counts them: it skips a batch of one if that has no statistics."""
    rows = plan[: steps_of_epochs(records, 1, local.batch, drop_last=local.drop_last)]
    return int(((rows != EMPTY).sum(1) > (1 if net.needs_company else 0)).sum())


class _Bounds:
    """Checks the model after steps and epochs, and tells training when to stop."""

    def __init__(self, net: Network, w: Tensor, steps: int, trust: Trust, watch: Watch | None):
        self._net, self._steps, self._radius, self._watch = net, steps, trust.radius, watch
        self._centre = w[net.trainable].to(net.device)
        self._inside = w.to(net.device).clone() if trust.strict and trust.radius is not None else None

    def after(self, taken: int) -> bool:
        ended = taken % self._steps == 0
        if self._inside is not None and self._radius is not None:
            if self._distance() > self._radius:
                self._net.vector.copy_(self._inside)
                return True
            self._inside.copy_(self._net.vector)
        if not ended or (self._watch is None and self._radius is None):
            return False
        distance = self._distance()
        if self._watch is not None:
            self._watch(taken // self._steps, distance)
        return self._radius is not None and distance >= self._radius

    def _distance(self) -> float:
        return float((self._net.vector[self._net.trainable] - self._centre).norm())
