"""Gradients of single records, each clipped over all trainable parameters together, and summed.

One forward pass, one backward pass to the layers' outputs, then the rules of `privacy.layers`. For networks marked as
compiled all of that is compiled, a few records at a time. Networks with other layers, or whose layers are not called
exactly once each, go through ``torch.func``, which is slower and correct for every network that treats each record
separately.
"""

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from understudy.errors import UserError
from understudy.learning.loop import Pull, Step, plain
from understudy.learning.losses import per_record_loss
from understudy.models.classifier import RawLogits
from understudy.models.network import PASS_PIXELS, Network
from understudy.privacy.layers import LayerRule, Share, rule_for
from understudy.privacy.mechanism import heard
from understudy.randomness import private_global_stream

FLOATS_AT_ONCE = 40_000_000  # of layers' inputs and outputs, or of single gradients: bounds the memory of a pass
CLOSE = 0.02  # more than a ReLU on the other side of its kink explains: the network does something unforeseen


class Way(Protocol):
    def __call__(self, net: Network, x: Tensor, y: Tensor, clip: Tensor) -> Tensor:
        """The sum of gradients, each clipped to its record's number in ``clip``. Keeps no reference to ``net``."""


_chosen: WeakKeyDictionary[Network, Way] = WeakKeyDictionary()


def clipped_gradient_sum(net: Network, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Σ gᵢ·min(1, clip/‖gᵢ‖) over the records, at the network's weights, in the layout of ``net.grad``.

    The norm is over all trainable parameters together. No records give zeros, and a record whose gradient is not
    finite counts as zero: otherwise it would show through any noise.
    """
    _check(net, clip)
    if not len(x):
        return torch.zeros_like(net.grad)
    if net not in _chosen:
        _chosen[net] = _choose(net, x[:2], y[:2])
    total = _chosen[net](net, x, y, torch.full((len(x),), clip, device=net.device))
    if net.device.type != "cpu":
        return total  # checking would make the device wait: there such records were left out on the way
    return total if bool(torch.isfinite(total).all()) else _of_the_finite(net, x, y, clip)


def clipped_gradient_sum_with(net: Network, batch: Step, pulls: Sequence[Pull], clip: float) -> Tensor:
    """The same where ``pulls`` contribute to each record's loss.

    Slow: each record goes through the network by itself, with copies of the pulls and the same draws from the global
    stream. So a loss that looks at the rest of its batch finds it empty, what a loss stores is thrown away, and no
    record can move the sum by more than ``clip``.
    """
    _check(net, clip)
    total = torch.zeros_like(net.grad)
    draws = int(torch.randint(2**62, ()))
    for i in range(len(batch.x)):
        with private_global_stream(draws):
            plain(net, batch.alone(i), copy.deepcopy(list(pulls)))
        norm = net.grad.square().sum().sqrt()
        total += torch.where(torch.isfinite(norm), net.grad * _factors(norm, torch.full_like(norm, clip)), 0.0)
    return total


def _check(net: Network, clip: float) -> None:
    if net.needs_company:
        raise UserError(
            "model: BatchNorm mixes the records of a batch, so no record's influence can be bounded; "
            "choose a network with GroupNorm (for resnet18: norm: group)."
        )
    if net.module.training and any(
        isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in net.module.modules()
    ):
        raise UserError(
            "model: dropout is drawn for a whole batch, so one more record changes all gradients; "
            "choose a network without dropout."
        )
    if not clip > 0:
        raise UserError(f"clip, the largest norm of a record's gradient, must be positive, not {clip}.")


def _of_the_finite(net: Network, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Slow: each record alone."""
    total = torch.zeros_like(net.grad)
    for i in range(len(x)):
        gradient = _plain_gradient(net, x[i : i + 1], y[i : i + 1])
        norm = gradient.square().sum().sqrt()
        if bool(torch.isfinite(norm)):
            total += gradient * _factors(norm, torch.tensor(clip, device=net.device))
    return total


def _choose(net: Network, x: Tensor, y: Tensor) -> Way:
    """The fast way if it agrees with plain gradients of the first records, each alone; otherwise ``torch.func``."""
    rules = _rules(net.module)
    if rules is None:
        return OneByOne(net)
    by_layer = ByLayer(net, rules)
    before = net.module.training
    net.module.eval()  # dropout would draw twice
    try:
        quick = by_layer.piece(net, net.vector, x, y, torch.full((len(x),), torch.inf, device=net.device))
        slow = _added(_plain_gradient(net, x[i : i + 1], y[i : i + 1]) for i in range(len(x)))
    except UnforeseenUse:
        return OneByOne(net)
    finally:
        net.module.train(before)
    if float((quick - slow).norm()) > CLOSE * float(slow.norm()):
        return OneByOne(net)
    return Compiled(by_layer) if net.fast == "compiled" and net.device.type == "cpu" else by_layer


def _plain_gradient(net: Network, x: Tensor, y: Tensor) -> Tensor:
    loss = per_record_loss(net.problem, RawLogits(net.module, net.problem)(x), y).sum()
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(net.trained.values()))])


def _rules(module: nn.Module) -> dict[str, tuple[nn.Module, LayerRule]] | None:
    """A rule for each layer with trainable parameters; None if one is missing."""
    found = {}
    for name, layer in module.named_modules():
        trained = [p.requires_grad for p in layer.parameters(recurse=False)]
        if any(trained):
            rule = rule_for(layer)
            if rule is None or not all(trained):
                return None
            found[name] = (layer, rule)
    return found


class UnforeseenUse(Exception):
    """A layer was called twice or never, or its rows are not the records."""


