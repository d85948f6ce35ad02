"""What a page is made of, as values: facts in large type, and sections of sentences, charts, tables and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.papers.study import StudyTable
from understudy.view.html.charts import Chart
from understudy.view.html.gallery import Gallery


@dataclass(frozen=True)
class KeyFigure:
    name: str
    value: str
    about: str = ""


@dataclass(frozen=True)
class Listing:
    """Text in full width, such as a config or a command; folded away unless ``unfolded``."""

    heading: str
    text: str
    unfolded: bool = False


@dataclass(frozen=True)
class Section:
    """Shown in the order of its fields."""

    name: str  # unique on its page: its address
    heading: str
    text: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    gallery: Gallery | None = None
    tables: Sequence[StudyTable] = ()
    notes: Sequence[str] = ()
    folded: Sequence[StudyTable] = ()  # tables that not everybody wants
    listings: Sequence[Listing] = ()


@dataclass(frozen=True)
class Account:
    """One run, or one study, told in sections."""

    title: str
    lede: str
    facts: Sequence[KeyFigure]
    sections: Sequence[Section]
    warnings: Sequence[str] = ()
    name: str = ""  # begins its addresses where a page tells of several
