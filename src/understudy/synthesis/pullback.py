"""The gradient with respect to the weights as a function of the images, and its pullback.

``weight_gradient`` gives g = ∇_w mean ℓ(w, x) as a flat vector and a function v ↦ ∇_x ⟨v, g(x)⟩, from which any
function of g, such as a distance to a real gradient, gets its gradient with respect to the images. Networks that are a
plain chain of known layers go layer by layer (``layerwise``), a few images at a time; all others use torch's double
backward.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from understudy.learning.losses import per_record_loss
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.synthesis.layerwise import ChannelNorm, Convolution, DenseLayer, Flat, MatchedLayer, Pool, Rectified

NUMBERS_AT_ONCE = 32_768  # of the images per sweep; more would not fit in the cache

Pullback = Callable[[Tensor], Tensor]
KINDS: dict[type[nn.Module], type[MatchedLayer]] = {
    nn.Conv2d: Convolution,
    nn.GroupNorm: ChannelNorm,
    nn.ReLU: Rectified,
    nn.AvgPool2d: Pool,
    nn.Flatten: Flat,
    nn.Linear: DenseLayer,
}


def weight_gradient(net: Network, x: Tensor, y: Tensor) -> tuple[Tensor, Pullback]:
    """At ``net.vector``, of the mean loss over the scaled records ``x``; the pullback may be used once."""
    chain = chain_of(net)
    return through_the_graph(net, x, y) if chain is None else layer_by_layer(net, chain, x, y)


def through_the_graph(net: Network, x: Tensor, y: Tensor) -> tuple[Tensor, Pullback]:
    """Not through ``net(x)``: compiled code cannot be differentiated twice."""
    x = x.detach().requires_grad_()
    module = net.module
    logits = module.head(module.features(x))  # type: ignore[operator]
    found = torch.autograd.grad(_loss(net, logits, y, len(y)), list(net.trained.values()), create_graph=True)
    flat = torch.cat([part.flatten() for part in found])
    return flat.detach(), lambda along: torch.autograd.grad(flat, x, along)[0]


def layer_by_layer(net: Network, chain: Sequence["ChainLink"], x: Tensor, y: Tensor) -> tuple[Tensor, Pullback]:
    at_once = max(1, NUMBERS_AT_ONCE // x[0].numel())
    total = torch.zeros_like(net.grad)
    parts = zip(torch.split(x, at_once), torch.split(y, at_once), strict=True)
    sweeps = [_Sweep(net, chain, images, labels, len(y)) for images, labels in parts]
    for sweep in sweeps:
        sweep.add_to(total)
    return total, lambda along: torch.cat([sweep.pull(along) for sweep in sweeps])


@dataclass(frozen=True)
class ChainLink:
    """A layer of a chain, and where its weights are in the flat vector."""

    module: nn.Module
    windows: tuple[tuple[slice, torch.Size], ...]


def chain_of(net: Network) -> list[ChainLink] | None:
    """The layers of the network in order, or None if it is not a chain of known ones."""
    if type(net.module) is not Classifier or len(net.problem.shape) not in (1, 3):
        return None
    named = [*_flattened("body", net.module.body), *_flattened("head", net.module.head)]
    if not all(_is_known(module) for _, module in named):
        return None
    if sum(len(KINDS[type(module)].names) for _, module in named) != len(net.trained):
        return None  # a frozen or shared weight
    return [
        ChainLink(module, tuple(net.windows[f"{name}.{part}"] for part in KINDS[type(module)].names))
        for name, module in named
    ]


class _Sweep:
    """A few records, forwards and backwards twice."""

    def __init__(self, net: Network, chain: Sequence[ChainLink], x: Tensor, y: Tensor, records: int):
        self._chain, self._layers = chain, [KINDS[type(link.module)](link.module) for link in chain]
        x = x.detach()
        with torch.no_grad():
            x = x.to(memory_format=torch.channels_last) if x.ndim == 4 else x
            for layer in self._layers:
                x = layer.forward(x)
        self._logits = x.requires_grad_()
        loss = _loss(net, self._logits, y, records)
        (self._slope,) = torch.autograd.grad(loss, self._logits, create_graph=True)
        first = next(i for i, link in enumerate(chain) if link.windows)
        with torch.no_grad():
            slope: Tensor | None = self._slope.detach()
            for i in reversed(range(first, len(chain))):
                slope = self._layers[i].backward(cast(Tensor, slope), i > first)

    def add_to(self, total: Tensor) -> None:
        for link, layer in zip(self._chain, self._layers, strict=True):
            for (where, shape), found in zip(link.windows, layer.gradient, strict=True):
                total[where].view(shape).add_(found)

    def pull(self, along: Tensor) -> Tensor:
        moved: Tensor | None = None
        with torch.no_grad():
            for link, layer in zip(self._chain, self._layers, strict=True):
                moved = layer.tangent(moved, [along[where].view(shape) for where, shape in link.windows])
        (slope,) = torch.autograd.grad(self._slope, self._logits, moved)
        with torch.no_grad():
            while self._layers:  # frees what a layer stored once it is done
                slope = self._layers.pop().adjoint(slope)
        return slope


def _loss(net: Network, logits: Tensor, y: Tensor, records: int) -> Tensor:
    return per_record_loss(net.problem, logits, y).sum() / records


def _flattened(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    if type(module) is not nn.Sequential:
        yield name, module
        return
    for child, inner in module.named_children():
        yield from _flattened(f"{name}.{child}", inner)


def _is_known(module: nn.Module) -> bool:
    if type(module) is nn.Conv2d:
        return module.padding_mode == "zeros" and not isinstance(module.padding, str) and module.bias is not None
    if type(module) is nn.GroupNorm:
        return module.affine and module.num_groups == module.num_channels
    if type(module) is nn.Linear:
        return module.bias is not None
    if type(module) is nn.Flatten:
        return (module.start_dim, module.end_dim) == (1, -1)
    return type(module) in KINDS
