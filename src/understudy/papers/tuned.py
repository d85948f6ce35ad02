"""A fair comparison: every contender's learning rate is tuned alike, then it runs with several seeds.

Rates are chosen on a validation share of the training records, with a seed of their own; the runs that count train
on all training records and are scored on the test set, which chooses nothing. Each run has a folder, so a comparison
that was stopped goes on where it was.
"""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.files import write_whole
from understudy.runs.folder import RunFolder
from understudy.runs.play import RunStopped, play
from understudy.runs.watching import Observer

TUNING_SEED = 1000
VALIDATION = 0.2
ON_THE_TEST_SET = ("accuracy", "corrected_accuracy", "local_accuracy", "personal_accuracy", "macro_f1", "sample_f1")


@dataclass(frozen=True)
class Contender:
    label: str
    changes: Mapping[str, Any]  # what it changes in the common config
    rate: str = "method.local.lr"  # the setting that is tuned
    rates: Sequence[float] = ()  # its own candidates; empty: those of the comparison
    by_seed: Callable[[int], Mapping[str, Any]] = lambda seed: {}  # what it changes in the run with one seed


@dataclass(frozen=True)
class Comparison:
    name: str
    about: str
    config: Mapping[str, Any]  # what all have in common
    rates: Sequence[float]
    seeds: Sequence[int]
    contenders: Sequence[Contender]
    measure: str = "accuracy"  # the metric of a round that counts
    tuned_on: str = "validation_accuracy"
    panels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of curves: heading, line, contender
    tuning: Mapping[str, Any] = field(default_factory=dict)  # what differs while rates are tried, such as fewer rounds

    def __post_init__(self) -> None:
        if TUNING_SEED in self.seeds:
            raise UserError(f"{self.name}: seed {TUNING_SEED} is the one with which rates are tuned; choose another.")
        if self.tuned_on in ON_THE_TEST_SET:
            raise UserError(f"{self.name}: '{self.tuned_on}' is of the test set, which chooses nothing.")


@dataclass(frozen=True)
class Standing:
    """One contender's row. Accuracies are of the last round and of the best, a number a seed."""

    label: str
    rate: float
    validation: dict[str, float | None]  # by rate: what tuning saw; None: it diverged
    accuracies: list[float]
    best: list[float]
    megabytes: float  # up and down, all clients, one run
    seconds: float  # one run
    more: dict[str, float] = field(default_factory=dict)  # means of further metrics of the last round

    def run_folder(self, out: Path, seed: int) -> Path:
        """Of the run that counted with that seed, below the folder of the comparison."""
        return run_folder(out, self.label, self.rate, seed)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def spread(self) -> float:
        """Standard deviation over seeds."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0


FURTHER = ("corrected_accuracy", "local_accuracy", "personal_accuracy", "local_distance", "macro_f1")


def run_folder(out: Path, label: str, rate: float, seed: int | None = None) -> Path:
    """Where a contender's run with a rate is; without a seed the one by which the rate was tried."""
    return out / "runs" / label / (f"rate-{rate:g}" if seed is None else f"rate-{rate:g}-seed-{seed}")


def compare_tuned(plan: Comparison, out: Path, observer: Observer) -> list[Standing]:
    standings = [_standing(plan, contender, out, observer) for contender in plan.contenders]
    rows = [{**asdict(one), "mean": one.mean, "spread": one.spread} for one in standings]
    content = {"name": plan.name, "about": plan.about, "config": dict(plan.config), "rates": list(plan.rates)}
    write_whole(out / "table.json", (json.dumps({**content, "rows": rows}, indent=1) + "\n").encode())
    return standings


def _standing(plan: Comparison, contender: Contender, out: Path, observer: Observer) -> Standing:
    observer.says(f"\n{contender.label}")
    rates = contender.rates or plan.rates
    choice = rates if len(rates) > 1 else ()  # one alone needs no tuning
    seen = {f"{rate:g}": _validated(plan, contender, rate, out, observer) for rate in choice}
    scored = {name: accuracy for name, accuracy in seen.items() if accuracy is not None}
    if choice and not scored:
        raise UserError(f"{contender.label} diverged with every learning rate; try smaller ones than {rates}.")
    rate = float(max(scored, key=lambda name: scored[name])) if choice else rates[0]
    results = []
    for seed in plan.seeds:
        changes = {**contender.changes, **contender.by_seed(seed), contender.rate: rate, "seed": seed}
        config = resolve(dict(plan.config), changes)
        folder = run_folder(out, contender.label, rate, seed)
        results.append(play(config, folder, resume=True, observer=observer))
    last = [result.metrics[-1] for result in results]
    sent = [(result.summary["bytes_up"] + result.summary["bytes_down"]) / 1e6 for result in results]
    return Standing(
        contender.label,
        rate,
        seen,
        [line[plan.measure] for line in last],
        [max(line[plan.measure] for line in result.metrics if plan.measure in line) for result in results],
        statistics.fmean(sent),
        statistics.fmean(result.summary["seconds"] for result in results),
        {
            key: statistics.fmean(line[key] for line in last)
            for key in FURTHER
            if all(line.get(key) is not None for line in last)
        },
    )


def _validated(plan: Comparison, contender: Contender, rate: float, out: Path, observer: Observer) -> float | None:
    """Accuracy on the validation share with that rate; None where it diverged."""
    own = {**contender.changes, **contender.by_seed(TUNING_SEED)}
    changes = {**own, **plan.tuning, contender.rate: rate, "seed": TUNING_SEED}
    if plan.tuned_on == "validation_accuracy":
        changes["data.validation"] = VALIDATION
    folder = run_folder(out, contender.label, rate)
    try:
        play(resolve(dict(plan.config), changes), folder, resume=True, observer=observer)
    except RunStopped as diverged:
        observer.says(f"{contender.label} with rate {rate:g}: {diverged}")
        return None
    found: float | None = RunFolder(folder).metrics()[-1].get(plan.tuned_on)
    return found


def markdown(standings: Sequence[Standing]) -> str:
    """Best first."""
    lines = ["| method | rate | accuracy, mean ± spread | best round | MB | seconds |", "|---|--:|--:|--:|--:|--:|"]
    for one in sorted(standings, key=lambda one: -one.mean):
        best = 100 * statistics.fmean(one.best)
        lines.append(
            f"| {one.label} | {one.rate:g} | {100 * one.mean:.1f} ± {100 * one.spread:.1f} | {best:.1f} "
            f"| {one.megabytes:.1f} | {one.seconds:.0f} |"
        )
    return "\n".join(lines) + "\n"
