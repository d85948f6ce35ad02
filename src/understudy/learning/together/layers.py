"""Layers of several clients at once, by rule: forward and backward for weights that are stacked, one row per client.

Records come in one of two layouts. ``rows`` are (clients, batch, numbers). ``images`` are (batch, clients · channels,
height, width), channels last in memory: a convolution over them has one group of channels per client, and pools and
norms treat these like any other channels. Measured against patches and a batched product for 3×3 kernels of 16 and 32
channels on one thread, such a convolution takes two thirds of the time.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

ManyLayout = Literal["rows", "images"]
_aten = torch.ops.aten


class Sink(ABC):
    """Takes gradients, one block of stacked parameters at a time."""

    @abstractmethod
    def product(self, at: int, slope: Tensor, x: Tensor) -> None:
        """slopeᵀ · x for each client is the gradient of block ``at``."""

    @abstractmethod
    def whole(self, at: int, gradient: Tensor) -> None: ...


class ManyLayer(ABC):
    """One layer of the network for all clients; ``blocks`` hold the stacked weights of the whole network."""

    wants: ManyLayout | None = None  # None: either
    has_weights = False

    def gives(self, layout: ManyLayout) -> ManyLayout:
        return layout

    @abstractmethod
    def forward(self, x: Tensor, blocks: Sequence[Tensor]) -> tuple[Tensor, Any]:
        """The output, and what `backward` will need."""

    @abstractmethod
    def backward(self, slope: Tensor, kept: Any, blocks: Sequence[Tensor], sink: Sink, deeper: bool) -> Tensor | None:
        """Hands gradients to the sink; returns the slope at the input if there is something ``deeper``. The sink may
        move the weights at once, so a layer uses its own before it hands over their gradient."""


@dataclass(frozen=True)
class ManyFlatten(ManyLayer):
    images: bool = False  # what comes in

    def gives(self, layout: ManyLayout) -> ManyLayout:
        return "rows"

    def forward(self, x: Tensor, blocks: Sequence[Tensor]) -> tuple[Tensor, Any]:
        if not self.images:
            return x.flatten(2), None
        apart = x.view(len(x), len(blocks[0]), -1, *x.shape[2:]).transpose(
            0, 1
        )  # (clients, batch, channels, height, width)
        return apart.flatten(2), apart.shape

    def backward(self, slope: Tensor, kept: Any, blocks: Sequence[Tensor], sink: Sink, deeper: bool) -> Tensor | None:
        if not deeper or kept is None:
            return slope
        images = slope.view(kept).transpose(0, 1).flatten(1, 2)
        return images.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class ManyLinear(ManyLayer):
    weight: int  # which block
    bias: int | None
    wants = "rows"
    has_weights = True

    def forward(self, x: Tensor, blocks: Sequence[Tensor]) -> tuple[Tensor, Any]:
        turned = blocks[self.weight].transpose(1, 2)
        if self.bias is None:
            return torch.bmm(x, turned), x
        return torch.baddbmm(blocks[self.bias].unsqueeze(1), x, turned), x

    def backward(self, slope: Tensor, kept: Any, blocks: Sequence[Tensor], sink: Sink, deeper: bool) -> Tensor | None:
        below = torch.bmm(slope, blocks[self.weight]) if deeper else None
        sink.product(self.weight, slope, kept)
        if self.bias is not None:
            sink.whole(self.bias, slope.sum(1))
        return below


@dataclass(frozen=True)
class ManyRelu(ManyLayer):
    def forward(self, x: Tensor, blocks: Sequence[Tensor]) -> tuple[Tensor, Any]:
        out = x.relu_()  # no layer here needs its own output again
        return out, out

    def backward(self, slope: Tensor, kept: Any, blocks: Sequence[Tensor], sink: Sink, deeper: bool) -> Tensor | None:
        return cast(Tensor, _aten.threshold_backward(slope, kept, 0)) if deeper else None


@dataclass(frozen=True)
class ManyConvolution(ManyLayer):
    weight: int
    bias: int | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    unread: tuple[int, int] = (1, 1)  # rows and columns of the output are read in multiples of these
    wants = "images"
    has_weights = True

    def forward(self, x: Tensor, blocks: Sequence[Tensor]) -> tuple[Tensor, Any]:
        x, full = self._read(x, blocks), x.shape
        weight = blocks[self.weight].flatten(0, 1)
        bias = None if self.bias is None else blocks[self.bias].flatten()
        return functional.conv2d(x, weight, bias, *self._steps(), len(blocks[0]) * self.groups), (x, full)

    def backward(self, slope: Tensor, kept: Any, blocks: Sequence[Tensor], sink: Sink, deeper: bool) -> Tensor | None:
        (x, full), weight = kept, blocks[self.weight].flatten(0, 1)
        size, many = None if self.bias is None else [len(weight)], len(blocks[0])
        mask, steps = [deeper, True, self.bias is not None], self._steps()
        below, of_weight, of_bias = _aten.convolution_backward(
            slope, x, weight, size, *steps, False, (0, 0), many * self.groups, mask
        )
        sink.whole(self.weight, of_weight.view_as(blocks[self.weight]))
        if self.bias is not None:
            sink.whole(self.bias, of_bias.view_as(blocks[self.bias]))
        return _padded(below, full) if deeper else None

    def _steps(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        return self.stride, self.padding, self.dilation

    def _read(self, x: Tensor, blocks: Sequence[Tensor]) -> Tensor:
        """Without the last rows and columns, if the pool that follows drops what comes from them."""
        if self.unread == (1, 1):
            return x
        kernel = blocks[self.weight].shape[-2:]
        sizes = zip(x.shape[-2:], kernel, self.unread, strict=True)
        high, wide = (size - (size - side + 1) % by for size, side, by in sizes)
        if (high, wide) == tuple(x.shape[-2:]):
            return x
        return x[..., :high, :wide].contiguous(memory_format=torch.channels_last)


def _padded(x: Tensor, full: torch.Size) -> Tensor:
    missing = full[-2] - x.shape[-2], full[-1] - x.shape[-1]
    return functional.pad(x, (0, missing[1], 0, missing[0])) if any(missing) else x


@dataclass(frozen=True)
class ManyMaxPool(ManyLayer):
    window: tuple[Any, Any, Any, Any, bool]  # kernel, stride, padding, dilation, ceil_mode
    wants = "images"

    def forward(self, x: Tensor, blocks: Sequence[Tensor]) -> tuple[Tensor, Any]:
        out, where = _aten.max_pool2d_with_indices(x, *self.window)
        return out, (x, where)

    def backward(self, slope: Tensor, kept: Any, blocks: Sequence[Tensor], sink: Sink, deeper: bool) -> Tensor | None:
        x, where = kept
        return cast(Tensor, _aten.max_pool2d_with_indices_backward(slope, x, *self.window, where)) if deeper else None


@dataclass(frozen=True)
class ManyMeanPool(ManyLayer):
    window: tuple[Any, Any, Any, bool, bool]  # kernel, stride, padding, ceil_mode, count_include_pad
    wants = "images"

    def forward(self, x: Tensor, blocks: Sequence[Tensor]) -> tuple[Tensor, Any]:
        return _aten.avg_pool2d(x, *self.window, None), x

    def backward(self, slope: Tensor, kept: Any, blocks: Sequence[Tensor], sink: Sink, deeper: bool) -> Tensor | None:
        return cast(Tensor, _aten.avg_pool2d_backward(slope, kept, *self.window, None)) if deeper else None


@dataclass(frozen=True)
class ManyNorm(ManyLayer):
    """GroupNorm: the clients' groups side by side."""

    weight: int
    bias: int
    groups: int
    eps: float
    wants = "images"
    has_weights = True

    def forward(self, x: Tensor, blocks: Sequence[Tensor]) -> tuple[Tensor, Any]:
        x = x.contiguous(memory_format=torch.channels_last)  # the backward pass reads both in one layout
        weight, bias = blocks[self.weight].flatten(), blocks[self.bias].flatten()
        shape = len(x), x.shape[1], x.shape[2] * x.shape[3], len(blocks[0]) * self.groups
        out, mean, unit = _aten.native_group_norm(x, weight, bias, *shape, self.eps)
        return out, (x, mean, unit, shape)

    def backward(self, slope: Tensor, kept: Any, blocks: Sequence[Tensor], sink: Sink, deeper: bool) -> Tensor | None:
        x, mean, unit, shape = kept
        weight = blocks[self.weight].flatten()
        slope = slope.contiguous(memory_format=torch.channels_last)
        below, of_weight, of_bias = _aten.native_group_norm_backward(
            slope, x, mean, unit, weight, *shape, [True, True, True]
        )
        sink.whole(self.weight, of_weight.view_as(blocks[self.weight]))
        sink.whole(self.bias, of_bias.view_as(blocks[self.bias]))
        return cast(Tensor, below)


