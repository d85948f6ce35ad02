"""Several runs side by side: curves in bands of seeds, and a table that sorts and counts to a target."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from understudy.papers.study import Panel, Trace, axis_top
from understudy.runs.compare import SHARE_OF_BEST, Row
from understudy.runs.reported import ReportedRun, number
from understudy.view.html.charts import Chart, line_chart
from understudy.view.html.learning_charts import megabytes_so_far
from understudy.view.numbers import NONE, epsilon_shown, megabytes, percent
from understudy.view.tables import comparison_notes, leak_shown, row_labels

LOG_FROM = 10  # from this ratio of the most to the least megabytes on, their axis is logarithmic


@dataclass(frozen=True)
class Kin:
    """Runs that differ in nothing but their seed: one line."""

    label: str
    runs: Sequence[ReportedRun]


@dataclass(frozen=True)
class CompareCell:
    text: str
    value: float | str | None = None  # to sort by
    id: str = ""  # if the target changes it


@dataclass(frozen=True)
class SideBySide:
    columns: Sequence[tuple[str, bool]]  # heading, and whether numbers
    rows: Sequence[tuple[int, Sequence[CompareCell]]]  # the line's look, then its cells
    target: float | None  # in percent, to begin with
    runs: Sequence[dict[str, Any]]  # scores by round, for the target
    measure: str
    charts: Sequence[Chart]
    notes: Sequence[str]


def kin_of(runs: Sequence[ReportedRun]) -> list[Kin]:
    families: dict[str, list[ReportedRun]] = {}
    for run in runs:
        families.setdefault(run.family, []).append(run)
    firsts = row_labels([family[0].row for family in families.values()])
    return [Kin(_named(label, some), some) for label, some in zip(firsts, families.values(), strict=True)]


def _named(label: str, runs: Sequence[ReportedRun]) -> str:
    if len(runs) == 1:
        return label
    seeds = {str(run.seed) for run in runs}
    return f"{label}, {len(runs)} {'seeds' if len(seeds) == len(runs) else 'runs'}"


def comparison_of(runs: Sequence[ReportedRun]) -> SideBySide:
    kin = kin_of(runs)
    look = {id(run): at for at, one in enumerate(kin) for run in one.runs}
    by_f1 = runs[0].row.measure == "macro_f1"
    key, measure = ("macro_f1", "F1 over classes") if by_f1 else ("accuracy", "accuracy")
    rows = [run.row for run in runs]
    labels = row_labels(rows)
    failed, sent = any(row.failed for row in rows), any(row.share_sent for row in rows)
    columns = [
        ("run", False), ("seed", True), ("rounds", True), (f"last {measure}", True), ("best", True),
        ("rounds to target", True), ("MB to target", True), ("MB up", True), ("MB down", True), ("ε", True),
        *([("sent %", True)] if sent else []), ("leak %", True), ("seconds", True),
        *([("failed", True)] if failed else []),
    ]  # fmt: skip
    cells = [_cells(run, label, at, sent, failed) for at, (run, label) in enumerate(zip(runs, labels, strict=True))]
    target = rows[0].target
    return SideBySide(
        columns,
        [(look[id(run)], line) for run, line in zip(runs, cells, strict=True)],
        None if target is None else 100 * target,
        [_scores_by_round(at, run, key) for at, run in enumerate(runs)],
        measure,
        _charts(kin, key, measure),
        _notes(rows),
    )


def _cells(run: ReportedRun, label: str, at: int, sent: bool, failed: bool) -> list[CompareCell]:
    row = run.row
    last = row.macro_f1 if row.measure == "macro_f1" else row.accuracy
    best = row.best_macro_f1 if row.measure == "macro_f1" else row.best_accuracy
    cells = [
        CompareCell(label),
        CompareCell(NONE if run.seed is None else str(run.seed)),
        CompareCell(str(row.rounds) if row.finished else f"{row.rounds} of {row.planned}", row.rounds),
        CompareCell(percent(last), last),
        CompareCell(percent(best), best),
        CompareCell(NONE, None, f"rounds-{at}"),
        CompareCell(NONE, None, f"megabytes-{at}"),
        CompareCell(megabytes(row.bytes_up), row.bytes_up),
        CompareCell(megabytes(row.bytes_down), row.bytes_down),
        CompareCell(epsilon_shown(row.epsilon), row.epsilon),
        *([CompareCell(percent(row.share_sent), row.share_sent)] if sent else []),
        CompareCell(leak_shown(row), None if row.leak is None else row.leak.caught),
        CompareCell(NONE if row.seconds is None else f"{row.seconds:,.1f}", row.seconds),
    ]
    return [*cells, CompareCell(f"{row.failed:,}", row.failed)] if failed else cells


def _scores_by_round(at: int, run: ReportedRun, key: str) -> dict[str, Any]:
    scores = [number(line.get(key)) for line in run.lines]
    return {
        "row": at,
        "rounds": [line["round"] for line in run.lines],
        "megabytes": megabytes_so_far(run.lines),
        "scores": [None if score is None else 100 * score for score in scores],
    }


def _notes(rows: Sequence[Row]) -> list[str]:
    """As below the table of `understudy compare`, without what the target's control says itself."""
    about_target = f"to {100 * (rows[0].target or 0):.1f}:"
    notes = [note for note in comparison_notes(rows) if not note.startswith(about_target)]
    if rows[0].target is not None and not rows[0].target_given:
        notes.append(f"The target begins at {100 * SHARE_OF_BEST:.0f} % of the best run.")
    return notes


