"""The `data` part of a config, and how it becomes a federation."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

import torch
from pydantic import Field, ValidationError, field_validator, model_validator

from understudy import patience
from understudy.base_settings import Settings
from understudy.data.canvases import CanvasesSettings
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.federation import Federation, Holding, holding, remote_federation
from understudy.data.flair import FlairSettings
from understudy.data.own import Scaling, is_folder_of_images, is_path, read_own, read_sites, read_source
from understudy.data.problem import Problem
from understudy.data.resize import resized, shrunk
from understudy.data.sets import NATURAL_USERS, SETTINGS, SOURCES, load
from understudy.data.shapes import ShapesSettings
from understudy.data.splits.dirichlet import Dirichlet
from understudy.data.splits.make import SplitSettings, make_split
from understudy.errors import UserError
from understudy.randomness import numpy_generator

OF_OWN_DATA = ("test", "classes", "labels", "shape", "pixels", "multilabel")  # a named data set comes with these
OF_NAMED_SETS = ("folder", *SETTINGS)
OF_ONE_SOURCE = ("name", "clients", "split", "validation", "limit", *OF_NAMED_SETS)  # your own sites have a source each
Shape = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class DataSettings(Settings):
    name: str = "digits"  # a data set, or the path of .npz, Parquet or a folder of images by class
    clients: int = Field(default=10, ge=1)  # number of clients; natural users and your own sites bring their own number
    split: SplitSettings = Dirichlet(alpha=0.1)  # how records are dealt out; default `users` if the data has them
    held_out: float = Field(default=0.0, ge=0, lt=1)  # share of each client's records kept back for scores
    validation: float = Field(default=0.0, ge=0, lt=1)  # share kept on the server, to choose settings on
    folder: str | None = None  # where the files are; null: $UNDERSTUDY_DATA and the usual folders
    size: int | None = Field(default=None, ge=1)  # side to average square images down to, or to draw drawn ones at
    limit: int | None = Field(default=None, ge=1)  # at most this many training records, with the classes in proportion
    shapes: ShapesSettings | None = None  # the grid of the data set `shapes`
    canvases: CanvasesSettings | None = None  # the users and pictures of the data set `canvases`
    flair: FlairSettings | None = None  # what to read from the data set `flair`
    sites: dict[str, str | None] | None = None  # your own data: one source per site; null: the records are at the site
    test: str | None = None  # your own data: a file or folder to score on
    classes: int | None = Field(default=None, ge=2)  # your own data: how many classes; null: as many as the labels show
    labels: tuple[str, ...] = ()  # your own data: class names in order, for image folders and Parquet
    shape: Shape | None = None  # of a record, channels first, if records are at the sites or flat in Parquet
    pixels: bool | None = None  # likewise: uint8 pixels, or floats taken as they are; null: only images are pixels
    multilabel: bool = False  # likewise: true if a record has several labels
    mean: tuple[float, ...] = ()  # of pixels between 0 and 1, per channel; empty: the data set's own
    std: tuple[float, ...] = ()  # likewise, their standard deviation

    @model_validator(mode="before")
    @classmethod
    def _natural_users(cls, given: Any) -> Any:
        """Records with several labels cannot be dealt out by class; such data sets exist for their users."""
        if isinstance(given, dict) and given.get("name") in NATURAL_USERS:
            return {"split": "users", **given}
        return given

    @model_validator(mode="after")
    def _one_name_a_class(self) -> Self:
        if self.labels and (len(set(self.labels)) < len(self.labels) or len(self.labels) < 2):
            raise ValueError("labels must name at least two classes, each once")
        if self.labels and self.classes not in (None, len(self.labels)):
            raise ValueError(f"labels name {len(self.labels)} classes, not {self.classes}; leave classes out")
        return self

    def words(self) -> dict[str, Any]:
        return used(self.model_dump(mode="json"))

    @field_validator("split", mode="before")
    @classmethod
    def _kind_of_split(cls, given: object) -> object:
        """A bare kind is enough (``split: iid``); without a kind it is Dirichlet."""
        if isinstance(given, str):
            return {"kind": given}
        return {"kind": "dirichlet", **given} if isinstance(given, dict) else given


def used(words: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a `data` section that a run uses; defaults for other sources would only mislead a reader."""
    if words.get("sites") is not None:
        unused: tuple[str, ...] = OF_ONE_SOURCE
    else:
        unused = ("sites", *(OF_NAMED_SETS if _names_a_path(str(words.get("name"))) else OF_OWN_DATA))
        if words.get("split") == {"kind": "users"}:  # users bring their own number
            unused += ("clients",)
    return {key: value for key, value in words.items() if key not in unused}


