"""Rounds to a target accuracy, with and without shuffled synthetic data: the main table of "Synthetic data shuffling
accelerates the convergence of federated learning under data heterogeneity".

Five methods, two splits, all clients or four of ten per round; learning rates tuned alike for every line. The number
of gradient steps is the same with and without synthetic data. The target is fixed beforehand.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from understudy.papers.study import Changes, Drawing, Findings, Panel, StudyLine, StudyTable, Trace, plain
from understudy.papers.trained_once import TrainedOnce
from understudy.papers.tuned import Comparison, Contender, compare_tuned
from understudy.runs.watching import Observer

ABOUT = "Accuracy over rounds with Fedssyn and without: 4000 MNIST images at 14×14 over ten clients"
TARGET = 0.8
METHODS: Mapping[str, Changes] = {
    "FedAvg": {},
    "SCAFFOLD": {"method.name": "scaffold"},
    "FedProx": {"method.name": "fedprox", "method.mu": 0.01},
    "FedDyn": {"method.name": "feddyn", "method.alpha": 0.1},
    "FedPVR": {"method.name": "fedpvr"},
}
WITH = " + Fedssyn"


@dataclass(frozen=True)
class Taking:
    """Who takes part in a round, how many rounds there are, and how many while tuning rates."""

    said: str
    cohort: float
    rounds: int
    tuning: int


@dataclass(frozen=True)
class RoundsPlan:
    config: Changes
    generator: Changes
    alphas: Sequence[float]
    takings: Sequence[Taking]
    rates: Sequence[float]
    seeds: Sequence[int]
    methods: Sequence[str] = tuple(METHODS)


@dataclass(frozen=True)
class RoundsNeeded:
    """Until the target, one number per seed; None: not within the run."""

    to_target: Sequence[int | None]
    run: int  # rounds of the run

    @property
    def mean(self) -> float:
        """Over seeds; one that never reached the target counts as one round more than the run had."""
        return statistics.fmean(self.run + 1 if rounds is None else rounds for rounds in self.to_target)

    @property
    def at_least(self) -> bool:
        return None in self.to_target

    def __str__(self) -> str:
        return f"{'> ' if self.at_least else ''}{self.mean:.1f}"


def rounds_to(line: StudyLine, target: float) -> RoundsNeeded:
    """The first scored round of each seed that reaches the target."""
    found = [
        next((at for at, value in zip(line.rounds, seed, strict=True) if value >= target), None) for seed in line.values
    ]
    return RoundsNeeded(found, line.rounds[-1])


def speed_up(without: RoundsNeeded, shuffled: RoundsNeeded) -> str:
    """How many times the rounds; a bound if one side never got there, nothing if neither did."""
    ratio = without.mean / max(shuffled.mean, 1)
    if without.at_least and shuffled.at_least:
        return "–"
    bound = "> " if without.at_least else "< " if shuffled.at_least else ""
    return f"{bound}{ratio:.1f}×"


def rounds_study(plan: RoundsPlan, out: Path, observer: Observer) -> Findings:
    once = TrainedOnce(plan.config, out / "generators", observer)
    played = [compare_tuned(_comparison(plan, taking, once), out, observer) for taking in plan.takings]
    return _findings(plan, {one.label: one for lines in played for one in lines})


def _comparison(plan: RoundsPlan, taking: Taking, once: TrainedOnce) -> Comparison:
    contenders = []
    for alpha in plan.alphas:
        split = {"data.split.alpha": alpha}
        shuffling = once.shuffling(f"alpha-{alpha:g}", plan.generator, split=split)
        for method in plan.methods:
            changes = {**METHODS[method], **split, "method.cohort": taking.cohort, "method.rounds": taking.rounds}
            contenders.append(Contender(_label(method, alpha, taking), changes))
            contenders.append(Contender(_label(method + WITH, alpha, taking), changes, by_seed=shuffling))
    tuning = {"method.rounds": taking.tuning}
    return Comparison("fedssyn-rounds", ABOUT, plan.config, plan.rates, plan.seeds, contenders, tuning=tuning)


def _label(method: str, alpha: float, taking: Taking) -> str:
    return f"{method}, α={alpha:g}, {taking.said}"


# ---- results


def _findings(plan: RoundsPlan, found: Mapping[str, StudyLine]) -> Findings:
    rows, ordered, faster = [], [], 0
    for alpha, taking, method in product(plan.alphas, plan.takings, plan.methods):
        pair = [found[_label(name, alpha, taking)] for name in (method, method + WITH)]
        without, shuffled = (rounds_to(one, TARGET) for one in pair)
        rates, last = [plain(one.rate) for one in pair], [f"{100 * one.mean:.1f}" for one in pair]
        rows.append([pair[0].label, *rates, str(without), str(shuffled), speed_up(without, shuffled), *last])
        faster += shuffled.mean < without.mean
        ordered += pair
    note = (
        f"With Fedssyn {TARGET:.0%} is reached in fewer rounds in {faster} of {len(rows)} lines; a run that never "
        "gets there counts as one round more than it had."
    )
    headings = ["split, clients per round, method", "rate without", "with", "rounds without", "with", "speed-up"]
    table = StudyTable([*headings, "last accuracy without, %", "with"], rows)
    drawing = Drawing(ABOUT, _panels(plan, found), legend="below")
    needed = {one.label: rounds_to(one, TARGET).to_target for one in ordered}
    numbers = {"target": TARGET, "rounds_to_target": needed}
    return Findings(ABOUT, ordered, {"table": [table]}, {"table": drawing}, notes=[note], numbers=numbers)


def _panels(plan: RoundsPlan, found: Mapping[str, StudyLine]) -> list[Panel]:
    """There are many lines, so they have no band."""
    panels = []
    for alpha, taking in product(plan.alphas, plan.takings):
        traces = []
        for look, method in enumerate(plan.methods):
            for name in (method, method + WITH):
                one = found[_label(name, alpha, taking)]
                mean = [100 * value for value in one.by_round()]
                traces.append(Trace(name, one.rounds, mean, look, "line" if name.endswith(WITH) else "dashed"))
        panels.append(Panel(f"α = {alpha:g}, {taking.said}", "round", "test accuracy (%), mean of seeds", traces))
    return panels
