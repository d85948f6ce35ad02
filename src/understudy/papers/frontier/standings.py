"""Runs the frontier's points, attacks one run of each, and puts accuracy beside what was given away."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
SHOWN = (0.5, 90.0)  # % recognised, the same in every picture
MEASURE = "40 steps"  # FedDM from real records, whose accuracy a stand-in that hardly leaks should have


@dataclass(frozen=True)
class Stand:
    """Where one point stands on one split."""

    point: Point
    split: str
    line: StudyLine
    audit: Audit  # of the run with the first seed
    others: Mapping[int, Audit] = field(default_factory=dict)  # by seed, where those runs were attacked too

    @property
    def audits(self) -> list[Audit]:
        return [self.audit, *self.others.values()]


def frontier(plan: FrontierPlan, lines: PlayedLines) -> Findings:
    """Of the points that were run and attacked."""
    stands = []
    for split in plan.splits:
        for point in plan.on(split):
            label = called(point, split)
            found = _audits(label, plan.seeds, lines)
            first = found.pop(plan.seeds[0], None)
            if label in lines and first is not None:
                stands.append(Stand(point, split, lines[label], first, found))
    return findings(plan, stands)


def _audits(label: str, seeds: Sequence[int], lines: PlayedLines) -> dict[int, Audit]:
    """By seed: of the runs that are there, or else as they were stored."""
    folders = {seed: lines.folders[label, seed] for seed in seeds if (label, seed) in lines.folders}
    if folders:
        read = {seed: read_audit(folder) for seed, folder in folders.items()}
        return {seed: audit for seed, audit in read.items() if audit is not None}
    first = lines.numbers.get("audits", {}).get(label)
    others = lines.numbers.get("other_audits", {}).get(label, {})
    stored = {} if first is None else {seeds[0]: first, **{int(seed): audit for seed, audit in others.items()}}
    return {seed: audit_of(audit) for seed, audit in stored.items()}


def findings(plan: FrontierPlan, stands: Sequence[Stand]) -> Findings:
    table = StudyTable(COLUMNS, [_row(stand) for stand in sorted(stands, key=_in_order(plan))], words=2)
    return Findings(
        plan.about,
        [stand.line for stand in stands],
        {"table": [table]},
        _pictures(plan, stands),
        notes=[
            *(_nearest_to_the_goal(stands, split) for split in dict.fromkeys(stand.split for stand in stands)),
            *(_seed_by_seed(stand) for stand in stands if stand.others),
        ],
        numbers={
            "audits": {_called(stand): stand.audit.as_dict() for stand in stands},
            "other_audits": {
                _called(stand): {str(seed): audit.as_dict() for seed, audit in stand.others.items()}
                for stand in stands
                if stand.others
            },
        },
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
            plan.about, [_panel([one for one in stands if one.split == split], families)], legend="beside"
        )
        for at, split in enumerate(splits)
    }


def _panel(here: Sequence[Stand], families: Sequence[str]) -> Panel:
    traces = [
        Trace(
            stand.point.label,
            [max(100 * _caught(stand), SHOWN[0])],
            [100 * statistics.fmean(stand.line.accuracies)],
            families.index(stand.point.family),
            "dots",
            family=stand.point.family,
        )
        for stand in here
    ]
    chance = 100 * max(stand.audit.leak.null for stand in here if stand.audit.leak is not None)
    return Panel(
        f"{here[0].split}; grey: what chance catches",
        "records recognised by the strongest attack, at 1 % false ones (%)",
        "accuracy after the last round (%)",
        traces,
        log_x=True,
        xlim=SHOWN,
        shaded=(SHOWN[0], chance),
        near_100=True,
        goal=_goal(here),
    )


def _goal(here: Sequence[Stand]) -> tuple[float, float, str] | None:
    """Within a point of FedDM from real records, and hardly anybody recognised."""
    means = [100 * stand.line.mean for stand in here if stand.point.label == MEASURE]
    return (100 * MOST_CAUGHT, means[0] - 1, "the goal") if means else None


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


def _seed_by_seed(stand: Stand) -> str:
    """What attacks made of every run."""
    leaks = [audit.leak for audit in stand.audits if audit.leak is not None]
    caught = ", ".join([f"{100 * leak.caught:.1f} (chance {100 * leak.null:.1f})" for leak in leaks])
    above = ", ".join([f"{leak.auc - leak.null_auc:.3f}" for leak in leaks])
    return f"{_named(stand)}, {stand.split}, seed by seed: {caught} % caught; {above} above chance in AUC."


def _called(stand: Stand) -> str:
    return called(stand.point, stand.split)


def _is_quiet(stand: Stand) -> bool:
    """In every run that was attacked."""
    return all(map(_hardly_tells, stand.audits))


def _hardly_tells(audit: Audit) -> bool:
    leak = audit.leak
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
