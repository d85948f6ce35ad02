"""The `data` part of a config, and how it becomes a federation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from understudy.data.canvases import CanvasesSettings
from understudy.data.dataset import Dataset
from understudy.data.federation import Federation, Holding, holding, remote_federation
from understudy.data.flair import FlairSettings
from understudy.data.own import Scaling, is_path, read_own, read_sites, read_source
from understudy.data.problem import Problem
from understudy.data.resize import resized, shrunk
from understudy.data.sets import NATURAL_USERS, SETTINGS, SOURCES, load
from understudy.data.shapes import ShapesSettings
from understudy.data.splits import Dirichlet, SplitSettings, make_split
from understudy.errors import UserError
from understudy.randomness import numpy_generator
from understudy.settings import Settings


class DataSettings(Settings):
    name: str = "digits"  # a data set, or the path of an .npz file or a folder of images by class
    clients: int = Field(default=10, ge=1)  # natural users and own sites bring their own number
    split: SplitSettings = Dirichlet(alpha=0.1)  # `users` where a data set has natural ones
    held_out: float = Field(default=0.0, ge=0, lt=1)  # share of each client's records kept back for scores
    validation: float = Field(default=0.0, ge=0, lt=1)  # share kept on the server, to choose settings on
    folder: str | None = None  # where files lie; else $UNDERSTUDY_DATA and the usual folders
    size: int | None = Field(default=None, ge=1)  # square images are averaged down to it, drawn ones drawn so
    limit: int | None = Field(default=None, ge=1)  # at most so many training records, classes in proportion
    shapes: ShapesSettings | None = None  # the grid of `shapes`
    canvases: CanvasesSettings | None = None  # who draws `canvases`, and how
    flair: FlairSettings | None = None  # what to read of `flair`
    sites: dict[str, str | None] | None = None  # own data, a source a site, or null: it lies with the site
    test: str | None = None  # own data: a file or folder to score on
    classes: int | None = Field(default=None, ge=2)  # own data; None: as many as the labels show
    shape: tuple[int, ...] | None = None  # of a record, channels first, where records lie with the sites
    multilabel: bool = False  # likewise: a record has several labels
    labels: tuple[str, ...] = ()  # names of the classes, in order, where sites bring folders of images
    mean: tuple[float, ...] = ()  # of pixels between 0 and 1, a channel; empty: what a data set brings along
    std: tuple[float, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _natural_users(cls, given: Any) -> Any:
        """Records with several labels cannot be dealt out by class, and their users are what they are for."""
        if isinstance(given, dict) and given.get("name") in NATURAL_USERS:
            return {"split": "users", **given}
        return given

    @field_validator("split", mode="before")
    @classmethod
    def _kind_of_split(cls, given: object) -> object:
        """A bare kind will do (``split: iid``), and where none is named it is Dirichlet."""
        if isinstance(given, str):
            return {"kind": given}
        return {"kind": "dirichlet", **given} if isinstance(given, dict) else given


def load_dataset(settings: DataSettings, seed: int) -> Dataset:
    """The data set that is to be split; ``seed`` only chooses the records that a limit leaves."""
    if settings.sites is not None:
        raise UserError("data.sites: every site has its own source here; there is no one data set to load.")
    dataset = _whole(settings)
    if settings.size is not None:
        dataset = resized(dataset, settings.size)
    if settings.limit is not None:
        dataset = dataset.limited(settings.limit, numpy_generator(seed, "limit"))
    return dataset


def _whole(settings: DataSettings) -> Dataset:
    for name in SETTINGS:
        if getattr(settings, name) is not None and settings.name != name:
            raise UserError(f"data.{name}: these settings belong to the data set '{name}', not to {settings.name}.")
    if is_path(settings.name) and settings.name not in SOURCES:
        scaling = Scaling(settings.classes, settings.mean, settings.std)
        return read_own(settings.name, scaling, settings.test)
    _refuse_own_words(settings)
    folder = None if settings.folder is None else Path(settings.folder).expanduser()
    return _scaled(load(settings.name, folder=folder, **_options(settings)), settings)


def _scaled(dataset: Dataset, settings: DataSettings) -> Dataset:
    if not settings.mean and not settings.std:
        return dataset
    Scaling(None, settings.mean, settings.std).check(dataset.problem.shape[0], f"data ({dataset.name})")
    return replace(dataset, problem=replace(dataset.problem, mean=settings.mean, std=settings.std))


def _options(settings: DataSettings) -> dict[str, Any]:
    """Drawn, or read, at ``data.size`` where that is given: a drawing is never averaged down."""
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


def _refuse_own_words(settings: DataSettings) -> None:
    for word in ("test", "classes"):
        if getattr(settings, word):
            raise UserError(f"data.{word}: this is for own data; {settings.name} brings it along.")


def federation(settings: DataSettings, *, seed: int) -> Federation:
    if settings.sites is not None:
        return _of_sites(settings, seed)
    dataset = load_dataset(settings, seed)
    split = make_split(
        dataset,
        settings.split,
        clients=settings.clients,
        seed=seed,
        held_out=settings.held_out,
        validation=settings.validation,
    )
    return Federation.from_split(dataset, split)


def _remote(settings: DataSettings) -> Federation:
    classes = settings.classes or len(settings.labels)
    if settings.shape is None or classes < 2:
        raise UserError(
            "data.sites: records that lie with their sites cannot be looked at here; say data.shape, such as "
            "[1, 28, 28], and data.classes."
        )
    Scaling(classes, settings.mean, settings.std).check(settings.shape[0], "data")
    problem = Problem(settings.shape, classes, settings.multilabel, settings.mean, settings.std)
    test = None if settings.test is None else read_source(Path(settings.test), settings.labels)
    return remote_federation(problem, [*(settings.sites or {})], test)


def at_site(settings: DataSettings, name: str, source: Path, problem: Problem, seed: int) -> Holding:
    """What a site brings to a federation by itself."""
    part = read_source(source, settings.labels)
    if settings.size is not None:
        part = shrunk(part, settings.size, name)
    problem.check(part, name)
    return holding(part, settings.held_out, seed, name)


def _of_sites(settings: DataSettings, seed: int) -> Federation:
    sources = {site: source for site, source in (settings.sites or {}).items() if source is not None}
    if not sources and settings.sites:
        return _remote(settings)
    if len(sources) < len(settings.sites or {}):
        raise UserError("data.sites: give a source for every site, or null for every site; not some of each.")
    for word, value in (("validation", settings.validation), ("limit", settings.limit)):
        if value:
            raise UserError(f"data.{word}: own sites keep their records at home; leave it out beside data.sites.")
    brought = read_sites(sources, settings.test)
    sites, test = dict(brought.sites), brought.test
    if settings.size is not None:
        sites = {site: shrunk(part, settings.size, site) for site, part in sites.items()}
        test = None if test is None else shrunk(test, settings.size, "test")
    return Federation.from_examples(
        sites,
        test,
        Scaling(len(brought.label_names) or settings.classes, settings.mean, settings.std),
        held_out=settings.held_out,
        seed=seed,
        label_names=brought.label_names,
    )
