"""What runs that differ only in their seed reached, as one line of a study."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import accumulate

from understudy.files import MEGABYTE
from understudy.papers.run_store import FinishedRun
from understudy.papers.study import StudyLine
from understudy.runs.folder import Line
from understudy.runs.leak import read_audited

FURTHER = ("corrected_accuracy", "local_accuracy", "personal_accuracy", "local_distance", "macro_f1")


def line_of_runs(
    label: str,
    runs: Sequence[FinishedRun],
    measure: str = "accuracy",
    rate: float | None = None,
    validation: Mapping[str, float | None] | None = None,
) -> StudyLine:
    last = [run.metrics[-1] for run in runs]
    points = [_points(run.metrics, measure) for run in runs]
    values = [[value for _, _, value in run] for run in points]
    sent = [(run.summary["bytes_up"] + run.summary["bytes_down"]) / 1e6 for run in runs]
    epsilons = [run.summary["epsilon"] for run in runs]
    return StudyLine(
        label,
        [line[measure] for line in last],
        [max(curve) for curve in values],
        rate,
        validation or {},
        statistics.fmean(sent),
        statistics.fmean(run.summary["seconds"] for run in runs),
        _further(last),
        [round for round, _, _ in points[0]],
        values,
        [[total for _, total, _ in run] for run in points],
        _leak(runs),
        None if None in epsilons else max(epsilons),
        "; ".join(sorted({run.made_by for run in runs})),
    )


def _leak(runs: Sequence[FinishedRun]) -> float | None:
    """By the audits of these runs, if there are any."""
    audits = [audited.leak for run in runs if (audited := read_audited(run.folder)) is not None]
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
