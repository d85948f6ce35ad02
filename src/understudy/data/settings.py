"""The `data` part of a config."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from understudy.base_settings import Settings
from understudy.data.canvases import CanvasesSettings
from understudy.data.flair import FlairSettings
from understudy.data.framing import Fit, Framing, Mode
from understudy.data.kinds import RecordKind
from understudy.data.own import Reading, is_path
from understudy.data.room import Room, bytes_of
from understudy.data.sets import NATURAL_USERS, SETTINGS, SOURCES
from understudy.data.shapes import ShapesSettings
from understudy.data.splits.dirichlet import Dirichlet
from understudy.data.splits.make import SplitSettings
from understudy.data.spread import ScaleBy
from understudy.data.tables import Missing, TableRules

OF_TABLES = ("label", "person", "ignore", "missing", "vocabulary")
# A named data set comes with these.
OF_KINDS = ("kind", "tokens", "categories", "shape", "pixels", "multilabel")
OF_OWN_DATA: tuple[str, ...] = ("test", "classes", "labels", *OF_KINDS, "fit", "mode", "memory")
OF_OWN_DATA += ("scale", "ranges", "scale_noise", *OF_TABLES)
OF_NAMED_SETS = ("folder", *SETTINGS)
OF_ONE_SOURCE = ("name", "clients", "split", "validation", "limit", *OF_NAMED_SETS)  # your own sites have a source each
FIT: Fit = "crop"


def _as_words(given: object) -> object:
    """Lists of words as YAML has them: a bare number stays the word it is, but yes and no are read as truth values."""
    if not isinstance(given, list | tuple):
        return given
    if any(isinstance(word, bool) for word in given):
        raise ValueError("a bare yes, no, on, off, true or false is a truth value in YAML; write such a word in quotes")
    return [str(word) if isinstance(word, int) else word for word in given]


ListedWords = Annotated[tuple[str, ...], BeforeValidator(_as_words)]
Vocabulary = Annotated[ListedWords, Field(min_length=1)]
Pair = tuple[float, float]
Ranges = Annotated[dict[str, Pair] | tuple[Pair, ...], Field(min_length=1)]
Shape = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class DataSettings(Settings):
    name: str = "digits"  # a data set, or the path of .npz, CSV, Parquet or a folder of images by class
    clients: int = Field(default=10, ge=1)  # number of clients; natural users and your own sites bring their own number
    split: SplitSettings = Dirichlet(alpha=0.1)  # how records are dealt out; default `users` if the data has them
    held_out: float = Field(default=0.0, ge=0, lt=1)  # share of each client's records kept back for scores
    validation: float = Field(default=0.0, ge=0, lt=1)  # share kept on the server, to choose settings on
    folder: str | None = None  # where the files are; null: $UNDERSTUDY_DATA and the usual folders
    size: int | None = Field(default=None, ge=1)  # side of images: to bring image files to, shrink arrays to or draw at
    limit: int | None = Field(default=None, ge=1)  # at most this many training records, with the classes in proportion
    shapes: ShapesSettings | None = None  # the grid of the data set `shapes`
    canvases: CanvasesSettings | None = None  # the users and pictures of the data set `canvases`
    flair: FlairSettings | None = None  # what to read from the data set `flair`
    sites: dict[str, str | None] | None = None  # your own data: one source per site; null: the records are at the site
    test: str | None = None  # your own data: a file or folder to score on
    fit: Fit | None = None  # image files, to get to size: crop the middle, pad with black or stretch; null: crop
    mode: Mode | None = None  # image files: grey, or rgb; null: rgb if any image of a source is in colour
    # image files: memory for them, such as 2GB; beyond it they are kept in files; null: half of the machine's
    memory: str | None = None
    classes: int | None = Field(default=None, ge=2)  # your own data: how many classes; null: as many as the labels show
    labels: ListedWords = ()  # your own data: class names in order, for image folders and tables
    kind: RecordKind | None = None  # your own data: what a record is; null: guessed from shape and type of the numbers
    tokens: int | None = Field(default=None, ge=2)  # for tokens: how many ids, with 0, the padding; null: those found
    # of vectors: [first feature, number of words] of each category; null: as a table's vocabulary has it
    categories: tuple[tuple[int, int], ...] | None = None
    label: str | None = None  # tables: the column of the labels; null: label or y
    # tables: the column that tells whose record each is, so that nobody is on both sides of a split; .npz: an array
    person: str | None = None
    ignore: ListedWords | None = None  # tables: columns to leave out, such as a record's number
    missing: Missing | None = None  # tables: refuse, drop rows or take the source's mean of a column; null: refuse
    vocabulary: dict[str, Vocabulary] | None = None  # tables: the words of columns of texts; null: those found
    shape: Shape | None = None  # of a record, channels first, if records are at the sites or flat in a table
    pixels: bool | None = None  # likewise: uint8 pixels, or floats taken as they are; null: only images are pixels
    multilabel: bool = False  # likewise: true if a record has several labels
    # your own floats: as they are, by mean and std, each site by its own statistics, or all by sums over all sites,
    # exchanged once in the opening; null: given if mean is
    scale: ScaleBy | None = None
    ranges: Ranges | None = None  # scale federated: lowest and highest value by column; of arrays, a list of pairs
    # scale federated under privacy: σ of the sums; null: what takes a tenth of the budget, in 1/σ²
    scale_noise: float | None = Field(default=None, gt=0)
    mean: tuple[float, ...] = ()  # per channel, of pixels between 0 and 1 or of floats; empty: the data set's own
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

    @field_validator("memory", mode="before")
    @classmethod
    def _an_amount(cls, given: object) -> object:
        """As it was written, if it can be read."""
        if given is not None:
            bytes_of(str(given))
        return None if given is None else str(given)

    @field_validator("ranges")
    @classmethod
    def _low_below_high(cls, given: Ranges | None) -> Ranges | None:
        pairs = given.items() if isinstance(given, dict) else enumerate(given or ())
        for column, (low, high) in pairs:
            if not low < high:
                raise ValueError(f"the range of {column} is [{low:g}, {high:g}]; write the lower value first")
        return given

    @property
    def reading(self) -> Reading:
        ranges = tuple(self.ranges) if isinstance(self.ranges, dict) else None
        missing, words = self.missing or "refuse", self.vocabulary or {}
        rules = TableRules(self.label, self.ignore or (), missing, words, self.person, ranges)
        room = Room(None if self.memory is None else bytes_of(self.memory))
        by_shape: RecordKind | None = "sequence" if self.shape is not None and len(self.shape) == 2 else None
        frame = Framing(self.size, self.fit or FIT, self.mode)
        return Reading(self.shape, frame, rules, room, self.kind or by_shape)

    def words(self) -> dict[str, Any]:
        """With the choice of how images got to their size."""
        words = used(self.model_dump(mode="json"))
        fit = {"fit": self.fit or FIT} if self.size is not None and "fit" in words else {}
        return {**words, **fit, **({} if self.memory is None else {"memory": self.memory})}

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
        unused = ("sites", *(OF_NAMED_SETS if names_a_path(str(words.get("name"))) else OF_OWN_DATA))
        if words.get("split") == {"kind": "users"}:  # users bring their own number
            unused += ("clients",)
    unused += ("memory",)  # which changes no result
    # Older folders do not name the fit.
    return {key: value for key, value in words.items() if key not in unused and (key, value) != ("fit", FIT)}


def names_a_path(name: str) -> bool:
    return is_path(name) and name not in SOURCES
