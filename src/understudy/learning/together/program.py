"""The gradient of every client's loss in one pass: by rules for the layers that have one, by `vmap` for the rest."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from understudy.data.problem import Problem
from understudy.learning.losses import per_record_loss
from understudy.learning.together.layers import (
    ManyConvolution,
    ManyFlatten,
    ManyLayer,
    ManyLayout,
    ManyMaxPool,
    ManyRelu,
    Sink,
    many,
)
from understudy.models.classifier import Classifier, RawLogits
from understudy.models.network import Network
from understudy.randomness import private_global_stream

Weighted = Mapping[str, Tensor]


@dataclass(frozen=True)
class ManyBatches:
    """A batch of each client. Empty places repeat a record of the same client, and count nothing."""

    x: Tensor  # scaled; (clients, batch, …), or (batch, clients, …) for a program that wants images
    y: Tensor  # (clients, batch), or (clients, batch, classes)
    share: Tensor  # (clients, batch): how much each record counts in its client's loss


class Program(ABC):
    layout: ManyLayout = "rows"  # of the records in a batch

    @abstractmethod
    def gradients(self, blocks: Sequence[Tensor], kept: Sequence[Tensor], batch: ManyBatches, sink: Sink) -> None:
        """Hands the gradients to the sink. ``blocks``: stacked weights, (clients, …) for every trained tensor in the
        network's order; ``kept``: the same for what is not trained."""


def program_for(net: Network) -> Program | str:
    """How to train several clients of this network; a string says why that cannot be done."""
    if net.needs_company:
        return "the network has BatchNorm, whose statistics belong to one client's batches"
    if _tied(net.module):
        return "several layers of the network share weights"
    chain = chain_of(net)
    if chain is not None:
        return Chain(chain, net.problem)
    mapped = Mapped(net)
    why = mapped.why_not()
    return mapped if why is None else f"the network cannot be computed for several clients at once ({why})"


def _tied(module: nn.Module) -> bool:
    """`functional_call` would leave other weights behind in such a network."""
    return len(list(module.named_parameters(remove_duplicate=False))) > len(list(module.parameters()))


# ---- by rules


class Chain(Program):
    def __init__(self, layers: Sequence[ManyLayer], problem: Problem):
        self._layers, self._problem = layers, problem
        self.layout = "images" if any(layer.wants == "images" for layer in layers) else "rows"
        self._first = next(at for at, layer in enumerate(layers) if layer.has_weights)

    def gradients(self, blocks: Sequence[Tensor], kept: Sequence[Tensor], batch: ManyBatches, sink: Sink) -> None:
        x, stored = self._laid_out(batch.x), []
        for layer in self._layers:
            x, needed = layer.forward(x, blocks)
            stored.append(needed)
        slope: Tensor | None = self._slope(x, batch)
        for at in reversed(range(self._first, len(stored))):  # nothing is learnt before the first weights
            assert slope is not None
            slope = self._layers[at].backward(slope, stored[at], blocks, sink, at > self._first)

    def _laid_out(self, x: Tensor) -> Tensor:
        # Not `contiguous`: one channel counts as both layouts, and the first convolution must see the right one.
        return x.flatten(1, 2).to(memory_format=torch.channels_last) if self.layout == "images" else x

    def _slope(self, logits: Tensor, batch: ManyBatches) -> Tensor:
        """Of the loss at the logits, (clients, batch, outputs)."""
        if self._problem.multilabel:
            return logits.sigmoid().sub_(batch.y).mul_(batch.share.unsqueeze(2) / logits.shape[2])
        slope = logits.softmax(2)
        slope.scatter_add_(2, batch.y.unsqueeze(2), slope.new_full((), -1.0).expand(*batch.y.shape, 1))
        return slope.mul_(batch.share.unsqueeze(2))


def chain_of(net: Network) -> list[ManyLayer] | None:
    """Its layers one after another, if there is a rule for each; None otherwise."""
    body = net.module.body if type(net.module) is Classifier else net.module.features
    if not isinstance(body, nn.Module) or net.size > net.parameters or _hooked(net.module):
        return None
    plain = [*_flat(body), *_flat(cast(nn.Module, net.module.head))]
    owners = [p for layer in plain for p in layer.parameters(recurse=False)]
    places = {id(p): at for at, p in enumerate(net.trained.values())}
    if sorted(map(id, owners)) != sorted(places):
        return None  # a parameter outside these layers
    layers = [many(layer, places) for layer in plain]
    if any(layer is None for layer in layers):
        return None
    return _fitted(_quicker(cast(list[ManyLayer], layers)), net.problem)


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    if type(module) is nn.Sequential:
        for inner in module:
            yield from _flat(inner)
    elif type(module) is not nn.Identity:
        yield module


