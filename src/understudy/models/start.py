"""Weights to start from: a safetensors file, such as the model.safetensors of an earlier run."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from understudy.errors import UserError

SHOWN = 3  # names in a sentence
COUNTERS = "num_batches_tracked"  # of BatchNorm; nothing depends on them


def start_file(given: str) -> Path:
    """A file, or the model of a run's folder."""
    path = Path(given).expanduser().resolve()
    return path / "model.safetensors" if path.is_dir() else path


def digest_of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"model.start: {path} cannot be read ({error.strerror}).") from None


def read_start(path: Path, digest: str | None) -> dict[str, Tensor]:
    """The file's tensors, if it is still the file of that digest."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"model.start: {path} cannot be read ({error.strerror}).") from None
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise UserError(f"model.start: {path} is not the file that this run began with; restore that one.")
    try:
        return load(data)
    except SafetensorError:
        raise UserError(
            f"model.start: {path} is not a safetensors file; write one with "
            "safetensors.torch.save_file(network.state_dict(), FILE)."
        ) from None


def begin_at(module: nn.Module, weights: Mapping[str, Tensor], *, head: bool) -> None:
    """Writes ``weights`` into the module; without ``head``, its head stays as drawn and the file's is ignored."""
    of_head = {id(t) for part in [module.head] for t in (*part.parameters(), *part.buffers())}  # type: ignore[union-attr]
    wanted = {name: t for name, t in module.state_dict(keep_vars=True).items() if not name.endswith(COUNTERS)}
    left_out = {name for name, t in wanted.items() if id(t) in of_head and not head}
    wanted = {name: t for name, t in wanted.items() if name not in left_out}
    given = {name: t for name, t in weights.items() if name not in left_out and not name.endswith(COUNTERS)}
    _check_names(given, wanted)
    shapes = [name for name, t in wanted.items() if t.shape != given[name].shape]
    if shapes:
        name = shapes[0]
        in_head = head and all(id(wanted[other]) in of_head for other in shapes)
        what = "the file's head is of another size; leave it out with model.start_head: false"
        sizes = f"'{name}' has shape {_shape(given[name])} in the file and {_shape(wanted[name])} in the network"
        raise UserError(f"model.start: {sizes}; {what if in_head else 'choose the network that it belongs to'}.")
    with torch.no_grad():
        for name, t in wanted.items():
            t.copy_(given[name])


def _check_names(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    missing = [name for name in wanted if name not in given]
    unexpected = [name for name in given if name not in wanted]
    said = [f"{what} {_some(names)}" for what, names in (("lacks", missing), ("has", unexpected)) if names]
    if said:
        besides = " which the network does not have" if unexpected else ""
        raise UserError(f"model.start: the file {' and '.join(said)}{besides}; choose the network that it belongs to.")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:SHOWN]) + more


def _shape(t: Tensor) -> list[int]:
    return list(t.shape)