class ByLayer:
    """From the layers' inputs and the gradients at their outputs."""

    def __init__(self, net: Network, rules: dict[str, tuple[nn.Module, LayerRule]]):
        self._rules = rules
        self._names = list(net.trained)
        self._floats = 1  # per record

    def __call__(self, net: Network, x: Tensor, y: Tensor, clip: Tensor) -> Tensor:
        pieces = math.ceil(len(x) * self._floats / FLOATS_AT_ONCE)
        cut = zip(x.chunk(pieces), y.chunk(pieces), clip.chunk(pieces), strict=True)
        return _added(self.piece(net, net.vector, *piece) for piece in cut)

    def piece(self, net: Network, w: Tensor, x: Tensor, y: Tensor, clip: Tensor) -> Tensor:
        seen: list[tuple[str, Tensor, Tensor]] = []
        hooks = [
            layer.register_forward_hook(lambda _, given, out, name=name: seen.append((name, given[0], out)))
            for name, (layer, _) in self._rules.items()
        ]
        try:
            # A separate tensor: for its own vector the network would run compiled code, which calls no hook.
            logits = net.at(w.detach().requires_grad_(), x)[1]
        finally:
            for hook in hooks:
                hook.remove()
        apart = all(len(given) == len(x) for _, given, _ in seen)
        if sorted(name for name, _, _ in seen) != sorted(self._rules) or not apart:
            raise UnforeseenUse
        loss = per_record_loss(net.problem, logits, y).sum()
        slopes = torch.autograd.grad(loss, [out for _, _, out in seen])
        shares = self._shares([(name, given.detach()) for name, given, _ in seen], slopes)
        between = sum(given.numel() + out.numel() for _, given, out in seen) // len(x)
        self._floats = between + sum(share.held for share in shares)
        factors = _factors(torch.stack([share.squared for share in shares]).sum(0).sqrt(), clip)
        return torch.cat([share.total(factors).reshape(-1) for share in shares])

    def _shares(self, given: list[tuple[str, Tensor]], slopes: tuple[Tensor, ...]) -> list[Share]:
        """In the order of the flat vector."""
        shares: dict[str, Share] = {}
        for (name, a), g in zip(given, slopes, strict=True):
            layer, rule = self._rules[name]
            shares |= {f"{name}.{part}": share for part, share in rule(layer, a, g).items()}
        return [shares[name] for name in self._names]


class Compiled:
    """The same, traced once per kind of input and compiled, a fixed number of records at a time.

    It rounds differently from eager code: a ReLU whose input is within rounding error of zero may take the other slope.
    """

    def __init__(self, by_layer: ByLayer):
        self._by_layer = by_layer
        self._versions: dict[tuple[torch.dtype, bool], Any] = {}

    def __call__(self, net: Network, x: Tensor, y: Tensor, clip: Tensor) -> Tensor:
        rows = max(1, PASS_PIXELS // math.prod(net.problem.shape[1:]))
        short = -len(x) % rows  # padded with records whose clip is zero
        x, y, clip = (torch.cat([t, t.new_zeros(short, *t.shape[1:])]) if short else t for t in (x, y, clip))
        pieces = list(zip(torch.split(x, rows), torch.split(y, rows), torch.split(clip, rows), strict=True))
        kind = (x.dtype, net.module.training)
        if kind not in self._versions:
            self._versions[kind] = self._compile(net, *pieces[0])
        with torch.no_grad():
            return _added(self._versions[kind](net.vector, *piece) for piece in pieces)

    def _compile(self, net: Network, x: Tensor, y: Tensor, clip: Tensor) -> Any:
        from torch.fx.experimental.proxy_tensor import make_fx

        def piece(w: Tensor, x: Tensor, y: Tensor, clip: Tensor) -> Tensor:
            return self._by_layer.piece(net, w, x, y, clip)

        return torch.compile(make_fx(piece)(net.vector.clone(), x, y, clip), dynamic=False)


class OneByOne:
    """``torch.func``: the gradient of each record alone, for any network that does not mix records."""

    def __init__(self, net: Network):
        self._logits = RawLogits(net.module, net.problem)

    def __call__(self, net: Network, x: Tensor, y: Tensor, clip: Tensor) -> Tensor:
        weights = {name: parameter.detach() for name, parameter in net.trained.items()}

        def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            inside = net.placed(weights)
            return per_record_loss(net.problem, functional_call(self._logits, inside, (x[None],)), y[None]).sum()

        gradients = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")
        rows = max(1, FLOATS_AT_ONCE // net.parameters)

        def piece(x: Tensor, y: Tensor, clip: Tensor) -> Tensor:
            each = [g.flatten(1) for g in cast(dict[str, Tensor], gradients(weights, x, y)).values()]
            factors = _factors(torch.stack([g.square().sum(1) for g in each]).sum(0).sqrt(), clip)
            return torch.cat([factors @ (g if g.device.type == "cpu" else heard(g, factors)) for g in each])

        return _added(
            piece(*cut) for cut in zip(torch.split(x, rows), torch.split(y, rows), torch.split(clip, rows), strict=True)
        )


def _factors(norm: Tensor, clip: Tensor) -> Tensor:
    factors = (clip / norm.clamp(min=torch.finfo(norm.dtype).tiny)).clamp(max=1)
    return factors if norm.device.type == "cpu" else torch.where(torch.isfinite(norm), factors, 0.0)


def _added(pieces: Iterable[Tensor]) -> Tensor:
    total: Tensor | None = None
    for piece in pieces:
        total = piece if total is None else total.add_(piece)
    assert total is not None
    return total
