"""What objects passed in Python hold, as digests: two of the same digest give the same run."""

import hashlib
import inspect
from pathlib import Path

from torch import nn

from understudy.config.schema import Live
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.runs.resuming import digest_of_data


def digest_of_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest_of_live(live: Live) -> dict[str, str]:
    """By what was passed; empty if nothing was."""
    found = {}
    if live.data is not None:
        found["data"] = _of_federation(live.data)
    if live.model is not None:
        found["model"] = _of_module(live.model)
    if isinstance(live.method, type):
        found["method"] = _of_class(live.method)
    elif live.method is not None:
        raise UserError("method: what an object holds cannot be told from outside; pass its class or its name here.")
    return found


def _of_federation(data: Federation) -> str:
    kept = [_of_examples(part) for part in (data.test, data.validation)]
    return _of_text(repr((data.problem, digest_of_data(data), kept)))


def _of_examples(part: Examples | None) -> str:
    if part is None:
        return ""
    total = hashlib.sha256()
    for values in (part.x, part.y):
        total.update(str(tuple(values.shape)).encode() + values.contiguous().numpy().tobytes())
    return total.hexdigest()


def _of_module(module: nn.Module) -> str:
    total = hashlib.sha256(f"{module!r} {_of_class(type(module))}".encode())
    for name, values in module.state_dict().items():
        total.update(name.encode() + values.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def _of_class(kind: type) -> str:
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):  # typed into a shell
        source = ""
    return _of_text(f"{kind.__module__}.{kind.__qualname__} {source}")


def _of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
