"""From the `data` part of a config to a federation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from understudy import patience
from understudy.base_settings import Settings
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.federation import Federation, Holding, holding, remote_federation
from understudy.data.framing import CHANNELS
from understudy.data.kinds import shape_as
from understudy.data.own import Scaling, is_folder_of_images, places_in, read_own, read_sites, read_source
from understudy.data.population import MANY
from understudy.data.problem import Categories, Problem
from understudy.data.resize import resized, shrunk
from understudy.data.sets import SETTINGS, load
from understudy.data.settings import OF_OWN_DATA, DataSettings, names_a_path
from understudy.data.splits.make import make_population, make_split
from understudy.data.spread import by_constants
from understudy.data.standardise import by_itself, on_scale
from understudy.data.tables import feature_ranges
from understudy.errors import UserError
from understudy.randomness import numpy_generator


def load_dataset(settings: DataSettings, seed: int) -> Dataset:
    """The data set to split; ``seed`` only chooses which records a limit keeps."""
    if settings.sites is not None:
        raise UserError("data.sites: every site has its own source; there is no single data set to load.")
    dataset = _unlimited(settings)
    if settings.limit is not None:
        dataset = dataset.limited(settings.limit, numpy_generator(seed, "limit"))
    return dataset


def unused_records(settings: DataSettings, seed: int) -> Examples | None:
    """Training records that ``limit`` leaves out: nobody holds them. None: there is no limit."""
    if settings.limit is None or settings.sites is not None:
        return None
    return _unlimited(settings).beyond(settings.limit, numpy_generator(seed, "limit"))


def _unlimited(settings: DataSettings) -> Dataset:
    dataset = _whole(settings)
    if settings.size is not None:
        dataset = resized(dataset, settings.size)
    _as_said(dataset.train, settings, dataset.name)
    return dataset


def _whole(settings: DataSettings) -> Dataset:
    for name in SETTINGS:
        if getattr(settings, name) is not None and settings.name != name:
            raise UserError(f"data.{name}: these settings belong to the data set '{name}', not to {settings.name}.")
    if names_a_path(settings.name):
        scaling = _scaling(settings, settings.classes)
        return read_own(settings.name, scaling, settings.test, labels=settings.labels, reading=settings.reading)
    for word in OF_OWN_DATA:
        if getattr(settings, word) not in (None, (), False):
            raise UserError(f"data.{word}: this is for your own data; {settings.name} comes with it, so leave it out.")
    folder = None if settings.folder is None else Path(settings.folder).expanduser()
    return _scaled(load(settings.name, folder=folder, **_options(settings)), settings)


def _scaling(settings: DataSettings, classes: int | None, categories: Categories = ()) -> Scaling:
    return Scaling(classes, settings.mean, settings.std, settings.tokens, settings.categories or categories)


def _scaled(dataset: Dataset, settings: DataSettings) -> Dataset:
    if not settings.mean and not settings.std:
        return dataset
    Scaling(None, settings.mean, settings.std).check(dataset.problem.shape[0], f"data ({dataset.name})")
    return replace(dataset, problem=replace(dataset.problem, mean=settings.mean, std=settings.std))


def _options(settings: DataSettings) -> dict[str, Any]:
    """Drawn or read at ``data.size``, if given: a drawing is never averaged down."""
    if settings.name not in SETTINGS:
        return {}
    given: Settings | None = getattr(settings, settings.name)
    options = {} if given is None else given.model_dump()
    if settings.size is None:
        return options
    options["size"] = settings.size
    try:
        SETTINGS[settings.name](**options)
    except ValidationError as wrong:
        said = wrong.errors()[0]["msg"]
        raise UserError(f"data.size: {said} for '{settings.name}', not {settings.size}.") from None
    return options


def build_federation(settings: DataSettings, *, seed: int) -> Federation:
    data = _unscaled(settings, seed)
    ranges = settings.ranges or ()
    if isinstance(ranges, dict):
        ranges = feature_ranges(ranges, {**(settings.vocabulary or {}), **data.found.get("vocabulary", {})})
    if settings.sites is not None or names_a_path(settings.name):
        data = replace(data, found={**data.found, **_kind_found(settings, data.problem)})
    return on_scale(data, settings.scale, ranges, settings.scale_noise, constants=bool(settings.mean))


def _kind_found(settings: DataSettings, problem: Problem) -> dict[str, Any]:
    """What the records are, where the config left it to them."""
    found: dict[str, Any] = {} if settings.kind is not None else {"kind": problem.kind}
    return {**found, "tokens": problem.tokens} if problem.tokens and settings.tokens is None else found


def _unscaled(settings: DataSettings, seed: int) -> Federation:
    """As it is, or by the constants given."""
    if settings.sites is not None:
        return _of_sites(settings, seed)
    patience.doing(f"Reading {settings.name}")
    dataset = load_dataset(settings, seed)
    patience.doing(f"Dealing records out to {settings.clients} clients")
    how: dict[str, Any] = {"clients": settings.clients, "seed": seed, "held_out": settings.held_out}
    if settings.split.clients_of(dataset, settings.clients) >= MANY and dataset.train.person is None:
        sites, kept = make_population(dataset, settings.split, validation=settings.validation, **how)
        return Federation.from_population(dataset, sites, kept)
    return Federation.from_split(dataset, make_split(dataset, settings.split, validation=settings.validation, **how))


def _of_sites(settings: DataSettings, seed: int) -> Federation:
    for word, value in (("validation", settings.validation), ("limit", settings.limit)):
        if value:
            raise UserError(f"data.{word}: with data.sites, sites keep all their records; leave it out.")
    given = settings.sites or {}
    sources = {site: source for site, source in given.items() if source is not None}
    if given and not sources:
        return _remote(settings)
    if len(sources) < len(given):
        raise UserError("data.sites: give a source for every site, or null for every site, not a mixture.")
    brought = read_sites(sources, settings.test, labels=settings.labels, reading=settings.reading)
    made = Federation.from_examples(
        {site: _as_said(part, settings, site) for site, part in brought.sites.items()},
        None if brought.test is None else _as_said(brought.test, settings, "test"),
        _scaling(settings, len(brought.label_names) or settings.classes, places_in(brought.found)),
        held_out=settings.held_out,
        seed=seed,
        label_names=brought.label_names,
        found=brought.found,
    )
    return replace(made, columns=brought.columns)


def _remote(settings: DataSettings) -> Federation:
    classes = settings.classes or len(settings.labels)
    shape = _shape_to_learn(settings)
    if shape is None or classes < 2:
        raise UserError(
            "data.sites: records that stay at their sites cannot be looked at here; give data.shape, such as "
            "[1, 28, 28], and data.classes or the class names in data.labels (for image files, data.size and "
            "data.mode give the shape)."
        )
    _scaling(settings, classes).check(shape[0], "data")
    if (settings.kind == "tokens") != (settings.tokens is not None):
        raise UserError("data.tokens: if records stay at their sites, data.kind: tokens and data.tokens go together.")
    pixels = len(shape) == 3 if settings.pixels is None else settings.pixels
    problem = Problem(
        shape,
        classes,
        settings.multilabel,
        settings.mean,
        settings.std,
        settings.tokens or 0,
        floats=not pixels and settings.tokens is None,
        categories=settings.categories or (),
    )
    test = None if settings.test is None else _brought(settings, Path(settings.test).expanduser(), "test")
    test = None if test is None else by_constants(test, problem)
    names = [*(settings.sites or {})]
    return remote_federation(problem, names, test, label_names=settings.labels)


def at_site(settings: DataSettings, name: str, source: Path, problem: Problem, seed: int) -> Holding:
    """What one site brings to a federation."""
    part = _brought(settings, source, name)
    problem.check(part, name)
    held = holding(by_constants(part, problem), settings.held_out, seed, name)
    return by_itself(held, problem) if settings.scale == "site" else held


def _brought(settings: DataSettings, source: Path, who: str) -> Examples:
    """A source read where no other can be seen, so the config must state what they have in common."""
    if is_folder_of_images(source) and not settings.labels:
        raise UserError(
            f"{source}: the folders of {who} do not show the classes of other sites; "
            "name all classes, in the same order everywhere, with data.labels."
        )
    part = read_source(source, settings.labels, settings.reading)
    if not len(part):
        raise UserError(f"{source} holds no records.")
    part = _as_said(part, settings, who)
    if settings.shape is not None and settings.pixels is None:
        _check_kind(part, len(settings.shape) == 3, who)
    return part


def _as_said(part: Examples, settings: DataSettings, who: str) -> Examples:
    """Records as the config has them, shrunk if it asks for it; a record that differs is refused, not skipped."""
    if not len(part):
        return part
    if settings.size is not None:
        part = shrunk(part, settings.size, who)
    if settings.mode is not None and (part.x.ndim != 4 or part.x.shape[1] != CHANNELS[settings.mode]):
        raise UserError(
            f"data.mode: records of {who} have shape {tuple(part.x.shape[1:])}; it converts image files only, so leave "
            "it out."
        )
    shape = _shape_to_learn(settings)
    if shape is not None and tuple(part.x.shape[1:]) != shape:
        raise UserError(f"{who}: records have shape {tuple(part.x.shape[1:])}, but data.shape is {shape}.")
    if settings.multilabel and not part.multilabel:
        raise UserError(f"{who}: there is one label per record, but data.multilabel is true.")
    if settings.pixels is not None:
        _check_kind(part, settings.pixels, who)
    return part


def _check_kind(part: Examples, pixels: bool, who: str) -> None:
    if (part.x.dtype == torch.uint8) != pixels:
        here, needed = ("floats", "uint8 pixels") if pixels else ("uint8 pixels", "floats")
        raise UserError(
            f"{who}: records are {here}, but all sites need {needed}; convert them, "
            f"or write data.pixels: {str(not pixels).lower()} in every site's config."
        )


def _shape_to_learn(settings: DataSettings) -> tuple[int, ...] | None:
    """``data.shape`` is that of records as stored; square images shrink to ``data.size``. Image files have many
    shapes, and become what ``data.size`` and ``data.mode`` say."""
    shape, size = settings.shape, settings.size
    if shape is None and size is not None and settings.mode is not None:
        return (CHANNELS[settings.mode], size, size)
    if shape is None or size is None:
        return None if shape is None else shape_as(shape, settings.kind)
    if len(shape) != 3 or shape[1] != shape[2] or size > shape[1]:
        raise UserError(f"data.size: only square images shrink; data.shape {list(shape)} cannot become {size}.")
    return (shape[0], size, size)
