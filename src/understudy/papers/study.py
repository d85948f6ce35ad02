"""A study of a paper as data: what it is at which scale, and its results.

``Findings`` are plain values: lines, cells, points and sentences. Keys are the stems of the files they end up in; how
they look is up to `view`. A study of a published table or figure also has what the paper printed, cell by cell, and its
claims with their tests (`papers.published`).
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from understudy.data.examples import Examples
from understudy.data.problem import Problem

Scale = Literal["smoke", "desk", "paper"]
Changes = Mapping[str, Any]  # in a config
TableCell = tuple[str, str]  # row and column of a number
Style = Literal["line", "dashed", "dotted", "dots", "line and dots", "seeds", "joined seeds"]
SCARCELY = 0.01  # of a budget: FedNova's step counts, a few bytes beside the model, should not cost it a round


@dataclass(frozen=True)
class StudyLine:
    """What one contender reached. Shares between 0 and 1, one per seed."""

    label: str
    accuracies: Sequence[float]  # after the last round
    best: Sequence[float] = ()  # of all rounds
    rate: float | None = None  # the learning rate chosen
    validation: Mapping[str, float | None] = field(default_factory=dict)  # by rate: what tuning saw; None: it diverged
    megabytes: float | None = None  # up and down, all clients, one run
    seconds: float | None = None  # one run
    more: Mapping[str, float] = field(default_factory=dict)  # means of further metrics of the last round
    rounds: Sequence[int] = ()  # rounds scored; below, by seed and by round
    values: Sequence[Sequence[float]] = ()
    sent: Sequence[Sequence[float]] = ()  # megabytes from the opening to that round
    leak: float | None = None  # records recognised where 1 % of others are taken for members; None: not audited
    epsilon: float | None = None  # promised to each record, the largest of all seeds; None: not everything is covered
    made_by: str = ""  # version and commit of the code that ran

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def spread(self) -> float:
        return spread(self.accuracies)

    def by_round(self, of: Callable[[Sequence[float]], float] = statistics.fmean) -> list[float]:
        """The mean over seeds after each round, or ``min`` or ``max``."""
        return [of(seeds) for seeds in zip(*self.values, strict=True)]

    @property
    def sent_by_round(self) -> list[float]:
        """Mean over seeds: each seed has its own split, and with it surrogates of another size."""
        return [statistics.fmean(seeds) for seeds in zip(*self.sent, strict=True)]

    def within(self, budget: float) -> list[float]:
        """Each seed's value after the last round by which at most ``budget`` was sent, in the mean of seeds."""
        sent = self.sent_by_round
        last = max(at for at, total in enumerate(sent) if at == 0 or total <= budget * (1 + SCARCELY))
        return [seed[last] for seed in self.values]


def spread(values: Sequence[float]) -> float:
    """Standard deviation over seeds."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def said(values: Sequence[float]) -> str:
    """Shares in percent: mean ± standard deviation over seeds. A single seed has no spread, and is called one."""
    return mean_and_spread([100 * value for value in values], 1)


def mean_and_spread(values: Sequence[float], digits: int) -> str:
    mean = f"{statistics.fmean(values):.{digits}f}"
    return f"{mean} ± {spread(values):.{digits}f}" if len(values) > 1 else f"{mean}, one seed"


def axis_top(highest: float) -> float:
    """Of an axis of accuracies, in percent."""
    return 100 if highest > 60 else max(highest * 1.15, 1)


def plain(number: float | None) -> str:
    return "–" if number is None else f"{number:g}"


@dataclass(frozen=True)
class StudyTable:
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    heading: str = ""
    words: int = 1  # this many columns from the left are words, the others numbers


@dataclass(frozen=True)
class Trace:
    """One line of a panel, or dots. The dots of ``seeds`` have a bar at the mean of those at one x."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: int = 0  # number of colour; lines of one look belong together
    style: Style = "line"
    low: Sequence[float] | None = None  # with ``high``: a band around the line, from the worst seed to the best
    high: Sequence[float] | None = None
    family: str = ""  # of its look, for the legend of a drawing whose labels stand ``beside`` the dots


@dataclass(frozen=True)
class Panel:
    heading: str
    xlabel: str
    ylabel: str
    traces: Sequence[Trace]
    log_x: bool = False
    log_y: bool = False
    shaded: tuple[float, float] | None = None  # a stretch of the x axis to highlight
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    from_zero: bool = False  # the x axis begins there
    names: Sequence[str] = ()  # what x = 0, 1, … are called
    sideways: bool = False  # names down the side, values across
    level: tuple[str, float] | None = None  # a line across to compare with
    near_100: bool = False  # y is in percent, and the closer to 100 the more room: halving what is missing is one step
    goal: tuple[float, float, str] | None = None  # the corner where x is at most and y at least that, and what it means


@dataclass(frozen=True)
class Drawing:
    """Panels side by side and below each other, under one title."""

    title: str
    panels: Sequence[Panel]
    across: int | None = None  # panels in a row; None: as many as fit
    # below: lines with one label look alike everywhere; beside: each label stands next to its dot
    legend: Literal["in each", "below", "ends", "beside", "none"] = "in each"
    same_height: bool = False  # all panels share one y axis


@dataclass(frozen=True)
class Mosaic:
    """Sets of images, one row each, by class."""

    title: str
    sets: Mapping[str, Examples]
    problem: Problem
    names: Sequence[str]  # of classes


@dataclass(frozen=True)
class Findings:
    about: str  # what was compared, for the title
    lines: Sequence[StudyLine] = ()
    tables: Mapping[str, Sequence[StudyTable]] = field(default_factory=dict)  # this and the next two by stem of a file
    pictures: Mapping[str, Drawing] = field(default_factory=dict)
    mosaics: Mapping[str, Mosaic] = field(default_factory=dict)
    notes: Sequence[str] = ()  # which claims held, in sentences with numbers
    numbers: Mapping[str, Any] = field(default_factory=dict)  # anything else measured
    config: Changes = field(default_factory=dict)  # what all lines have in common
    rates: Sequence[float] = ()  # rates tried
    values: Mapping[TableCell, Sequence[float]] = field(default_factory=dict)  # by seed, as the paper would print them
    made_by: str = ""  # version and commit of the code that ran, where lines do not tell


@dataclass(frozen=True)
class Shown:
    """How a study's table.json is read for the page of a method. Rows of other methods do not match ``label``."""

    setup: str  # in words; {}: what differs between a method's rows
    label: str  # pattern of a row's label: ``method``, and ``more`` for what differs
    called: Mapping[str, str] = field(default_factory=dict)  # from its name in the label to the method
    scale: Scale = "desk"
