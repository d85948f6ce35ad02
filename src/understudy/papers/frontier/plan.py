"""The points of the frontier, and how they are run: what each stand-in reaches, sends and gives away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from understudy.papers.study import Changes
from understudy.papers.tuned import Comparison, Contender

SERVER_RATE, LOCAL_RATE, LAP_RATE = "method.server.lr", "method.local.lr", "method.lr"
MILD, EXTREME = "α = 0.1", "α = 0.01"  # digits by Dirichlet splits
CLOTHES = "Fashion-MNIST, class pairs"  # many records per client, for what is private


@dataclass(frozen=True)
class Point:
    """One stand-in."""

    label: str
    family: str  # points of one family have one colour
    changes: Changes
    rate: str = SERVER_RATE  # the setting that is tuned
    like: str = ""  # takes the rate of the point with this label; empty: tuned itself
    rates: Sequence[float] = ()  # its own candidates
    decides: bool = False  # attacked by likelihood ratios with shadow clients too
    splits: Sequence[str] = (MILD, EXTREME)
    seeds: Sequence[int] = ()  # its own, where a run takes long; empty: those of the plan


@dataclass(frozen=True)
class FrontierPlan:
    name: str
    about: str
    config: Changes
    splits: Mapping[str, Changes]  # by heading
    points: Sequence[Point]
    rates: Sequence[float]
    seeds: Sequence[int]
    audited: int = 0  # the seed whose run is attacked
    tuning: Changes = field(default_factory=dict)

    def on(self, split: str) -> list[Point]:
        return [point for point in self.points if split in point.splits]

    def contender(self, point: Point, split: str, rates: Sequence[float]) -> Contender:
        def by_seed(seed: int) -> Changes:
            return {"transcript": seed == self.audited}

        changes = {**self.splits[split], **point.changes}
        return Contender(called(point, split), changes, point.rate, rates, by_seed)

    def comparison(self, point: Point, split: str, rates: Sequence[float]) -> Comparison:
        contender, seeds = self.contender(point, split, rates), point.seeds or self.seeds
        return Comparison(self.name, self.about, self.config, self.rates, seeds, [contender], tuning=self.tuning)


def called(point: Point, split: str) -> str:
    return f"{point.label}, {split}"
