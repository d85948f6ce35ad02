"""A fair comparison: every contender's learning rate is tuned alike, then it runs with several seeds.

Rates are chosen on a validation share of the training records, with a separate seed; the runs that count train
on all training records and are scored on the test set, which chooses nothing. Each run has a folder, so a comparison
that was stopped continues where it was.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.papers.study import Changes, StudyLine, plain
from understudy.runs.compare import MEGABYTE
from understudy.runs.folder import Line, RunFolder
from understudy.runs.leak import read_audited
from understudy.runs.play import play
from understudy.runs.rounds import Result
from understudy.runs.watching import Observer, RunStopped

TUNING_SEED = 1000
VALIDATION = 0.2
ON_THE_TEST_SET = ("accuracy", "corrected_accuracy", "local_accuracy", "personal_accuracy", "macro_f1", "sample_f1")
FURTHER = ("corrected_accuracy", "local_accuracy", "personal_accuracy", "local_distance", "macro_f1")


@dataclass(frozen=True)
class Contender:
    label: str
    changes: Changes  # what it changes in the common config
    rate: str = "method.local.lr"  # the setting that is tuned
    rates: Sequence[float] = ()  # its own candidates; empty: those of the comparison
    by_seed: Callable[[int], Changes] = lambda seed: {}  # what it changes in the run with one seed


@dataclass(frozen=True)
class Comparison:
    name: str
    about: str
    config: Changes  # what all have in common
    rates: Sequence[float]
    seeds: Sequence[int]
    contenders: Sequence[Contender]
    measure: str = "accuracy"  # the metric reported
    tuned_on: str = "validation_accuracy"
    panels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of curves: heading, line, contender
    tuning: Changes = field(default_factory=dict)  # what differs while tuning rates, such as fewer rounds

    def __post_init__(self) -> None:
        if TUNING_SEED in self.seeds:
            raise UserError(f"{self.name}: seed {TUNING_SEED} is reserved for tuning rates; choose another.")
        if self.tuned_on in ON_THE_TEST_SET:
            raise UserError(f"{self.name}: '{self.tuned_on}' comes from the test set, which chooses nothing.")


def run_folder(out: Path, label: str, rate: float | None, seed: int | None = None) -> Path:
    """The folder of a contender's run with a rate; without a seed, that of the tuning run."""
    name = f"rate-{plain(rate)}"
    return out / "runs" / label / (name if seed is None else f"{name}-seed-{seed}")


def counted_run(out: Path, line: StudyLine, seed: int) -> Path:
    """The folder of the run with that seed, below the folder of the comparison."""
    return run_folder(out, line.label, line.rate, seed)


def compare_tuned(plan: Comparison, out: Path, observer: Observer) -> list[StudyLine]:
    return [_tuned_line(plan, contender, out, observer) for contender in plan.contenders]


def _tuned_line(plan: Comparison, contender: Contender, out: Path, observer: Observer) -> StudyLine:
    observer.says(f"\n{contender.label}")
    rates = contender.rates or plan.rates
    choice = rates if len(rates) > 1 else ()  # a single rate needs no tuning
    seen = {f"{rate:g}": _validated(plan, contender, rate, out, observer) for rate in choice}
    rate = _chosen(contender, rates, seen) if choice else rates[0]
    results = [_counted(plan, contender, rate, seed, out, observer) for seed in plan.seeds]
    return line_of(contender.label, results, plan.measure, rate, seen)


def _validated(plan: Comparison, contender: Contender, rate: float, out: Path, observer: Observer) -> float | None:
    """Accuracy on the validation share with that rate; None if it diverged."""
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


def _chosen(contender: Contender, rates: Sequence[float], seen: Mapping[str, float | None]) -> float:
    scored = {name: accuracy for name, accuracy in seen.items() if accuracy is not None}
    if not scored:
        raise UserError(f"{contender.label} diverged with every learning rate; try rates smaller than {rates}.")
    return float(max(scored, key=lambda name: scored[name]))


def _counted(plan: Comparison, contender: Contender, rate: float, seed: int, out: Path, observer: Observer) -> Result:
    changes = {**contender.changes, **contender.by_seed(seed), contender.rate: rate, "seed": seed}
    folder = run_folder(out, contender.label, rate, seed)
    return play(resolve(dict(plan.config), changes), folder, resume=True, observer=observer)


def line_of(
    label: str,
    results: Sequence[Result],
    measure: str = "accuracy",
    rate: float | None = None,
    validation: Mapping[str, float | None] | None = None,
) -> StudyLine:
    """The results of runs that differ only in their seed."""
    last = [result.metrics[-1] for result in results]
    points = [_points(result.metrics, measure) for result in results]
    values = [[value for _, _, value in run] for run in points]
    sent = [(result.summary["bytes_up"] + result.summary["bytes_down"]) / 1e6 for result in results]
    return StudyLine(
        label,
        [line[measure] for line in last],
        [max(curve) for curve in values],
        rate,
        validation or {},
        statistics.fmean(sent),
        statistics.fmean(result.summary["seconds"] for result in results),
        _further(last),
        [round for round, _, _ in points[0]],
        values,
        [[total for _, total, _ in run] for run in points],
        _leak(results),
    )


def _leak(results: Sequence[Result]) -> float | None:
    """By the audits of these runs, if there are any."""
    audits = [audited.leak for result in results if (audited := read_audited(result.folder)) is not None]
    found = [leak.caught for leak in audits if leak is not None]
    return statistics.fmean(found) if found else None


def _points(metrics: Sequence[Line], measure: str) -> list[tuple[int, float, float]]:
    """For each scored round: its number, the megabytes sent so far, and the score."""
    sent = accumulate((line["bytes_up"] + line["bytes_down"]) / MEGABYTE for line in metrics)
    scored = zip(metrics, sent, strict=True)
    return [(line["round"], total, line[measure]) for line, total in scored if line.get(measure) is not None]


def _further(last: Sequence[Line]) -> dict[str, float]:
    there = [key for key in FURTHER if all(line.get(key) is not None for line in last)]
    return {key: statistics.fmean(line[key] for line in last) for key in there}
