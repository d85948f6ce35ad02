"""Who holds what: the sites, each with its records, and what the server keeps to score on."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch

from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.holding import Holding as Holding
from understudy.data.holding import hold_out
from understudy.data.own import Scaling, problem_of
from understudy.data.population import PopulationSites
from understudy.data.problem import Problem
from understudy.data.splits.split import Split
from understudy.data.spread import by_constants
from understudy.data.strata import Indices
from understudy.errors import UserError
from understudy.site_names import check_site_name

Arrays = tuple[object, object] | Examples  # (x, y), as numpy or torch arrays


@dataclass(frozen=True)
class Federation:
    problem: Problem
    sites: Mapping[str, Holding]
    test: Examples | None
    validation: Examples | None = None
    split: Split | None = None
    label_names: tuple[str, ...] = ()
    remote: bool = False  # the records stay at the sites: only the sites' names are here
    found: Mapping[str, Any] = field(default_factory=dict)  # settings that your own files show, for the config

    def __post_init__(self) -> None:
        if not self.sites:
            raise UserError("A federation needs at least one site.")
        for name in () if self.population is not None else self.sites:
            check_site_name(name)

    @property
    def population(self) -> PopulationSites | None:
        """Its sites, if they are so many that each is made when it is asked for."""
        return self.sites if isinstance(self.sites, PopulationSites) else None

    @property
    def holds_out(self) -> bool:
        """Whether any site keeps records back for scores."""
        if self.population is not None:
            return self.population.share > 0
        return any(len(holding.held_out) for holding in self.sites.values())

    @property
    def records(self) -> int:
        """To learn from, at all sites."""
        if self.population is not None:
            return len(self.population.index.order)
        return sum(len(holding.own) for holding in self.sites.values())

    @property
    def pixels(self) -> bool:
        return next(iter(self.sites.values())).own.x.dtype == torch.uint8

    @classmethod
    def from_split(cls, dataset: Dataset, split: Split) -> Self:
        split.check_fits(len(dataset.train), dataset.name)
        train = dataset.train
        return cls(
            dataset.problem,
            {n: Holding(train.take(own), train.take(split.held_out[n])) for n, own in split.clients.items()},
            dataset.test,
            train.take(split.validation) if len(split.validation) else None,
            split,
            dataset.label_names,
            found=dataset.found,
        )

    @classmethod
    def from_population(cls, dataset: Dataset, sites: PopulationSites, validation: Indices) -> Self:
        kept = dataset.train.take(torch.from_numpy(validation)) if len(validation) else None
        named = dataset.label_names
        return cls(dataset.problem, sites, dataset.test, kept, label_names=named, found=dataset.found)

    @classmethod
    def from_arrays(
        cls,
        sites: Mapping[str, Arrays] | Sequence[Arrays],
        *,
        test: Arrays | None = None,
        classes: int | None = None,
        mean: tuple[float, ...] = (),
        std: tuple[float, ...] = (),
        held_out: float = 0.0,
        seed: int = 0,
    ) -> Self:
        """From your own arrays, one pair (records, labels) per site; a list of pairs becomes client-0, client-1, …

        ``mean`` and ``std`` have one number per channel or feature: of pixels between 0 and 1, or of your floats.
        """
        if not isinstance(sites, Mapping | list | tuple):
            raise UserError(f"sites: give a mapping from names to pairs (records, labels), not {type(sites).__name__}.")
        named = sites if isinstance(sites, Mapping) else {f"client-{i}": pair for i, pair in enumerate(sites)}
        brought = {str(name): _examples(pair, str(name)) for name, pair in named.items()}
        kept = None if test is None else _examples(test, "test")
        scaling = Scaling(_whole(classes, "classes", 2), _numbers(mean, "mean"), _numbers(std, "std"))
        return cls.from_examples(brought, kept, scaling, held_out=held_out, seed=seed)

    @classmethod
    def from_examples(
        cls,
        sites: Mapping[str, Examples],
        test: Examples | None,
        scaling: Scaling,
        *,
        held_out: float = 0.0,
        seed: int = 0,
        label_names: tuple[str, ...] = (),
        found: Mapping[str, Any] | None = None,
    ) -> Self:
        if not isinstance(held_out, int | float) or not 0 <= held_out < 1:
            raise UserError(f"held_out: {held_out} is not a share; write a number from 0 up to, but not including, 1.")
        if test is not None and not len(test):
            raise UserError("The test set holds no records; leave it out, and clients score on held-out records.")
        parts = [*sites.values()] if test is None else [*sites.values(), test]
        problem = problem_of(parts, scaling, "The federation")
        template = next(part for part in parts if len(part))
        fitting = {name: _fitted(part, template, problem, name) for name, part in sites.items()}
        kept = None if test is None else _fitted(test, template, problem, "test")
        kept = None if kept is None else by_constants(kept, problem.mean, problem.std)
        scaled = {name: by_constants(part, problem.mean, problem.std) for name, part in fitting.items()}
        holdings = {name: holding(part, held_out, seed, name) for name, part in scaled.items()}
        return cls(problem, holdings, kept, label_names=label_names, found=found or {})


def remote_federation(
    problem: Problem,
    names: Sequence[str],
    test: Examples | None,
    *,
    pixels: bool = True,
    label_names: tuple[str, ...] = (),
) -> Federation:
    """What a server knows about sites that keep their records."""
    kind = torch.uint8 if pixels else torch.float32
    labels = torch.empty(0, problem.classes) if problem.multilabel else torch.empty(0, dtype=torch.int64)
    nothing = Examples(torch.empty(0, *problem.shape, dtype=kind), labels)
    if test is not None:
        problem.check(test, "test")
    sites = {name: Holding(nothing, nothing) for name in names}
    return Federation(problem, sites, test, label_names=label_names, remote=True)


def _numbers(values: object, what: str) -> tuple[float, ...]:
    """Plain floats, since they are written into a run's config; numpy's and torch's numbers are accepted."""
    try:
        found = tuple(float(value) for value in values)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise UserError(f"{what}: give one number per channel, such as (0.5,), not {values!r}.") from None
    if not all(map(math.isfinite, found)):
        raise UserError(f"{what}: {found} must be finite.")
    return found


def _whole(value: object, what: str, least: int) -> int | None:
    try:
        found = None if value is None else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        found = 0
    if found is not None and found < least:
        raise UserError(f"{what}: give a whole number, at least {least}, not {value!r}.")
    return found


def _examples(pair: Arrays, who: str) -> Examples:
    if isinstance(pair, Examples):
        return pair
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise UserError(f"{who}: give a pair (records, labels).")
    return Examples.from_arrays(*pair, who)


def _fitted(part: Examples, template: Examples, problem: Problem, who: str) -> Examples:
    if not len(part):  # an empty list has no shape of its own
        return template.none()
    if part.x.dtype != template.x.dtype:
        raise UserError(
            f"{who}: records are {part.x.dtype}, but another site has {template.x.dtype}; "
            "use uint8 pixels everywhere or floats everywhere."
        )
    problem.check(part, who)
    return part


def holding(part: Examples, share: float, seed: int, name: str) -> Holding:
    """A site's records, some of them kept back for scores."""
    own, kept = hold_out(np.arange(len(part)), part, share, seed, name)
    return Holding(part.take(own.tolist()), part.take(kept.tolist()))
