"""A generator: a way to make labelled records from others, and the registry of generators by name."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from understudy.base_settings import Settings
from understudy.complaints import unknown_name
from understudy.data.examples import Examples
from understudy.data.kinds import PLURAL, RecordKind, listed
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.own_code import full_name, is_own, own
from understudy.privacy.sgd import PrivateSteps

Learnt = dict[str, Tensor]  # what a generator learnt, in a form that can be saved
Net = TypeVar("Net", bound=nn.Module)


@dataclass(frozen=True)
class Stage:
    """A generator after some number of epochs."""

    epoch: int
    state: Learnt


class Generator(ABC):
    """Fitted once on a client's records; what it learns is named tensors."""

    smallest: int  # fewest records it can be fitted on
    makes: tuple[RecordKind, ...] = ("image",)  # the kinds of record it can make
    makes_floats: bool = False  # also of float32 numbers; False: only of uint8 pixels
    goes_on = False  # whether it can begin at what another of its kind has learnt
    device = torch.device("cpu")  # where it computes; records, learnt tensors and images are on the processor

    @abstractmethod
    def course(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Iterator[Stage]:
        """Training: a stage after each epoch in the settings' ``checkpoints``, and one at the end.

        It refuses fewer than ``smallest`` records. Every draw comes from ``rng``, whatever the checkpoints. With
        ``private`` only its steps touch records: then any number of records works, including none, and every draw that
        goes with a record comes from ``private.coins``.
        """

    @abstractmethod
    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        """(n, …), one record per label, of the type that it was fitted on: uint8 pixels, or float32. Every label must
        have been fitted, unless the fit was private: then any label works."""

    def beginning_at(self, start: Mapping[str, Tensor]) -> Self:
        """The same generator, trained from what another of its kind learnt (of any classes) instead of from nothing."""
        raise UserError(f"Generator '{self._name()}' cannot go on from what another has learnt.")

    def check(self, problem: Problem) -> None:
        """Refuses, in one sentence and before anything runs, records that it cannot make."""
        name = self._name()
        if problem.kind not in self.makes:
            raise UserError(
                f"Generator '{name}' makes {listed(self.makes)}, but the records are {PLURAL[problem.kind]} of shape "
                f"{problem.shape}; {_instead(problem)}."
            )
        if problem.floats and not self.makes_floats:
            raise UserError(
                f"Generator '{name}' learns from uint8 pixels, but the records are floats; write them as uint8, or "
                "choose 'vae'."
            )

    def fit(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Learnt:
        """The state at the end of training."""
        *_, last = self.course(examples, problem, rng, private)
        return last.state

    def _name(self) -> str:
        return next((e.name for e in _entries.values() if e.build is type(self)), type(self).__name__)

    def require_enough(self, examples: Examples) -> None:
        if len(examples) < self.smallest:
            raise UserError(
                f"A generator needs at least {self.smallest} records, but was given {len(examples)}; "
                f"let this client send nothing, or give it more records."
            )


def _instead(problem: Problem) -> str:
    if problem.tokens:
        return "no generator makes tokens, so choose a method that sends models, such as fedavg"
    fitting = [f"'{name}'" for name in names() if problem.kind in getattr(_entries[name].build, "makes", ())]
    return f"choose {' or '.join(fitting)}"


def with_weights(net: Callable[[], Net], learnt: Mapping[str, Tensor], prefix: str, device: torch.device) -> Net:
    """A network with the learnt weights, which are those whose names begin with ``prefix``."""
    with torch.device("meta"):  # no weights are drawn
        made = net()
    weights = {name.removeprefix(prefix): w for name, w in learnt.items() if name.startswith(prefix)}
    made.load_state_dict(weights, assign=True)
    return made.to(device)


@dataclass(frozen=True)
class GeneratorEntry:
    name: str
    build: Callable[[Any], Generator]  # from its settings
    settings: type[Settings]
    about: str


GeneratorClass = TypeVar("GeneratorClass", bound=type[Generator])
_entries: dict[str, GeneratorEntry] = {}


def generator(name: str, *, settings: type[Settings]) -> Callable[[GeneratorClass], GeneratorClass]:
    """Registers a Generator class that is built from its settings alone."""

    def register(kind: GeneratorClass) -> GeneratorClass:
        known = _entries.get(name)
        if known is not None and getattr(known.build, "__qualname__", None) != kind.__qualname__:
            raise UserError(f"There is already a generator {name!r}; give the new one another name.")
        about = " ".join((kind.__doc__ or "").strip().split("\n\n")[0].split())
        _entries[name] = GeneratorEntry(name, kind, settings, about)
        return kind

    return register


def entry(name: str) -> GeneratorEntry:
    """By name, or your own as ``mine.py:Mine``, a class decorated with ``@generator``."""
    _import_every_kind()
    if is_own(name):
        kind = own(full_name(name))
        found = next((known for known in _entries.values() if known.build is kind), None)
        if found is None:
            raise UserError(f"{name} is not a generator; write @generator(…) above a subclass of Generator.")
        return replace(found, name=full_name(name))
    if name in _entries:
        return _entries[name]
    raise unknown_name("generator", name, names())


def names() -> list[str]:
    _import_every_kind()
    return sorted(_entries)


def _import_every_kind() -> None:
    package = importlib.import_module(__name__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)


class CourseSettings(Settings):
    """How long a generator is trained, and which stages are kept."""

    epochs: int = Field(default=100, ge=1)  # passes over the records
    checkpoints: tuple[int, ...] = ()  # epochs after which a stage of training is also kept
    least_steps: int = Field(default=0, ge=0)  # fewest updates; with few records, more epochs
    batch: int = Field(default=32, ge=1)  # records in a batch

    @model_validator(mode="after")
    def _checkpoints_are_epochs(self) -> Self:
        for epoch in self.checkpoints:
            if not 1 <= epoch <= self.epochs:
                raise ValueError(f"checkpoints: {epoch} is not one of the epochs 1 to {self.epochs}")
        return self

    def steps(self, records: int) -> int:
        return max(self.epochs * -(-records // self.batch), self.least_steps)

    @property
    def stages(self) -> list[int]:
        """The epochs after which a stage is yielded, including the last."""
        return sorted({*self.checkpoints, self.epochs})

    def kept_after(self, step: int, steps: int) -> Iterator[int]:
        """The epochs whose stage is kept after a step (1 to ``steps``); the last one is the end of training.

        An epoch is an equal share of the steps, even if these are planned (under privacy) or more than the requested
        epochs would take.
        """
        for epoch in self.stages:
            if max(1, epoch * steps // self.epochs) == step:
                yield epoch
