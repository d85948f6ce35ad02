"""Who holds what: the sites, each with its records, and what the server keeps to score on."""

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, get_args

import numpy as np
import torch

from understudy.complaints import unknown_name
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.federated_scale import FederatedScale, Range
from understudy.data.holding import Holding as Holding
from understudy.data.holding import hold_out
from understudy.data.kinds import KINDS, RecordKind
from understudy.data.own import Scaling, problem_of
from understudy.data.persons import codes
from understudy.data.population import PopulationSites
from understudy.data.problem import Problem
from understudy.data.splits.split import Split
from understudy.data.spread import ScaleBy, by_constants
from understudy.data.strata import Indices
from understudy.errors import UserError
from understudy.site_names import check_site_name

Arrays = tuple[object, object] | Examples  # (x, y), as numpy or torch arrays


@dataclass(frozen=True)
class Federation:
    """Who holds what: the records of every site, and what the server scores on. `from_arrays` makes one.

    >>> import numpy as np, understudy as us
    >>> x, y = np.zeros((20, 8, 8), np.uint8), np.arange(20) % 2
    >>> data = us.Federation.from_arrays({"north": (x, y), "south": (x, y)}, held_out=0.2)
    >>> {name: len(site.own) for name, site in data.sites.items()}
    {'north': 16, 'south': 16}
    >>> result = us.run(data=data, model="softmax", rounds=1)
    """

    problem: Problem
    sites: Mapping[str, Holding]
    test: Examples | None
    validation: Examples | None = None
    split: Split | None = None
    label_names: tuple[str, ...] = ()
    remote: bool = False  # the records stay at the sites: only the sites' names are here
    found: Mapping[str, Any] = field(default_factory=dict)  # settings that your own files show, for the config
    columns: tuple[str, ...] = ()  # of a table, in the order of its features; empty: records are no rows of columns
    scale: FederatedScale | None = None  # how sites will agree on a scale in the opening; None: they need not

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

    def with_validation(self, share: float, *, seed: int) -> Self:
        """Keeps a share of every site's records back on the server, to choose settings on."""
        left, kept = dict[str, Holding](), list[Examples]()
        for name, held in self.sites.items():
            own, back = hold_out(np.arange(len(held.own)), held.own, share, seed, f"{name}, validation")
            left[name] = Holding(held.own.take(own.tolist()), held.held_out)
            kept.append(held.own.take(back.tolist()))
        return replace(self, sites=left, validation=functools.reduce(Examples.and_also, kept))

    @classmethod
    def from_split(cls, dataset: Dataset, split: Split) -> Self:
        split.check_fits(len(dataset.train), dataset.name)
        train = dataset.train
        return cls(
            dataset.problem,
            {n: Holding(train.keep(own), train.keep(split.held_out[n])) for n, own in split.clients.items()},
            dataset.test,
            train.keep(split.validation) if len(split.validation) else None,
            split,
            dataset.label_names,
            found=dataset.found,
            columns=dataset.columns,
        )

    @classmethod
    def from_population(cls, dataset: Dataset, sites: PopulationSites, validation: Indices) -> Self:
        kept = dataset.train.take(torch.from_numpy(validation)) if len(validation) else None
        known: dict[str, Any] = {"label_names": dataset.label_names, "found": dataset.found, "columns": dataset.columns}
        return cls(dataset.problem, sites, dataset.test, kept, **known)

    @classmethod
    def from_arrays(
        cls,
        sites: Mapping[str, Arrays] | Sequence[Arrays],
        *,
        test: Arrays | None = None,
        classes: int | None = None,
        mean: tuple[float, ...] = (),
        std: tuple[float, ...] = (),
        scale: ScaleBy | None = None,
        ranges: Sequence[tuple[float, float]] = (),
        scale_noise: float | None = None,
        person: Mapping[str, object] | Sequence[object] | None = None,
        test_person: object = None,
        held_out: float = 0.0,
        seed: int = 0,
        kind: RecordKind | None = None,
        tokens: int | None = None,
        categories: Sequence[tuple[int, int]] = (),
    ) -> "Federation":
        """From your own arrays, one pair (records, labels) per site; a list of pairs becomes client-0, client-1, …

        ``mean`` and ``std`` have one number per channel or feature: of pixels between 0 and 1, or of your floats.
        ``scale`` chooses another way to scale floats: "site" by each site's statistics, "federated" by sums exchanged
        in the opening; under a privacy budget that needs ``ranges``, the lowest and highest value of each feature.
        ``person``, by site, tells whose record each is, so that nobody is on both sides of a split (``test_person``
        does for the test set).
        ``kind``: image, vector, sequence or tokens, if the guess is wrong (`problem.kind` tells it). ``tokens``: how
        many token ids there are, with 0, the padding. ``categories``: where in a vector a category begins, and how many
        words it has, one feature each.
        Without a ``test`` set, clients score on what ``held_out`` keeps back of their records.
        """
        from understudy.data.standardise import on_scale  # which needs this class

        if not isinstance(sites, Mapping | list | tuple):
            raise UserError(f"sites: give a mapping from names to pairs (records, labels), not {type(sites).__name__}.")
        named = sites if isinstance(sites, Mapping) else {f"client-{i}": pair for i, pair in enumerate(sites)}
        brought = {str(name): _examples(pair, str(name), kind) for name, pair in named.items()}
        brought = _with_persons(brought, person)
        kept = None if test is None else _examples(test, "test", kind)
        if kept is not None and test_person is not None:
            kept = _of_persons(kept, test_person, "test_person")
        scaling = Scaling(
            _whole(classes, "classes", 2),
            _numbers(mean, "mean"),
            _numbers(std, "std"),
            _whole(tokens, "tokens", 2),
            tuple((int(first), int(words)) for first, words in categories),
        )
        if scale not in (None, *get_args(ScaleBy)):
            raise UserError(f"scale: '{scale}' does not exist; choose one of {', '.join(get_args(ScaleBy))}.")
        made = cls.from_examples(brought, kept, scaling, held_out=held_out, seed=seed)
        return on_scale(made, scale, _pairs(ranges), scale_noise, constants=bool(scaling.mean))

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
        kept = None if kept is None else by_constants(kept, problem)
        scaled = {name: by_constants(part, problem) for name, part in fitting.items()}
        holdings = {name: holding(part, held_out, seed, name) for name, part in scaled.items()}
        return cls(problem, holdings, kept, label_names=label_names, found=found or {})


