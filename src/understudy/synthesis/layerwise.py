"""How the gradient with respect to the weights changes with the images, layer by layer, for plain chains of layers.

The aim is the gradient with respect to the images of ⟨v, ∇_w ℓ(w, x)⟩, v fixed. It equals that of ℓ's derivative along
v, so two sweeps through the layers give it, each forwards and backwards:

    forward    y                        backward   λ = ∂ℓ/∂x, and the gradient in the weights
    tangent    ẏ = d/dt y(w + tv, x)    adjoint    μ = ∂ℓ̇/∂x, which is the answer at the images

The second sweep reuses the results of the first. A double backward through torch's graph needs the same convolutions
and many more passes over memory: it has no kernel for the second derivative of GroupNorm, and pools channels-first. A
layer object lives for the two sweeps of one batch and stores what the later steps need.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

aten = torch.ops.aten
PLANE = (2, 3)


class MatchedLayer(ABC):
    """The four steps of one layer; a ``tangent`` of None means 0."""

    names: Sequence[str] = ()  # of the weights

    def __init__(self, module: nn.Module):
        self.module: Any = module
        self.gradient: list[Tensor] = []  # of the weights, once ``backward`` was called

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def backward(self, slope: Tensor, onward: bool) -> Tensor | None:
        """The slope with respect to the input, unless no earlier layer needs it."""

    @abstractmethod
    def tangent(self, moved: Tensor | None, along: Sequence[Tensor]) -> Tensor | None: ...

    @abstractmethod
    def adjoint(self, slope: Tensor) -> Tensor: ...


class Unweighted(MatchedLayer):
    """The same linear map in all four steps."""

    def backward(self, slope: Tensor, onward: bool) -> Tensor | None:
        return self._back(slope) if onward else None

    def tangent(self, moved: Tensor | None, along: Sequence[Tensor]) -> Tensor | None:
        return None if moved is None else self.forward(moved)

    def adjoint(self, slope: Tensor) -> Tensor:
        return self._back(slope)

    @abstractmethod
    def _back(self, slope: Tensor) -> Tensor: ...


class Flat(Unweighted):
    def forward(self, x: Tensor) -> Tensor:
        self.shape = x.shape
        return x.flatten(1)

    def _back(self, slope: Tensor) -> Tensor:
        back = slope.view(self.shape)
        return back.contiguous(memory_format=torch.channels_last) if back.ndim == 4 else back


class Pool(Unweighted):
    """Mean over windows."""

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        pooled: Tensor = self.module(x)
        return pooled

    def _back(self, slope: Tensor) -> Tensor:
        m = self.module
        sides = [[side, side] if isinstance(side, int) else list(side) for side in (m.kernel_size, m.stride, m.padding)]
        how = (*sides, m.ceil_mode, m.count_include_pad, m.divisor_override)
        return cast(Tensor, aten.avg_pool2d_backward(slope, self.x, *how))


class Rectified(Unweighted):
    def forward(self, x: Tensor) -> Tensor:
        self.y = x.clamp(min=0)
        return self.y

    def tangent(self, moved: Tensor | None, along: Sequence[Tensor]) -> Tensor | None:
        return None if moved is None else self._back(moved)

    def _back(self, slope: Tensor) -> Tensor:
        return cast(Tensor, aten.threshold_backward(slope, self.y, 0))


class DenseLayer(MatchedLayer):
    """y = xWᵀ + b, and μ = μ_y W + λ_y V."""

    names = ("weight", "bias")

    def forward(self, x: Tensor) -> Tensor:
        self.x, self.weight = x, self.module.weight.detach()
        return functional.linear(x, self.weight, self.module.bias.detach())

    def backward(self, slope: Tensor, onward: bool) -> Tensor | None:
        self.slope = slope
        self.gradient = [slope.T @ self.x, slope.sum(0)]
        return slope @ self.weight if onward else None

    def tangent(self, moved: Tensor | None, along: Sequence[Tensor]) -> Tensor | None:
        self.along, bias = along
        found = functional.linear(self.x, self.along, bias)
        return found if moved is None else found.addmm_(moved, self.weight.T)

    def adjoint(self, slope: Tensor) -> Tensor:
        return torch.addmm(slope @ self.weight, self.slope, self.along)


class Convolution(MatchedLayer):
    """Like DenseLayer, with convolutions instead of products."""

    names = ("weight", "bias")

    def forward(self, x: Tensor) -> Tensor:
        self.x, self.weight = x, self.module.weight.detach()
        return self._over(x, self.weight, self.module.bias.detach())

    def backward(self, slope: Tensor, onward: bool) -> Tensor | None:
        self.slope = slope
        back, weight, _ = self._backwards(slope, self.weight, [onward, True, False])
        self.gradient = [cast(Tensor, weight), slope.sum((0, *PLANE))]
        return back

    def tangent(self, moved: Tensor | None, along: Sequence[Tensor]) -> Tensor | None:
        self.along, bias = along
        found = self._over(self.x, self.along, bias)
        return found if moved is None else found.add_(self._over(moved, self.weight, None))

    def adjoint(self, slope: Tensor) -> Tensor:
        only_back = [True, False, False]
        back = cast(Tensor, self._backwards(slope, self.weight, only_back)[0])
        return back.add_(cast(Tensor, self._backwards(self.slope, self.along, only_back)[0]))

    def _over(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        m = self.module
        return torch.conv2d(x, weight, bias, m.stride, m.padding, m.dilation, m.groups)

    def _backwards(self, slope: Tensor, weight: Tensor, wanted: list[bool]) -> tuple[Tensor | None, ...]:
        m = self.module
        how = (list(m.stride), list(m.padding), list(m.dilation), False, [0, 0], m.groups)
        return cast(tuple[Tensor | None, ...], aten.convolution_backward(slope, self.x, weight, None, *how, wanted))


class ChannelNorm(MatchedLayer):
    """GroupNorm with one group per channel: y = γx̂ + β, x̂ = r(x − mean x), r = 1/√(var x + ε), over each plane.

    With means over the plane, and dr = −r² mean(x̂ dx):

        ẏ = γr(ẋ − mean ẋ − x̂ mean(x̂ẋ)) + v_γ x̂ + v_β
        λ = γr(λ_y − mean λ_y − x̂ mean(x̂λ_y))
        μ = r(c − mean c − x̂ mean(x̂c)) − r²(q(a − mean a) + p(ẋ − mean ẋ) + (t − 2pq)x̂)

    where a = γλ_y, c = γμ_y + v_γ λ_y, p = mean(x̂a), q = mean(x̂ẋ), t = mean(aẋ) − mean a · mean ẋ − pq.
    """

    names = ("weight", "bias")

    def forward(self, x: Tensor) -> Tensor:
        self.area = x.shape[2] * x.shape[3]
        away = x - _mean(x)
        self.rate = (_mean(away.square()) + self.module.eps).rsqrt()
        self.normal = away.mul_(self.rate)
        self.gamma = _across(self.module.weight.detach())
        return torch.addcmul(_across(self.module.bias.detach()), self.normal, self.gamma)

    def backward(self, slope: Tensor, onward: bool) -> Tensor | None:
        self.slope = slope
        self.slope_mean, self.slope_turn = _mean(slope), _mean(slope * self.normal)
        self.gradient = [self.slope_turn.sum(0).view(-1) * self.area, self.slope_mean.sum(0).view(-1) * self.area]
        if not onward:
            return None
        scale = self.gamma * self.rate
        return torch.addcmul(-scale * self.slope_mean, slope, scale).addcmul_(self.normal, -scale * self.slope_turn)

    def tangent(self, moved: Tensor | None, along: Sequence[Tensor]) -> Tensor | None:
        moved = torch.zeros_like(self.normal) if moved is None else moved
        self.moved, self.moved_mean, self.moved_turn = moved, _mean(moved), _mean(moved * self.normal)
        self.along, shift = (_across(part) for part in along)
        scale = self.gamma * self.rate
        found = torch.addcmul(shift - scale * self.moved_mean, moved, scale)
        return found.addcmul_(self.normal, self.along - scale * self.moved_turn)

    def adjoint(self, slope: Tensor) -> Tensor:
        r, r2, q = self.rate, self.rate.square(), self.moved_turn
        a_mean, p = self.gamma * self.slope_mean, self.gamma * self.slope_turn
        c_mean = self.gamma * _mean(slope) + self.along * self.slope_mean
        c_turn = self.gamma * _mean(slope * self.normal) + self.along * self.slope_turn
        t = self.gamma * _mean(self.slope * self.moved) - a_mean * self.moved_mean - p * q
        found = torch.addcmul(r2 * (q * a_mean + p * self.moved_mean) - r * c_mean, slope, r * self.gamma)
        found.addcmul_(self.slope, r * self.along - r2 * q * self.gamma)
        found.addcmul_(self.moved, -r2 * p)
        return found.addcmul_(self.normal, -r * c_turn - r2 * (t - 2 * p * q))


def _mean(x: Tensor) -> Tensor:
    return x.mean(PLANE, keepdim=True)


def _across(per_channel: Tensor) -> Tensor:
    return per_channel.view(1, -1, 1, 1)
