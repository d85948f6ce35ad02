"""Studies: what is compared at which scale, and, for a table or figure of a paper, what it printed and claims."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from understudy.complaints import unknown_name
from understudy.errors import UserError
from understudy.papers.carrying_out import NeededRun, PlayedLines, carry_out, every_run, played_lines
from understudy.papers.claims import ONE_POINT, Evidence, PaperClaim, Verdict
from understudy.papers.comparison import Comparison
from understudy.papers.study import Findings, Scale, Shown, TableCell
from understudy.runs.run_store import RunStore
from understudy.runs.watching import Observer


class Experiment(Protocol):
    """What a study is at one scale."""

    def runs(self, store: RunStore, only: Sequence[str] = ()) -> Sequence[NeededRun]:
        """All that it takes, done or not. ``only``: for the lines with one of these texts in their label."""

    def run(self, store: RunStore, observer: Observer, workers: int, only: Sequence[str] = ()) -> Findings:
        """Runs what is missing, of those lines or of all; tells of everything that is there."""

    def read(self, store: RunStore) -> Findings | None:
        """From what is there; cells that were not run stay empty. None: it cannot be told without running it."""


@dataclass(frozen=True)
class FromRuns:
    """Told from runs in the store."""

    comparisons: Sequence[Comparison]
    tell: Callable[[PlayedLines], Findings]

    def runs(self, store: RunStore, only: Sequence[str] = ()) -> Sequence[NeededRun]:
        every = [one for plan in self._narrowed(only) for one in every_run(plan, store)]
        return list({one.run.digest: one for one in every}.values())

    def run(self, store: RunStore, observer: Observer, workers: int, only: Sequence[str] = ()) -> Findings:
        carry_out(self._narrowed(only), store, observer, workers)
        return self.tell(played_lines(self.comparisons, store))

    def read(self, store: RunStore) -> Findings | None:
        return self.tell(played_lines(self.comparisons, store))

    def _narrowed(self, only: Sequence[str]) -> Sequence[Comparison]:
        if not only:
            return self.comparisons
        labels = [one.label for plan in self.comparisons for one in plan.contenders]
        for text in only:
            if not any(text in label for label in labels):
                raise unknown_name("line", text, labels)
        return [plan.narrowed(only) for plan in self.comparisons]


@dataclass(frozen=True)
class Later:
    """An experiment that depends on what is on the machine, such as data sets: made when it is asked for."""

    make: Callable[[], Experiment]

    def runs(self, store: RunStore, only: Sequence[str] = ()) -> Sequence[NeededRun]:
        return self.make().runs(store, only)

    def run(self, store: RunStore, observer: Observer, workers: int, only: Sequence[str] = ()) -> Findings:
        return self.make().run(store, observer, workers, only)

    def read(self, store: RunStore) -> Findings | None:
        return self.make().read(store)


@dataclass(frozen=True)
class Direct:
    """Worked out without runs of a federation: formulas, one-client experiments, timings."""

    work: Callable[[Path, Observer], Findings]
    about_seconds: float = 60.0

    def runs(self, store: RunStore, only: Sequence[str] = ()) -> Sequence[NeededRun]:
        self._as_a_whole(only)
        return []

    def run(self, store: RunStore, observer: Observer, workers: int, only: Sequence[str] = ()) -> Findings:
        self._as_a_whole(only)
        return self.work(store.root / "direct", observer)

    def read(self, store: RunStore) -> Findings | None:
        return None

    def _as_a_whole(self, only: Sequence[str]) -> None:
        if only:
            raise UserError("This one is worked out as a whole, not line by line; leave out --only.")


@dataclass(frozen=True)
class Published:
    """A table or figure of a paper."""

    paper: str  # its title
    place: str  # "table 1"
    cells: Mapping[TableCell, float]  # as printed; rows and columns are those of the findings' values
    claims: Sequence[PaperClaim]
    unit: str = "%"
    grain: float = ONE_POINT  # in that unit: what counts as the spread of a single run
    stand_ins: Sequence[str] = ()  # rows whose accuracy comes from synthetic data that left: they need a leak
    remarks: Sequence[str] = ()  # where the paper contradicts itself; what differs at which scale

    def verdicts(self, found: Findings | None, scale: Scale) -> list[Verdict]:
        """One per claim."""
        evidence = Evidence({} if found is None else found.values, self.cells, self.grain)
        return [
            claim.test(evidence) if scale in claim.scales else Verdict("not run", f"cannot be judged at scale {scale}")
            for claim in self.claims
        ]


@dataclass(frozen=True)
class Study:
    name: str
    about: str  # for the list of studies
    scales: Mapping[Scale, Experiment]
    shown: Shown | None = None  # on the pages of its methods
    published: Published | None = None  # None: a comparison of our own
    more: Sequence[str] = field(default_factory=tuple)  # sentences for its page
