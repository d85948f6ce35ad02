"""Any torch module as a body and a head, under its own names.

Methods need what reaches the last layer (features) and the layer itself (head). `split` finds that layer, or is told
its name, and changes nothing: parameters keep their names and their order, so saved weights load into the module again.
"""

from collections.abc import Iterator
from typing import Any, cast

from torch import Tensor, nn

from understudy.complaints import unknown_name
from understudy.errors import UserError

# How torchvision and timm call the layer, or the chain of layers that ends with it.
HEADS = ("fc", "classifier", "heads", "head")
SHARED = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")


def split(module: nn.Module, head: str | None = None) -> "SplitNetwork":
    """``module`` as features and a head. ``head`` is the name of its last layer, such as "fc" or "classifier.6";
    without it, the last Linear layer where that is plain to see. Whether the two make up ``module(x)`` is verified when
    a run builds its network.

    >>> from torch import nn
    >>> import understudy as us
    >>> network = us.split(nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)), head="3")
    >>> network.head
    Linear(in_features=16, out_features=10, bias=True)
    """
    if isinstance(module, type):
        raise UserError(f"model: {module.__name__} is a class; pass a network, such as {module.__name__}().")
    if not isinstance(module, nn.Module):
        raise UserError(f"model: pass a torch.nn.Module, not {type(module).__name__}.")
    if isinstance(module, SplitNetwork):
        return module if head is None else SplitNetwork(module.whole, head)
    return SplitNetwork(module, _last_linear(module) if head is None else head, guessed=head is None)


class SplitNetwork(nn.Module):
    """``forward(x) = head(features(x))``, which is what ``whole(x)`` computes, over the same weights."""

    whole: nn.Module
    places: list[tuple[nn.Module, str]]  # that hold the head: an owner, and the name it has there
    head_name: str
    guessed: bool

    def __init__(self, whole: nn.Module, name: str, *, guessed: bool = False):
        super().__init__()
        # Not registered, or every name would begin with "whole": its parts are registered here instead.
        self.__dict__.update({key: whole.__dict__[key] for key in SHARED})
        self.__dict__["whole"], self.head_name, self.guessed = whole, name, guessed
        self.__dict__["places"] = list(_places(whole, _part(whole, name)))
        self.training = whole.training

    @property
    def head(self) -> nn.Module:
        if not self.places:
            return self.whole
        owner, name = self.places[0]
        return cast(nn.Module, owner._modules[name])

    def __setattr__(self, name: str, value: Any) -> None:
        """A method may put another head in its place (VHL, MOON)."""
        if name != "head":
            super().__setattr__(name, value)
        elif not self.places:
            raise UserError("model: a network that is one layer cannot get another head; choose 'softmax'.")
        else:
            self._put(value)

    def _put(self, part: nn.Module) -> None:
        for owner, name in self.places:
            owner._modules[name] = part

    def features(self, x: Tensor) -> Tensor:
        """What ``whole`` computes if its head hands on what it gets."""
        if not self.places:
            return x
        head = self.head
        self._put(_HandsOn())
        try:
            found: Tensor = self.whole(x)
        finally:
            self._put(head)
        return found

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits

    def train(self, mode: bool = True) -> "SplitNetwork":
        self.whole.train(mode)
        self.training = mode
        return self


class _HandsOn(nn.Module):
    def forward(self, x: Tensor, *_: Any, **__: Any) -> Tensor:
        return x


def _places(whole: nn.Module, part: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Where a part is held, under all its names; nowhere if it is the whole."""
    for owner in whole.modules():
        yield from ((owner, name) for name, child in owner._modules.items() if child is part)


def _part(whole: nn.Module, name: str) -> nn.Module:
    parts: dict[str, nn.Module] = dict(whole.named_modules())
    if name not in parts:
        layers = [name for name, part in parts.items() if name and not any(True for _ in part.children())]
        raise unknown_name(f"layer of {type(whole).__name__}", name, layers)
    return parts[name]


def _last_linear(module: nn.Module) -> str:
    """The name of the layer that is the head: by its name, or else because no Linear layer comes after it."""
    every: list[tuple[str, nn.Module]] = list(module.named_modules())
    names: dict[object, str] = {part: name for name, part in reversed(every) if isinstance(part, nn.Linear)}
    kind = type(module).__name__
    if not names:
        raise UserError(
            f"model: {kind} has no Linear layer, so its head cannot be found; name its last layer with "
            'us.split(network, head="NAME").'
        )
    if isinstance(module, nn.Sequential):
        last = _end(module)
        if last not in names:
            raise UserError(
                f"model: the network ends with {type(last).__name__}, not with a Linear layer; end it with the logits "
                '(the loss applies softmax), or name its head with us.split(network, head="NAME").'
            )
        return names[last]
    known = dict.fromkeys(part for part in _by_name(module) if part in names)
    if len(known) > 1:
        both = " or ".join(f'head="{names[part]}"' for part in known)
        raise UserError(f"model: {kind} has several layers that could be its head; write us.split(network, {both}).")
    return names[next(iter(known))] if known else next(iter(names.values()))


def _by_name(module: nn.Module) -> Iterator[nn.Linear]:
    """Linear layers in the places where torchvision and timm have their heads."""
    ask = getattr(module, "get_classifier", None)  # timm's networks tell
    if callable(ask) and isinstance(told := ask(), nn.Linear):
        yield told
        return
    for name in HEADS:
        end = _end(getattr(module, name, None))
        if isinstance(end, nn.Linear):
            yield end


def _end(part: object) -> object:
    while isinstance(part, nn.Sequential) and len(part):
        part = part[-1]
    return part
