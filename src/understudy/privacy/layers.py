"""What each record adds to the gradient of one layer, from the layer's input and the gradient at its output.

Two things are needed: the squared norm of each record's share, and the sum of all shares with one factor per record.
Both come from one backward pass that never forms the ordinary gradient of a weight:

- Linear: the share is an outer product, so its norm is a product of norms, and the sum is one matrix product.
- Conv2d with few output places, many weights: the norm comes from two Gram matrices over places ("ghost norm"), the
  sum from the ordinary weight gradient of output gradients multiplied by the factors.
- Conv2d otherwise, and GroupNorm: the shares are formed; they are small, or cost no more than the sum would.
- Conv1d: a Conv2d on images of one row.
- Embedding: a record adds g_t to the row of its token a_t, so its squared norm is Σ over pairs of places with the same
  token of ⟨g_t, g_s⟩, and the sum adds rows up; no share of all tokens is ever formed.

Li et al., Large Language Models Can Be Strong Differentially Private Learners (ghost norm); Bu et al., Differentially
Private Optimization on Large Model at Small Cost (book-keeping: no second backward pass).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight

from understudy.privacy.mechanism import heard


@dataclass(frozen=True)
class Share:
    """Each record's share in the gradient of one parameter."""

    squared: Tensor  # (n,) squared norms
    total: Callable[[Tensor], Tensor]  # factors (n,) -> the weighted sum, flat, in the parameter's order
    held: int = 0  # floats per record that are kept until then


Shares = dict[str, Share]  # by the parameter's name within its layer
LayerRule = Callable[[nn.Module, Tensor, Tensor], Shares]


def formed(rows: Tensor) -> Share:
    """Shares formed in full, one row of numbers per record."""
    # Not `vector_norm`, which sums in one go: for two million numbers its fifth digit is wrong.
    return Share(rows.square().sum(1), lambda factors: factors @ _heard(rows, factors), rows.shape[1])


def _heard(rows: Tensor, factors: Tensor) -> Tensor:
    """On the CPU the sum is checked instead, which is faster; a device would have to wait for the check."""
    return rows if rows.device.type == "cpu" else heard(rows, factors)


def of_linear(_: nn.Module, a: Tensor, g: Tensor) -> Shares:
    if a.ndim > 2:  # (n, …, in): one matrix, applied at several places of a record
        a, g = a.flatten(1, -2), g.flatten(1, -2)
        return {"weight": formed(torch.bmm(g.transpose(1, 2), a).flatten(1)), "bias": formed(g.sum(1))}
    squared = g.square().sum(1)
    return {
        "weight": Share(
            a.square().sum(1) * squared,
            lambda factors: (_heard(g, factors) * factors[:, None]).T @ _heard(a, factors),
        ),
        "bias": Share(squared, lambda factors: factors @ _heard(g, factors)),
    }


def of_group_norm(layer: nn.Module, a: Tensor, g: Tensor) -> Shares:
    assert isinstance(layer, nn.GroupNorm)
    normal = functional.group_norm(a, layer.num_groups, eps=layer.eps)
    return {"weight": formed(_over_places(g * normal)), "bias": formed(_over_places(g))}


def of_convolution(layer: nn.Module, a: Tensor, g: Tensor) -> Shares:
    assert isinstance(layer, nn.Conv2d)
    weights, places = layer.weight.numel(), g[0, 0].numel()
    fan_in = weights // layer.out_channels
    # Only on the CPU: the detour needs double precision, which not every device has.
    if a.device.type == "cpu" and 4 * places * (fan_in + layer.out_channels) < weights:
        weight = _ghost(layer, a, g)
    else:
        weight = formed(torch.bmm(g.flatten(2), _patches(layer, a).transpose(1, 2)).flatten(1))
    return {"weight": weight, "bias": formed(_over_places(g))}


def of_convolution_1d(layer: nn.Module, a: Tensor, g: Tensor) -> Shares:
    assert isinstance(layer, nn.Conv1d)
    patches = functional.unfold(
        a.unsqueeze(2),
        (1, *layer.kernel_size),
        (1, *layer.dilation),
        (0, int(layer.padding[0])),
        (1, *layer.stride),
    )
    return {"weight": formed(torch.bmm(g, patches.transpose(1, 2)).flatten(1)), "bias": formed(_over_places(g))}


def of_embedding(layer: nn.Module, a: Tensor, g: Tensor) -> Shares:
    assert isinstance(layer, nn.Embedding)
    ids, slopes = a.flatten(1), g.flatten(1, -2)  # (n, places), (n, places, d)
    if layer.padding_idx is not None:
        slopes = slopes * (ids != layer.padding_idx)[..., None]
    same = ids[:, :, None] == ids[:, None, :]
    exact = slopes.double() if slopes.device.type == "cpu" else slopes  # where slopes of a token cancel
    alike = torch.bmm(exact, exact.transpose(1, 2)) * same

    def total(factors: Tensor) -> Tensor:
        weighted = (_heard(slopes, factors) * factors[:, None, None]).flatten(0, 1)
        return slopes.new_zeros(layer.weight.shape).index_add_(0, ids.flatten().to(torch.int64), weighted)

    return {"weight": Share(alike.sum((1, 2)).clamp(min=0).to(g.dtype), total, slopes[0].numel())}


def _ghost(layer: nn.Conv2d, a: Tensor, g: Tensor) -> Share:
    # In double precision: the terms are large and cancel if a norm follows the layer.
    patches, slopes = _patches(layer, a).double(), g.flatten(2).double()
    alike = torch.bmm(patches.transpose(1, 2), patches) * torch.bmm(slopes.transpose(1, 2), slopes)

    def total(factors: Tensor) -> Tensor:
        weighted = g * factors.view(-1, 1, 1, 1)
        shape, how = layer.weight.shape, (layer.stride, layer.padding, layer.dilation)
        found: Tensor = conv2d_weight(a, shape, weighted, *how)  # type: ignore[no-untyped-call]
        return found

    return Share(alike.sum((1, 2)).clamp(min=0).to(g.dtype), total)


def _patches(layer: nn.Conv2d, a: Tensor) -> Tensor:
    """(n, in · kernel, places): what each output place looks at."""
    assert not isinstance(layer.padding, str)
    return functional.unfold(a, layer.kernel_size, layer.dilation, layer.padding, layer.stride)


def _over_places(t: Tensor) -> Tensor:
    """(n, channels, …) -> (n, channels)."""
    return t.flatten(2).sum(2) if t.ndim > 2 else t


def rule_for(layer: nn.Module) -> LayerRule | None:
    """None if only the general way is known to be right; subclasses may compute something else."""
    if type(layer) is nn.Linear:
        return of_linear
    if type(layer) is nn.GroupNorm:
        return of_group_norm
    if type(layer) is nn.Conv2d:
        plain = layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return of_convolution if plain else None
    if type(layer) is nn.Conv1d:
        plain = layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return of_convolution_1d if plain else None
    if type(layer) is nn.Embedding:
        plain = layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
        return of_embedding if plain else None
    return None
