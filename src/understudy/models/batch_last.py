"""Convolution, pool of 2 and ReLU in one, for networks with few channels on a CPU.

Convolution libraries work on several channels at once; with only six, most of a vector register stays empty. Here the
records of a batch lie side by side instead: (channels, height, width, n). A pool of 2 takes the largest of four
neighbours, so a k×k kernel is written into the four corners of a (k+1)×(k+1) kernel; one matrix product with patches
two pixels apart gives all four, and the layer outputs the largest, with bias and ReLU:

    out = max(0, b + max(o₀, o₁, o₂, o₃)),    o = [w in four corners] · patches

Of equal neighbours the first gets the gradient, as in torch. Results differ from the plain layers' by rounding.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # of a pool of 2, in the order torch looks at them
_where_positive = torch.ops.aten.threshold_backward  # (g, x, 0): g where x > 0, zero elsewhere

LayerCall = Callable[[Tensor], Tensor]


def batch_last(module: nn.Module) -> nn.Module | None:
    """The same network over the same weights, with this in place of such layers; None if there are none.

    Hooks on those layers are not called, and there is no second derivative.
    """
    if type(module) is nn.Sequential:
        return _Steps.of(module)
    quicker = {name: quick for name, part in module.named_children() if (quick := batch_last(part)) is not None}
    if not quicker:
        return None
    twin = copy.copy(module)  # it shares the module's parts and weights
    twin.__dict__["_modules"] = {**module._modules, **quicker}
    return twin


class _Steps(nn.Module):
    """What a chain of layers computes, with the weights they have at the time of the call."""

    def __init__(self, steps: Sequence[LayerCall]):
        super().__init__()
        self.__dict__["steps"] = steps  # they belong to another module, so they must not be registered here

    @classmethod
    def of(cls, chain: nn.Sequential) -> "_Steps | None":
        layers, steps = _flat(chain), list[LayerCall]()
        while layers:
            together = gains(layers[:3])
            steps.append(_together(cast(nn.Conv2d, layers[0])) if together else layers[0])
            layers = layers[3 if together else 1 :]
        return cls(steps) if any(not isinstance(step, nn.Module) for step in steps) else None

    def forward(self, x: Tensor) -> Tensor:
        for step in self.__dict__["steps"]:
            x = step(x)
        return x


def gains(layers: Sequence[nn.Module]) -> bool:
    """Is this a plain convolution, a pool of 2 and a ReLU?"""
    if [type(layer) for layer in layers] != [nn.Conv2d, nn.MaxPool2d, nn.ReLU]:
        return False
    convolution, pool = cast(nn.Conv2d, layers[0]), cast(nn.MaxPool2d, layers[1])
    high, wide = convolution.kernel_size
    plain = (convolution.stride, convolution.padding, convolution.dilation) == ((1, 1), (0, 0), (1, 1))
    odd_square = high == wide and high % 2 == 1
    of_two = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode) == (2, 2, 0, 1, False)
    return plain and odd_square and of_two and convolution.groups == 1 and convolution.bias is not None


def _flat(module: nn.Module) -> list[nn.Module]:
    if type(module) is nn.Sequential:
        return [inner for layer in module for inner in _flat(layer)]
    return [module]


def _together(convolution: nn.Conv2d) -> LayerCall:
    return lambda x: cast(Tensor, _Together.apply(x, convolution.weight, convolution.bias))  # type: ignore[no-untyped-call]


class _Together(torch.autograd.Function):
    """(n, channels, height, width) -> (n, outputs, pooled height, pooled width); in memory n comes last in both."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        image = x.permute(1, 2, 3, 0).contiguous()
        wide = _into_corners(weight)
        patches, (high, across) = _patches(image, weight.shape[2] + 1)
        found = torch.mm(wide, patches).view(4, len(bias), patches.shape[1])
        upper, lower = torch.maximum(found[0], found[1]), torch.maximum(found[2], found[3])
        out = torch.maximum(upper, lower).add_(bias[:, None]).clamp_(min=0)
        ctx.save_for_backward(patches, wide, found, upper, lower, out)
        ctx.shapes = image.shape, weight.shape, (high, across)
        return out.view(len(bias), high, across, len(x)).permute(3, 0, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        patches, wide, found, upper, lower, out = ctx.saved_tensors
        image, kernel, places = ctx.shapes
        slope = _where_positive(slope.permute(1, 2, 3, 0).reshape(out.shape), out, 0)
        shares = _to_the_largest(slope, found, upper, lower).view(len(wide), out.shape[1])
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        x = weight = None
        if wants_x:
            x = _added_up(torch.mm(wide.T, shares), image, kernel[2] + 1, places).permute(3, 0, 1, 2)
        if wants_weight:
            weight = _out_of_corners(torch.mm(shares, patches.T), kernel)
        return x, weight, slope.sum(1) if wants_bias else None


def _into_corners(weight: Tensor) -> Tensor:
    """(4 · outputs, channels · (k+1)²)"""
    outputs, channels, k, _ = weight.shape
    wide = weight.new_zeros(4 * outputs * channels * (k + 1) ** 2)
    wide[_corners(weight.shape)] = weight.reshape(-1)
    return wide.view(4 * outputs, channels * (k + 1) ** 2)


def _out_of_corners(wide: Tensor, kernel: torch.Size) -> Tensor:
    return wide.view(-1)[_corners(kernel)].sum(0).view(kernel)


@functools.cache
def _corners(kernel: torch.Size) -> Tensor:
    """(4, numbers in a kernel): the position of each in the four corners."""
    outputs, channels, k, _ = kernel
    places = torch.arange(4 * outputs * channels * (k + 1) ** 2).view(4, outputs, channels, k + 1, k + 1)
    cut = [part[:, :, y : y + k, x : x + k] for part, (y, x) in zip(places, CORNERS, strict=True)]
    return torch.stack(cut).view(4, -1)


def _patches(image: Tensor, side: int) -> tuple[Tensor, tuple[int, int]]:
    """(channels · side², places · n) patches two pixels apart, and the number of places down and across."""
    channels, rows, columns, n = image.shape
    high, across = (rows - side) // 2 + 1, (columns - side) // 2 + 1
    plane, row = rows * columns * n, columns * n
    views = image.as_strided((channels, side, side, high, across, n), (plane, row, n, 2 * row, 2 * n, 1))
    return views.reshape(channels * side * side, high * across * n), (high, across)


def _added_up(patches: Tensor, image: torch.Size, side: int, places: tuple[int, int]) -> Tensor:
    """An image of ``image``'s shape, every patch added where it was taken from."""
    (channels, rows, columns, n), (high, across), half = image, places, side // 2
    squares = patches.new_zeros(channels, -(-rows // 2), 2, -(-columns // 2), 2, n)  # of 2×2 pixels
    parts = patches.view(channels, half, 2, half, 2, high, across, n)
    for down in range(half):
        for right in range(half):
            there = squares[:, down : down + high, :, right : right + across]
            there += parts[:, down, :, right].permute(0, 3, 1, 4, 2, 5)
    return squares.view(channels, 2 * squares.shape[1], 2 * squares.shape[3], n)[:, :rows, :columns]


def _to_the_largest(slope: Tensor, found: Tensor, upper: Tensor, lower: Tensor) -> Tensor:
    """(4, outputs, places · n): the gradient at a pool's output, given to the input it came from."""
    halves = slope.new_empty(2, *slope.shape)  # for the upper two, for the lower two
    _where_positive.grad_input(slope, lower - upper, 0, grad_input=halves[1])
    torch.sub(slope, halves[1], out=halves[0])
    pairs, shares = found.view(2, 2, *slope.shape), slope.new_empty(2, 2, *slope.shape)
    _where_positive.grad_input(halves, pairs[:, 1] - pairs[:, 0], 0, grad_input=shares[:, 1])
    torch.sub(halves, shares[:, 1], out=shares[:, 0])
    return shares
