"""The one training loop.

Methods differ in the pulls that act on the model and in the slope that turns a batch into a direction,
never in how batches are drawn or steps are taken.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.learning import dsa
from understudy.learning.ahead import ahead
from understudy.learning.augmentation import changed, draw_changes
from understudy.learning.local import Local
from understudy.learning.losses import per_record_loss
from understudy.learning.plan import EMPTY
from understudy.models.network import Network
from understudy.under_way import counted


@dataclass(frozen=True)
class Batch:
    x: Tensor  # raw records
    y: Tensor
    step: int
    weight: Tensor | None  # if records count unequally: one number each, 1 on average over all
    features: Tensor
    logits: Tensor  # (n, classes), or wider where a term has added outputs to the head
    rows: Tensor | None = None  # positions of its records among all training records


@dataclass(frozen=True)
class Step:
    """A batch that has not been through the network; calling it sends it through."""

    net: Network
    x: Tensor
    y: Tensor
    number: int
    weight: Tensor | None
    rows: Tensor

    def alone(self, i: int) -> "Step":
        """The step for one of its records, as if it were the only one."""
        weight = None if self.weight is None else self.weight[i : i + 1]
        return Step(self.net, self.x[i : i + 1], self.y[i : i + 1], self.number, weight, self.rows[i : i + 1])

    def __call__(self) -> Batch:
        features, logits = self.net(self.x)
        return Batch(self.x, self.y, self.number, self.weight, features, logits, self.rows)


class Pull:
    """Something other than the data that acts on a model in training."""

    def data_weight(self) -> float:
        """The factor on the loss of the data."""
        return 1.0

    def data_loss(self, net: Network, batch: Batch) -> Tensor | None:
        """(n,) losses that replace the usual ones; None: the usual ones."""
        return None

    def loss(self, net: Network, batch: Batch) -> Tensor | None:
        """An additional loss: one number per record, averaged."""
        return None

    def gradient(self, w: Tensor) -> Tensor | None:
        """A gradient in closed form, added after clipping; ``w`` is the trainable part."""
        return None

    def in_rows(self, pulls: "Sequence[Pull]") -> "RowPull | None":
        """The closed forms of several such ``pulls`` at once, one row per client; None: only one by one."""
        return None


# Takes (clients, trainable) weights and gives their gradients in closed form; if only the first clients still train, it
# gets only those.
RowPull = Callable[[Tensor], Tensor | None]


class Slope(Protocol):
    def __call__(self, net: Network, forward: Step, pulls: Sequence[Pull], /) -> None:
        """Leaves the direction of a batch in ``net.grad``."""


class Transform(Protocol):
    """A change to the records of a batch, drawn before it is applied."""

    def draw(self, records: int) -> dsa.Draw: ...


@dataclass(frozen=True)
class Trained:
    start: Tensor
    model: Tensor
    steps: int
    rate_sum: float  # over all steps
    records: int  # the client's own
    data_weight: float = 1.0  # the factor on the loss of the data


def plain(net: Network, forward: Callable[[], Batch], pulls: Sequence[Pull]) -> None:
    """The gradient of the loss at the model."""
    net.grad.zero_()
    total_loss(net, forward(), pulls).backward()  # type: ignore[no-untyped-call]


def total_loss(net: Network, batch: Batch, pulls: Sequence[Pull]) -> Tensor:
    replaced = (pull.data_loss(net, batch) for pull in pulls)
    losses = next((made for made in replaced if made is not None), None)
    if losses is None:
        losses = per_record_loss(net.problem, batch.logits, batch.y)
    loss = losses.mean() if batch.weight is None else (losses * batch.weight).mean()
    share = math.prod(pull.data_weight() for pull in pulls)
    loss = loss if share == 1 else loss * share
    for pull in pulls:
        more = pull.loss(net, batch)
        loss = loss if more is None else loss + more.mean()
    return loss


@dataclass(frozen=True)
class Feed:
    """What a model is trained on: the rows of ``plan`` are the batches."""

    examples: Examples
    plan: Tensor
    rng: torch.Generator | None = None  # for ``local.augment``; None: records as they are
    weights: Tensor | None = None  # if records count unequally: one number each
    transform: Transform | None = None  # changes the records of every batch


@dataclass(frozen=True)
class Descent:
    """How steps are taken."""

    local: Local
    rate: float | None = None  # None: ``local.lr``
    pulls: Sequence[Pull] = ()
    slope: Slope = plain
    only: slice | None = None  # the part of the vector that moves, with its own optimiser and decay
    project: Callable[[Tensor], None] | None = None  # puts that part back where it is allowed, after each step
    speed: Tensor | None = None  # momentum to continue with, in place; None: fresh


def train(
    net: Network,
    w: Tensor,
    feed: Feed,
    descent: Descent,
    *,
    records: int | None = None,
    after: Callable[[int], bool] | None = None,
) -> Trained:
    """Trains from ``w`` along the plan. ``records``: the client's own, if it is fed others as well. ``after`` is called
    with the number of steps taken; if it returns True, training stops."""
    net.load(w)
    net.training()
    local, pulls, project, speed = descent.local, descent.pulls, descent.project, descent.speed
    rate = local.lr if descent.rate is None else descent.rate
    moving = net.trainable if descent.only is None else descent.only
    here, grad, trainable = net.vector[moving], net.grad[moving], net.vector[net.trainable]
    decaying = net.matrices[moving] if local.decay_on == "weights" else None
    taken = 0
    for step, batch in enumerate(counted("training", _Batches(net, feed, local), len(feed.plan))):
        descent.slope(net, batch, pulls)
        if local.clip is not None:
            grad.mul_(torch.clamp(local.clip / (grad.norm() + 1e-12), max=1))
        for pull in pulls:
            extra = pull.gradient(trainable)
            if extra is not None:
                grad.add_(extra[moving])
        if local.weight_decay:
            grad.add_(here if decaying is None else here * decaying, alpha=local.weight_decay)
        if local.momentum:
            speed = grad.clone() if speed is None else speed.mul_(local.momentum).add_(grad)
        here.add_(speed if local.momentum and speed is not None else grad, alpha=-rate)
        if project is not None:
            project(here)
        taken = step + 1
        if after is not None and after(taken):
            break
    weight = math.prod(pull.data_weight() for pull in pulls)
    owned = len(feed.examples) if records is None else records
    return Trained(w, net.vector.clone().cpu(), taken, rate * taken, owned, weight)


def full_gradient(net: Network, w: Tensor, examples: Examples, batch: int) -> Tensor:
    """The gradient of the mean loss over all records at ``w``, in evaluation mode; on the network's device."""
    net.load(w)
    net.module.eval()
    net.grad.zero_()
    for some in net.records_there(examples).batches(batch):
        loss = per_record_loss(net.problem, net(some.x)[1], some.y).sum() / len(examples)
        loss.backward()  # type: ignore[no-untyped-call]
    net.module.train()
    return net.grad.clone()