# ---- curves


def _charts(kin: Sequence[Kin], key: str, measure: str) -> list[Chart]:
    named = f"{measure[:1].upper()}{measure[1:]}"
    by_round = [trace for look, one in enumerate(kin) if (trace := _over_rounds(one, key, 100, look)) is not None]
    by_megabyte = [trace for look, one in enumerate(kin) if (trace := _over_megabytes(one, key, look)) is not None]
    loss = [trace for look, one in enumerate(kin) if (trace := _over_rounds(one, "loss", 1, look)) is not None]
    top = axis_top(max((y for trace in by_round for y in trace.high or trace.y), default=100.0))
    totals = [trace.x[-1] for trace in by_megabyte]
    log = bool(totals) and min(totals) > 0 and max(totals) > LOG_FROM * min(totals)
    bands = any(len(one.runs) > 1 for one in kin)
    about = "Mean over seeds; the band reaches from the worst to the best." if bands else ""
    across = "megabytes exchanged, up and down"
    charts = [
        line_chart(
            "accuracy", Panel(f"{named} over rounds", "round", "%", by_round, ylim=(0.0, top), from_zero=True), about
        ),
        line_chart(
            "megabytes",
            Panel(f"{named} over megabytes", across, "%", by_megabyte, ylim=(0.0, top), log_x=log, from_zero=not log),
            about,
        ),
    ]
    if loss:
        charts.append(line_chart("loss", Panel("Loss over rounds", "round", "mean loss", loss, from_zero=True), about))
    given_away = _against_leak(kin, key, measure)
    return [*charts, *([] if given_away is None else [given_away])]


def _over_rounds(kin: Kin, key: str, times: float, look: int) -> Trace | None:
    """Rounds that all seeds have scored, so that the mean is one of the same runs throughout."""
    seeds = [
        {line["round"]: times * value for line in run.lines if (value := number(line.get(key))) is not None}
        for run in kin.runs
    ]
    rounds = sorted(set.intersection(*(set(seed) for seed in seeds)))
    return _band(kin.label, rounds, [[seed[round] for seed in seeds] for round in rounds], look) if rounds else None


def _over_megabytes(kin: Kin, key: str, look: int) -> Trace | None:
    """Seeds have splits of their own, and with them other sizes: megabytes are their mean too."""
    seeds = [
        {line["round"]: (sent, 100 * value) for line, sent in zip(run.lines, megabytes_so_far(run.lines), strict=True)
         if (value := number(line.get(key))) is not None}
        for run in kin.runs
    ]  # fmt: skip
    rounds = sorted(set.intersection(*(set(seed) for seed in seeds)))
    if not rounds:
        return None
    sent = [statistics.fmean(seed[round][0] for seed in seeds) for round in rounds]
    return _band(kin.label, sent, [[seed[round][1] for seed in seeds] for round in rounds], look)


def _band(label: str, x: Sequence[float], values: Sequence[Sequence[float]], look: int) -> Trace:
    mean = [statistics.fmean(some) for some in values]
    if len(values[0]) == 1:
        return Trace(label, x, mean, look)
    return Trace(label, x, mean, look, low=[min(some) for some in values], high=[max(some) for some in values])


def _against_leak(kin: Sequence[Kin], key: str, measure: str) -> Chart | None:
    """What a run reached beside what it gave away, of runs that were audited."""
    traces = []
    for look, one in enumerate(kin):
        audited = [(run.row.leak, run.row) for run in one.runs]
        found = [(leak.caught, row.macro_f1 if key == "macro_f1" else row.accuracy) for leak, row in audited if leak]
        known = [(100 * caught, 100 * score) for caught, score in found if score is not None]
        if known:
            traces.append(Trace(one.label, [x for x, _ in known], [y for _, y in known], look, "dots"))
    if not traces:
        return None
    limits = around_shares([y for trace in traces for y in trace.y])
    panel = Panel(f"Last {measure} beside the leak", "records recognised (%)", "%", traces, from_zero=True, ylim=limits)
    return line_chart("leak", panel, "Right is worse. Runs that were not audited are not here.")


def around_shares(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis close around percentages, of which none is below 0 or above 100."""
    low, high = min(values), max(values)
    room = 0.08 * (high - low or high or 1.0)
    return max(0.0, low - room), min(100.0, high + room)