def many(layer: nn.Module, places: dict[int, int]) -> ManyLayer | None:
    """The rule for a layer; None: there is none. ``places`` tells which block a parameter is, by its id."""
    kind = type(layer)
    if kind is nn.Flatten and cast(Any, (layer.start_dim, layer.end_dim)) == (1, -1):
        return ManyFlatten()
    if kind is nn.ReLU:
        return ManyRelu()
    if kind is nn.Linear:
        return ManyLinear(*_places(layer, places))
    if kind is nn.Conv2d and layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
        steps = cast(Any, (layer.stride, layer.padding, layer.dilation, layer.groups))
        return ManyConvolution(*_places(layer, places), *steps)
    if kind is nn.GroupNorm and layer.affine:
        weight, bias = _places(layer, places)
        return ManyNorm(weight, cast(int, bias), cast(int, layer.num_groups), cast(float, layer.eps))
    if kind is nn.MaxPool2d and not layer.return_indices:
        return ManyMaxPool(_window(layer, "kernel_size", "stride", "padding", "dilation", "ceil_mode"))
    if kind is nn.AvgPool2d and layer.divisor_override is None:
        return ManyMeanPool(_window(layer, "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"))
    return None


def _window(layer: nn.Module, *names: str) -> Any:
    """A pool's numbers, each for height and width."""
    values = (getattr(layer, name) for name in names)
    return tuple(value if isinstance(value, bool | tuple) else (value, value) for value in values)


def _places(layer: nn.Module, places: dict[int, int]) -> tuple[int, int | None]:
    bias = cast(Tensor | None, layer.bias)
    return places[id(layer.weight)], None if bias is None else places[id(bias)]