def _names_a_path(name: str) -> bool:
    return is_path(name) and name not in SOURCES


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
    if _names_a_path(settings.name):
        scaling = Scaling(settings.classes, settings.mean, settings.std)
        return read_own(settings.name, scaling, settings.test, labels=settings.labels, shape=settings.shape)
    for word in OF_OWN_DATA:
        if getattr(settings, word) not in (None, (), False):
            raise UserError(f"data.{word}: this is for your own data; {settings.name} comes with it, so leave it out.")
    folder = None if settings.folder is None else Path(settings.folder).expanduser()
    return _scaled(load(settings.name, folder=folder, **_options(settings)), settings)


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
    if settings.sites is not None:
        return _of_sites(settings, seed)
    patience.doing(f"Reading {settings.name}")
    dataset = load_dataset(settings, seed)
    patience.doing(f"Dealing records out to {settings.clients} clients")
    split = make_split(
        dataset,
        settings.split,
        clients=settings.clients,
        seed=seed,
        held_out=settings.held_out,
        validation=settings.validation,
    )
    return Federation.from_split(dataset, split)


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
    brought = read_sites(sources, settings.test, labels=settings.labels, shape=settings.shape)
    return Federation.from_examples(
        {site: _as_said(part, settings, site) for site, part in brought.sites.items()},
        None if brought.test is None else _as_said(brought.test, settings, "test"),
        Scaling(len(brought.label_names) or settings.classes, settings.mean, settings.std),
        held_out=settings.held_out,
        seed=seed,
        label_names=brought.label_names,
    )


def _remote(settings: DataSettings) -> Federation:
    classes = settings.classes or len(settings.labels)
    shape = _shape_to_learn(settings)
    if shape is None or classes < 2:
        raise UserError(
            "data.sites: records that stay at their sites cannot be looked at here; give data.shape, such as "
            "[1, 28, 28], and data.classes or the class names in data.labels."
        )
    Scaling(classes, settings.mean, settings.std).check(shape[0], "data")
    problem = Problem(shape, classes, settings.multilabel, settings.mean, settings.std)
    pixels = len(shape) == 3 if settings.pixels is None else settings.pixels
    test = None if settings.test is None else _brought(settings, Path(settings.test).expanduser(), "test")
    names = [*(settings.sites or {})]
    return remote_federation(problem, names, test, pixels=pixels, label_names=settings.labels)


def at_site(settings: DataSettings, name: str, source: Path, problem: Problem, seed: int) -> Holding:
    """What one site brings to a federation."""
    part = _brought(settings, source, name)
    problem.check(part, name)
    return holding(part, settings.held_out, seed, name)


def _brought(settings: DataSettings, source: Path, who: str) -> Examples:
    """A source read where no other can be seen, so the config must state what they have in common."""
    if is_folder_of_images(source) and not settings.labels:
        raise UserError(
            f"{source}: the folders of {who} do not show the classes of other sites; "
            "name all classes, in the same order everywhere, with data.labels."
        )
    part = read_source(source, settings.labels, settings.shape)
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
    """``data.shape`` is that of records as stored; square images shrink to ``data.size``."""
    shape, size = settings.shape, settings.size
    if shape is None or size is None:
        return shape
    if len(shape) != 3 or shape[1] != shape[2] or size > shape[1]:
        raise UserError(f"data.size: only square images shrink; data.shape {list(shape)} cannot become {size}.")
    return (shape[0], size, size)
