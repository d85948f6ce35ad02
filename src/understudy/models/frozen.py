"""Weights that stay as they are: constants of a network, which never travel.

A parameter is frozen by its name (``model.frozen``) or by ``requires_grad=False``. A BatchNorm layer whose parameters
are all frozen keeps its running statistics too: it normalises by them in training as well, so it treats each record
separately.
"""

import fnmatch
import hashlib
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from understudy.errors import UserError

BatchNorm = nn.modules.batchnorm._BatchNorm


def freeze(module: nn.Module, patterns: Sequence[str]) -> None:
    """Freezes the parameters that a pattern names: ``body``, ``body.0.weight`` or ``*.bias``."""
    named = dict(module.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        found = [name for name in named if _fits(name, pattern)]
        if not found:
            parts = ", ".join(dict.fromkeys(name.partition(".")[0] for name in named))
            raise UserError(f"model.frozen: no parameter's name fits '{pattern}'; the network's parts are {parts}.")
        for name in found:
            named[name].requires_grad_(False)
    if named and not any(p.requires_grad for p in named.values()):
        raise UserError("model.frozen leaves nothing to train; leave at least the head out.")


def _fits(name: str, pattern: str) -> bool:
    """``body`` stands for all that is inside it."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern.rstrip('.')}.*")


def hold_still(module: nn.Module) -> set[str]:
    """Puts BatchNorm layers with frozen parameters into evaluation mode for good; the names of their buffers."""
    names = set[str]()
    for prefix, layer in module.named_modules():
        own = list(layer.parameters(recurse=False))
        if not isinstance(layer, BatchNorm) or not own or any(p.requires_grad for p in own):
            continue
        layer.eval()
        layer.__dict__["train"] = lambda mode=True, layer=layer: layer  # `module.train()` reaches every layer
        names |= {f"{prefix}.{name}".lstrip(".") for name, _ in layer.named_buffers()}
    return names


def mixes_records(module: nn.Module) -> bool:
    """Whether a BatchNorm layer normalises by the statistics of its batch."""
    return any(isinstance(layer, BatchNorm) and "train" not in layer.__dict__ for layer in module.modules())


def digest_of(constants: Mapping[str, Tensor]) -> str | None:
    """So that all parties can tell whether they hold the same; None if there are none."""
    if not constants:
        return None
    total = hashlib.sha256()
    for name in sorted(constants):
        value = constants[name].detach().cpu().contiguous()
        total.update(f"{name} {tuple(value.shape)} {value.dtype} ".encode() + value.numpy().tobytes())
    return total.hexdigest()[:32]