class _Batches:
    """Rows of the plan as batches, without empty places."""

    def __init__(self, net: Network, feed: Feed, local: Local):
        plan, weights = feed.plan, feed.weights
        if net.needs_company:
            plan = plan[(plan != EMPTY).sum(1) > 1]  # a batch of one has no statistics
        self._net, self._rng, self._transform = net, feed.rng, feed.transform
        self._kinds = local.augment if feed.rng is not None else ()
        self._x, self._y = net.there(feed.examples.x), net.there(feed.examples.y)
        self._weights = None if weights is None else (weights / weights.mean()).to(net.device)
        self._present: list[int] = (plan != EMPTY).sum(1).tolist()
        self._rows = plan.clamp(min=0).to(net.device)

    def __iter__(self) -> Iterator[Step]:
        if not self._kinds and self._transform is None:
            for step, present in enumerate(self._present):
                yield self._step(step, self._rows[step][:present])
            return
        draws = (_Changes(*self._drawn(records)) for records in self._present)
        for step, (changes, sent) in enumerate(ahead(draws, _Changes.tensors, self._net.device)):
            there = self._rows[step][: self._present[step]]
            x = changed(self._x.index_select(0, there), self._kinds, sent[: len(self._kinds)])
            if changes.whole is not None:
                x = dsa.apply(replace(changes.whole, there=sent[-1]), x)
            yield self._step(step, there, x)

    def _step(self, step: int, there: Tensor, x: Tensor | None = None) -> Step:
        x = self._x.index_select(0, there) if x is None else x
        y = self._y.index_select(0, there)
        weight = None if self._weights is None else self._weights[there]
        return Step(self._net, x, y, step, weight, there)

    def _drawn(self, records: int) -> tuple[Sequence[Tensor], dsa.Draw | None]:
        single = draw_changes(records, self._kinds, self._rng) if self._rng is not None else ()
        return single, None if self._transform is None else self._transform.draw(records)


@dataclass(frozen=True)
class _Changes:
    """What is drawn for a batch."""

    single: Sequence[Tensor]  # for `augmentation`, per kind
    whole: dsa.Draw | None

    def tensors(self) -> list[Tensor]:
        return [*self.single, *([] if self.whole is None else [self.whole.u])]
