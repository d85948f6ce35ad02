"""Runs the frontier's points, attacks one run of each, and puts accuracy beside what was given away."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.audits.attack_run import audit_run
from understudy.audits.result import Audit, read_audit
from understudy.audits.spread import spread
from understudy.papers.frontier.plan import FrontierPlan, Point, called
from understudy.papers.study import Drawing, Findings, Panel, StudyLine, StudyTable, Trace, said
from understudy.papers.tuned import compare_tuned, counted_run
from understudy.runs.watching import Observer

COLUMNS = [
    "split",
    "stand-in",
    "accuracy, mean ± spread",
    "MB",
    "images per record",
    "caught at 1 %",
    "by chance",
    "in small classes",
    "AUC",
    "by chance",
    "near-copies",
    "ε",
]


MOST_CAUGHT, MOST_ABOVE_CHANCE = 0.02, 0.02  # of a stand-in that hardly leaks


@dataclass(frozen=True)
class Stand:
    """Where one point stands on one split."""

    point: Point
    split: str
    line: StudyLine
    audit: Audit


def frontier(plan: FrontierPlan, workers: int, out: Path, observer: Observer) -> Findings:
    return findings(plan, [one for split in plan.splits for one in _on_split(plan, split, workers, out, observer)])


def findings(plan: FrontierPlan, stands: Sequence[Stand]) -> Findings:
    table = StudyTable(COLUMNS, [_row(stand) for stand in sorted(stands, key=_in_order(plan))], words=2)
    return Findings(
        plan.about,
        [stand.line for stand in stands],
        {"table": [table]},
        _pictures(plan, stands),
        notes=[_nearest_to_the_goal(stands, split) for split in dict.fromkeys(stand.split for stand in stands)],
        numbers={"audits": {called(stand.point, stand.split): stand.audit.as_dict() for stand in stands}},
        config=plan.config,
        rates=plan.rates,
    )


def _in_order(plan: FrontierPlan) -> Callable[[Stand], tuple[int, float]]:
    """Split by split, the most accurate first."""
    splits = list(plan.splits)
    return lambda stand: (splits.index(stand.split), -stand.line.mean)


# ---- runs


def _on_split(plan: FrontierPlan, split: str, workers: int, out: Path, observer: Observer) -> list[Stand]:
    points = plan.on(split)
    first = [point for point in points if not point.like]
    rates: dict[str, Sequence[float]] = {point.label: point.rates or plan.rates for point in first}
    lines = _played(plan, split, first, rates, workers, out, observer)
    chosen = {label: [line.rate] for label, line in lines.items() if line.rate is not None}
    rest = [point for point in points if point.like]
    lines |= _played(plan, split, rest, {point.label: chosen[point.like] for point in rest}, workers, out, observer)
    return [
        Stand(point, split, lines[point.label], _audited(plan, point, lines[point.label], workers, out, observer))
        for point in points
    ]


def _played(
    plan: FrontierPlan,
    split: str,
    points: Sequence[Point],
    rates: Mapping[str, Sequence[float]],
    workers: int,
    out: Path,
    observer: Observer,
) -> dict[str, StudyLine]:
    def play(at: int) -> StudyLine:
        point = points[at]
        (line,) = compare_tuned(plan.comparison(point, split, rates[point.label]), out, observer)
        return line

    found = spread(play, list(range(len(points))), workers)
    return {point.label: line for point, line in zip(points, found, strict=True)}


def _audited(plan: FrontierPlan, point: Point, line: StudyLine, workers: int, out: Path, observer: Observer) -> Audit:
    """Once: a stored audit of the same run, as thorough, is read."""
    folder = counted_run(out, line, plan.audited)
    stored = read_audit(folder)
    if stored is not None and stored.rounds == line.rounds[-1] and stored.thorough >= point.decides:
        return stored
    observer.says(f"\naudit: {line.label}")
    return audit_run(folder, thorough=point.decides, workers=workers, observer=observer)


# ---- what came of it


def _row(stand: Stand) -> list[str]:
    audit, leak = stand.audit, stand.audit.leak
    assert leak is not None
    return [
        stand.split,
        _named(stand),
        said(stand.line.accuracies),
        f"{stand.line.megabytes:.2f}",
        f"{audit.share_sent:.2f}",
        f"{100 * leak.caught:.1f} % ({100 * leak.low:.1f}–{100 * leak.high:.1f}), {leak.attack}",
        f"{100 * leak.null:.1f} %",
        "–" if leak.small is None else f"{100 * leak.small:.1f} %",
        f"{leak.auc:.3f}",
        f"{leak.null_auc:.3f}",
        "–" if audit.copies is None else f"{100 * audit.copies.share:.0f} %",
        "–" if audit.epsilon is None else f"{audit.epsilon:.3g}",
    ]


def _pictures(plan: FrontierPlan, stands: Sequence[Stand]) -> dict[str, Drawing]:
    """One per split: labels beside the dots need the room."""
    families = list(dict.fromkeys(stand.point.family for stand in stands))
    splits = dict.fromkeys(stand.split for stand in stands)
    return {
        "table" if at == 0 else f"table-{at + 1}": Drawing(
            plan.about, [_panel([one for one in stands if one.split == split], families)], legend="ends"
        )
        for at, split in enumerate(splits)
    }


def _panel(here: Sequence[Stand], families: Sequence[str]) -> Panel:
    traces = [
        Trace(
            _named(stand),
            [max(100 * _caught(stand), 0.1)],
            [100 * statistics.fmean(stand.line.accuracies)],
            families.index(stand.point.family),
            "dots",
        )
        for stand in here
    ]
    chance = 100 * max(stand.audit.leak.null for stand in here if stand.audit.leak is not None)
    return Panel(
        f"{here[0].split}; grey: what chance reaches",
        "records recognised by the strongest attack, at 1 % false ones (%)",
        "accuracy after the last round (%)",
        traces,
        log_x=True,
        shaded=(0.5, chance),
    )


def _caught(stand: Stand) -> float:
    return 0.0 if stand.audit.leak is None else stand.audit.leak.caught


def _nearest_to_the_goal(stands: Sequence[Stand], split: str) -> str:
    """The most accurate stand-in that an attack hardly tells from nothing."""
    here = [stand for stand in stands if stand.split == split]
    quiet = [stand for stand in here if _is_quiet(stand)]
    best = max(here, key=lambda stand: stand.line.mean)
    if not quiet:
        return f"{split}: no stand-in stays at or below 2 % caught and 0.02 above chance in AUC."
    safest = max(quiet, key=lambda stand: stand.line.mean)
    behind = 100 * (best.line.mean - safest.line.mean)
    compared = f", {behind:.1f} points below {_named(best)}" if safest is not best else ", more than any other"
    return (
        f"{split}: of the stand-ins at or below 2 % caught and 0.02 above chance in AUC, small classes included, "
        f"{_named(safest)} is the most accurate, with {said(safest.line.accuracies)} %{compared}."
    )


def _named(stand: Stand) -> str:
    return f"{stand.point.family}: {stand.point.label}"


def _is_quiet(stand: Stand) -> bool:
    leak = stand.audit.leak
    if leak is None:
        return True
    caught, auc = max(leak.small or 0.0, leak.caught), max(leak.small_auc or 0.0, leak.auc)
    return caught <= MOST_CAUGHT and auc <= leak.null_auc + MOST_ABOVE_CHANCE
