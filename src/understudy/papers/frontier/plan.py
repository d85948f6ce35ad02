"""The points of the frontier, and how they are run: what each stand-in reaches, sends and gives away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from understudy.papers.comparison import Comparison, Contender
from understudy.papers.study import Changes

SERVER_RATE, LOCAL_RATE, LAP_RATE = "method.server.lr", "method.local.lr", "method.lr"
MILD, EXTREME = "α = 0.1", "α = 0.01"  # digits by Dirichlet splits
CLOTHES = "Fashion-MNIST, class pairs"  # many records per client, for what is private
MILD_CLOTHES, MILD_PHOTOS = "Fashion-MNIST, α = 0.1", "CIFAR-10, α = 0.1"  # whether it holds beyond digits


@dataclass(frozen=True)
class Point:
    """One stand-in."""

    label: str
    family: str  # points of one family have one colour
    changes: Changes
    rate: str = SERVER_RATE  # the setting that is tuned
    like: str = ""  # takes the rate of the point with this label; empty: tuned itself
    rates: Sequence[float] = ()  # its own candidates
    decides: bool = False  # on the mild split of digits attacked by likelihood ratios with shadow clients too
    splits: Sequence[str] = (MILD, EXTREME)
    every_seed: bool = False  # is attacked, not the first alone


@dataclass(frozen=True)
class FrontierPlan:
    name: str
    about: str
    config: Changes
    splits: Mapping[str, Changes]  # by heading
    points: Sequence[Point]
    rates: Sequence[float]
    seeds: Sequence[int]
    tuning: Changes = field(default_factory=dict)

    def on(self, split: str) -> list[Point]:
        return [point for point in self.points if split in point.splits]

    def comparison(self) -> Comparison:
        """Every point on every split that it is meant for, as one line each."""
        contenders = [self._contender(point, split) for split in self.splits for point in self.on(split)]
        return Comparison(self.name, self.about, self.config, self.rates, self.seeds, contenders, tuning=self.tuning)

    def _contender(self, point: Point, split: str) -> Contender:
        return Contender(
            called(point, split),
            {**self.splits[split], **point.changes},
            point.rate,
            point.rates,
            f"{point.like}, {split}" if point.like else "",
            audited="thorough" if point.decides and split == MILD else "quick",
            audited_alike=point.every_seed,
        )


def called(point: Point, split: str) -> str:
    return f"{point.label}, {split}"