def persons_at(holding: Holding) -> set[int]:
    """Of the records to learn from and of those held out."""
    parts = (holding.own.person, holding.held_out.person)
    return {one for part in parts if part is not None for one in part.tolist()}


def persons_on_both_sides(data: Federation) -> int:
    """How many have records in the test set and at a site."""
    if data.test is None or data.test.person is None:
        return 0
    tested = set(data.test.person.tolist())
    return len(tested & {one for holding in data.sites.values() for one in persons_at(holding)})


def remote_federation(
    problem: Problem,
    names: Sequence[str],
    test: Examples | None,
    *,
    label_names: tuple[str, ...] = (),
) -> Federation:
    """What a server knows about sites that keep their records."""
    labels = torch.empty(0, problem.classes) if problem.multilabel else torch.empty(0, dtype=torch.int64)
    nothing = Examples(torch.empty(0, *problem.shape, dtype=problem.dtype), labels)
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


def _pairs(ranges: Sequence[tuple[float, float]]) -> tuple[Range, ...]:
    found = [_numbers(pair, "ranges") for pair in ranges]
    if any(len(pair) != 2 or not pair[0] < pair[1] for pair in found):
        raise UserError("ranges: give a pair (lowest, highest) for each feature, the lower value first.")
    return tuple((low, high) for low, high in found)


def _whole(value: object, what: str, least: int) -> int | None:
    try:
        found = None if value is None else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        found = 0
    if found is not None and found < least:
        raise UserError(f"{what}: give a whole number, at least {least}, not {value!r}.")
    return found


def _examples(pair: Arrays, who: str, kind: RecordKind | None) -> Examples:
    if isinstance(pair, Examples):
        return pair if kind is None else Examples.from_arrays(pair.x, pair.y, who, kind=kind)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise UserError(f"{who}: give a pair (records, labels).")
    if kind is not None and kind not in KINDS:
        raise UserError(f"kind: write {', '.join(KINDS)} or None, not {kind!r}.")
    return Examples.from_arrays(*pair, who, kind=kind)


def _with_persons(sites: dict[str, Examples], person: object) -> dict[str, Examples]:
    if person is None:
        return sites
    if not isinstance(person, Mapping | list | tuple) or len(person) != len(sites):
        raise UserError("person: give the persons of every site, by its name or in the same order.")
    named = person if isinstance(person, Mapping) else dict(zip(sites, person, strict=True))
    for name in sites:
        if name not in named:
            raise unknown_name("site in person", name, map(str, named))
    return {name: _of_persons(part, named[name], f"person of {name}") for name, part in sites.items()}


def _of_persons(part: Examples, person: object, who: str) -> Examples:
    given = np.asarray(person)
    if given.shape != (len(part),):
        raise UserError(f"{who}: {len(part)} records need as many persons, not an array of shape {given.shape}.")
    return replace(part, person=codes(given.tolist(), who))


def _fitted(part: Examples, template: Examples, problem: Problem, who: str) -> Examples:
    if not len(part):  # an empty list has no shape of its own
        return template.none()
    if part.x.dtype != template.x.dtype:
        raise UserError(
            f"{who}: records are {part.x.dtype}, but another site has {template.x.dtype}; "
            "use uint8 pixels everywhere, floats everywhere or tokens everywhere."
        )
    problem.check(part, who)
    return part


def holding(part: Examples, share: float, seed: int, name: str) -> Holding:
    """A site's records, some of them kept back for scores."""
    own, kept = hold_out(np.arange(len(part)), part, share, seed, name)
    return Holding(part.keep(own.tolist()), part.keep(kept.tolist()))