def _hooked(module: nn.Module) -> bool:
    """Whether somebody listens in, or changes what a layer does."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(layer, name) for layer in module.modules() for name in hooks)


def _fitted(layers: list[ManyLayer], problem: Problem) -> list[ManyLayer] | None:
    """With a layout in which every layer can work; None: there is none."""
    images = any(layer.wants == "images" for layer in layers)
    layout: ManyLayout = "images" if images else "rows"
    if images and len(problem.shape) != 3:
        return None
    flat = len(problem.shape) == 1
    found: list[ManyLayer] = []
    for layer in layers:
        if (layer.wants is not None and layer.wants != layout) or (layer.wants == "rows" and not flat):
            return None
        flat = flat or isinstance(layer, ManyFlatten)
        found.append(replace(layer, images=layout == "images") if isinstance(layer, ManyFlatten) else layer)
        layout = layer.gives(layout)
    return found if layout == "rows" and flat else None


def _quicker(layers: list[ManyLayer]) -> list[ManyLayer]:
    """The same function with less work: the largest of four is the same before and after a ReLU, and a convolution
    need not compute what the pool behind it drops."""
    found = list(layers)
    for at in range(len(found) - 1):
        if isinstance(found[at], ManyRelu) and isinstance(found[at + 1], ManyMaxPool):
            found[at], found[at + 1] = found[at + 1], found[at]
    for at, (layer, after) in enumerate(itertools.pairwise(list(found))):
        if isinstance(layer, ManyConvolution) and isinstance(after, ManyMaxPool) and _drops(layer, after):
            found[at] = replace(layer, unread=after.window[0])
    return found


def _drops(convolution: ManyConvolution, pool: ManyMaxPool) -> bool:
    kernel, stride, padding, dilation, ceil = pool.window
    plain = (convolution.stride, convolution.padding, convolution.dilation) == ((1, 1), (0, 0), (1, 1))
    return plain and kernel == stride and (padding, dilation, ceil) == ((0, 0), (1, 1), False)


# ---- by vmap


class Mapped(Program):
    """`torch.func.vmap` over the network as a function of its weights."""

    def __init__(self, net: Network):
        self._net, self._whole = net, RawLogits(net.module, net.problem)
        self._trained = [f"module.{name}" for name in net.trained]
        self._kept = [f"module.{name}" for name in net.windows if name not in net.trained]

    def gradients(self, blocks: Sequence[Tensor], kept: Sequence[Tensor], batch: ManyBatches, sink: Sink) -> None:
        trained = dict(zip(self._trained, blocks, strict=True))
        held = dict(zip(self._kept, kept, strict=True))
        self._whole.train()
        found = vmap(grad(self._loss), randomness="error")(trained, held, batch.x, batch.y, batch.share)
        for at, name in enumerate(self._trained):
            sink.whole(at, found[name])

    def _loss(
        self, trained: Mapping[str, Tensor], held: Mapping[str, Tensor], x: Tensor, y: Tensor, share: Tensor
    ) -> Any:
        logits = functional_call(self._whole, {**trained, **held}, (x,))
        return (per_record_loss(self._net.problem, logits, y) * share).sum()

    def why_not(self) -> str | None:
        """Tries it on blank records of two clients. Randomness, buffers that change and Python that looks at numbers
        all fail here, and so does anything that torch cannot map."""
        net, problem = self._net, self._net.problem
        before = [buffer.clone() for buffer in net.module.buffers()]
        blocks = [torch.stack([p.detach()] * 2) for p in net.trained.values()]
        kept = [net.vector[where].view(shape).expand(2, *shape).clone() for where, shape in self._windows()]
        labels = torch.zeros(2, 2, problem.classes) if problem.multilabel else torch.zeros(2, 2, dtype=torch.int64)
        share = torch.full((2, 2), 0.5, device=net.device)
        blank = ManyBatches(torch.zeros(2, 2, *problem.shape, device=net.device), labels.to(net.device), share)
        held = [tensor.clone() for tensor in kept]
        try:
            with private_global_stream("together"):
                self.gradients(blocks, kept, blank, _Nowhere())
        except Exception as error:  # a user's own network may raise anything
            return (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
        changed = [*zip(before, net.module.buffers(), strict=True), *zip(held, kept, strict=True)]
        return None if all(torch.equal(a, b) for a, b in changed) else "it changes its buffers in training"

    def _windows(self) -> list[tuple[slice, torch.Size]]:
        return [window for name, window in self._net.windows.items() if name not in self._net.trained]


class _Nowhere(Sink):
    def product(self, at: int, slope: Tensor, x: Tensor) -> None: ...

    def whole(self, at: int, gradient: Tensor) -> None: ...
