"""Networks by name. To add a network, add one file here with ``@model("its-name")``."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import nn

from understudy.base_settings import NoSettings, Settings
from understudy.complaints import unknown_name
from understudy.data.kinds import KINDS, PLURAL, RecordKind, listed
from understudy.data.problem import Problem
from understudy.errors import UserError

FastPath = Literal["eager", "channels-last", "batch-last", "compiled"]
Factory = Callable[[Problem, Any], nn.Module]


@dataclass(frozen=True)
class ModelEntry:
    name: str
    build: Callable[[Problem, Any], nn.Module]  # weights come from the layers' own constructors
    settings: type[Settings]
    takes: tuple[RecordKind, ...]
    fast: FastPath  # the layout measured to be fastest on one thread
    repays_after: int  # training samples after which compiling has paid off; 0: never compiled
    together: int  # clients that are trained fastest as one program, on one thread; 1: it does not pay
    about: str


# The network for records whose config names none.
USUAL: Mapping[RecordKind, str] = {
    "image": "small-convnet",
    "vector": "mlp",
    "sequence": "convnet-1d",
    "tokens": "embedding-bag",
}
_entries: dict[str, ModelEntry] = {}


def model(
    name: str,
    *,
    settings: type[Settings] = NoSettings,
    takes: tuple[RecordKind, ...] = KINDS,
    fast: FastPath = "eager",
    repays_after: int = 0,
    together: int = 1,
) -> Callable[[Factory], Factory]:
    """Registers a factory ``(problem, settings) -> nn.Module``; the module has ``features`` and ``head``. ``takes``:
    the kinds of record that it is for."""
    if fast not in get_args(FastPath):
        raise UserError(f"Model {name!r}: fast is {fast!r}; write one of {', '.join(get_args(FastPath))}.")

    def register(build: Factory) -> Factory:
        known = _entries.get(name)
        if known is not None and _origin(known.build) != _origin(build):
            raise UserError(f"There is already a model {name!r}; give the new one another name.")
        about = (build.__doc__ or "").strip().split("\n\n")[0]
        said = " ".join(about.split())
        _entries[name] = ModelEntry(name, build, settings, takes, fast, repays_after, together, said)
        return build

    return register


def entry(name: str) -> ModelEntry:
    _import_every_family()
    if name in _entries:
        return _entries[name]
    raise unknown_name("model", name, names())


def check_takes(entry: ModelEntry, problem: Problem) -> None:
    if problem.kind in entry.takes:
        return
    fitting = ", ".join(f"'{name}'" for name in names() if problem.kind in _entries[name].takes)
    perhaps = ", or write data.kind: vector if they are numbers" if problem.tokens else ""
    raise UserError(
        f"Model {entry.name!r} takes {listed(entry.takes)}, but the records are {PLURAL[problem.kind]} of shape "
        f"{problem.shape}; use {fitting}{perhaps}."
    )


def names() -> list[str]:
    _import_every_family()
    return sorted(_entries)


def _import_every_family() -> None:
    package = importlib.import_module(__name__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)


def _origin(build: Factory) -> tuple[str, str]:
    """A file imported again registers the same thing again, which is not a clash."""
    return (getattr(build, "__module__", ""), getattr(build, "__qualname__", repr(build)))
