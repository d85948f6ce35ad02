"""Runs the frontier's points, attacks one run of each, and puts accuracy beside what was given away."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from understudy.audits.result import AttackRow, Audit, audit_of, read_audit
from understudy.papers.carrying_out import PlayedLines
from understudy.papers.frontier.plan import FrontierPlan, Point, called
from understudy.papers.study import Drawing, Findings, Panel, StudyLine, StudyTable, Trace, said

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


def frontier(plan: FrontierPlan, lines: PlayedLines) -> Findings:
    """Of the points that were run and attacked."""
    stands = []
    for split in plan.splits:
        for point in plan.on(split):
            label = called(point, split)
            audit = _audit_of(label, plan.seeds[0], lines)
            if label in lines and audit is not None:
                stands.append(Stand(point, split, lines[label], audit))
    return findings(plan, stands)


def _audit_of(label: str, seed: int, lines: PlayedLines) -> Audit | None:
    if (label, seed) in lines.folders:
        return read_audit(lines.folders[label, seed])
    stored = lines.numbers.get("audits", {}).get(label)
    return None if stored is None else audit_of(stored)


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


# ---- what came of it


def _row(stand: Stand) -> list[str]:
    audit, leak = stand.audit, stand.audit.leak
    assert leak is not None
    return [
        stand.split,
        _named(stand),
        _accuracy(stand),
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
        f"{_named(safest)} is the most accurate, with {_accuracy(safest, ' %')}{compared}."
    )


def _accuracy(stand: Stand, unit: str = "") -> str:
    """In percent; a single seed has no spread."""
    accuracies = stand.line.accuracies
    return f"{said(accuracies)}{unit}" if len(accuracies) > 1 else f"{100 * stand.line.mean:.1f}{unit}, one seed"


def _named(stand: Stand) -> str:
    return f"{stand.point.family}: {stand.point.label}"


def _is_quiet(stand: Stand) -> bool:
    audit, leak = stand.audit, stand.audit.leak
    if leak is None:
        return True
    caught = max(leak.small or 0.0, leak.caught)
    return caught <= MOST_CAUGHT and leak.auc <= leak.null_auc + MOST_ABOVE_CHANCE and not any(map(_tells, audit.rows))


def _tells(row: AttackRow) -> bool:
    """Whether it recognises records of small classes. It is held against what the same attack makes of the same records
    where nothing of them was sent: chance among a hundred is often far from one half."""
    if row.small is None:
        return False
    return row.small.auc.value > (row.null_small or row.null).auc.value + MOST_ABOVE_CHANCE
