"""Rounds to a target accuracy, with and without shuffled synthetic data: the main table of "Synthetic data shuffling
accelerates the convergence of federated learning under data heterogeneity".

Five methods, two splits, all clients or four of ten in a round; learning rates tuned alike for every line. The number
of gradient steps is the same with and without synthetic data. The target is fixed beforehand.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.papers.curve_panels import over_rounds, read_curves
from understudy.papers.experiment import Experiment, Findings, Panel, Style, markdown_table
from understudy.papers.seed_curves import SeedCurve
from understudy.papers.trained_once import Changes, TrainedOnce
from understudy.papers.tuned import Comparison, Contender, Standing, compare_tuned
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
    """Who takes part in a round, how many rounds there are, and how many while rates are tried."""

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
    """Until the target, one number a seed; None: not within the run."""

    to_target: Sequence[int | None]
    run: int  # rounds of the run

    @property
    def mean(self) -> float:
        """Over seeds; one that did not get there counts as one round more than the run had."""
        return statistics.fmean(self.run + 1 if rounds is None else rounds for rounds in self.to_target)

    @property
    def at_least(self) -> bool:
        return None in self.to_target

    def __str__(self) -> str:
        return f"{'> ' if self.at_least else ''}{self.mean:.1f}"


def rounds_to(curve: SeedCurve, target: float) -> RoundsNeeded:
    """The first scored round of each seed with at least the target."""
    found = [
        next((at for at, value in zip(curve.rounds, seed, strict=True) if value >= target), None)
        for seed in curve.values
    ]
    return RoundsNeeded(found, curve.rounds[-1])


def speed_up(without: RoundsNeeded, shuffled: RoundsNeeded) -> str:
    """How many times the rounds; a bound where one side did not get there, nothing where neither did."""
    ratio = without.mean / max(shuffled.mean, 1)
    if without.at_least and shuffled.at_least:
        return "–"
    bound = "> " if without.at_least else "< " if shuffled.at_least else ""
    return f"{bound}{ratio:.1f}×"


def rounds_study(plan: RoundsPlan) -> Experiment:
    def play(out: Path, observer: Observer) -> Findings:
        once = TrainedOnce(plan.config, out / "generators", observer)
        standings: dict[str, Standing] = {}
        curves: dict[str, SeedCurve] = {}
        for taking in plan.takings:
            comparison = _comparison(plan, taking, once)
            found = compare_tuned(comparison, out, observer)
            standings |= {one.label: one for one in found}
            curves |= read_curves(comparison, found, out)
        return _findings(plan, standings, curves)

    return Experiment("fedssyn-rounds", ABOUT, play)


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


# ---- what came of it


def _findings(plan: RoundsPlan, standings: Mapping[str, Standing], curves: Mapping[str, SeedCurve]) -> Findings:
    headings = ["split, clients a round, method", "rate without", "with", "rounds without", "with", "speed-up"]
    numbers: dict[str, object] = {}
    rows, faster = [], 0
    for alpha, taking, method in _cells(plan):
        names = [_label(name, alpha, taking) for name in (method, method + WITH)]
        rates = [f"{standings[name].rate:g}" for name in names]
        without, shuffled = (rounds_to(curves[name], TARGET) for name in names)
        last = [f"{100 * standings[name].mean:.1f}" for name in names]
        rows.append([names[0], *rates, str(without), str(shuffled), speed_up(without, shuffled), *last])
        faster += shuffled.mean < without.mean
        numbers |= {name: _numbers(standings[name], curves[name]) for name in names}
    notes = [
        f"With Fedssyn {TARGET:.0%} is reached in fewer rounds in {faster} of {len(rows)} lines; a run that did not "
        "get there counts as one round more than it had."
    ]
    table = markdown_table([*headings, "last accuracy without, %", "with"], rows)
    return Findings({"target": TARGET, "lines": numbers}, table, _panels(plan, curves), notes)


def _cells(plan: RoundsPlan) -> list[tuple[float, Taking, str]]:
    return [(alpha, taking, method) for alpha in plan.alphas for taking in plan.takings for method in plan.methods]


def _numbers(standing: Standing, curve: SeedCurve) -> dict[str, object]:
    rounds = rounds_to(curve, TARGET).to_target
    tuned = {"rate": standing.rate, "validation": standing.validation, "megabytes": standing.megabytes}
    return {**tuned, "rounds_to_target": rounds, "accuracies": curve.values}


def _panels(plan: RoundsPlan, curves: Mapping[str, SeedCurve]) -> list[Panel]:
    looks = {method + more: number for number, method in enumerate(plan.methods) for more in ("", WITH)}
    styles: dict[str, Style] = {label: "line" if label.endswith(WITH) else "dashed" for label in looks}
    return [
        over_rounds(
            f"α = {alpha:g}, {taking.said}",
            {label: curves[_label(label, alpha, taking)] for label in looks},
            looks,
            styles,
        )
        for alpha in plan.alphas
        for taking in plan.takings
    ]
