"""Tables for people: readable in a terminal, in a pipe, and at 80 columns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from understudy.runs.compare import SHARE_OF_BEST, Row, distinct_labels
from understudy.view.numbers import NONE, duration, epsilon_shown, megabytes, percent, size
from understudy.view.ruled import number, print_notes, print_table, ruled, words


def print_comparison(rows: Sequence[Row], console: Console | None = None) -> None:
    console = console or Console()
    print_table(console, lambda gap: comparison_table(rows, gap))
    print_notes(console, comparison_notes(rows))


def comparison_table(rows: Sequence[Row], gap: int = 2) -> Table:
    table = ruled(gap)
    (first, labels), *columns = comparison_columns(rows)
    words(table, first)
    for heading, _ in columns:
        number(table, heading)
    for at, label in enumerate(labels):
        table.add_row(Text(label), *(Text(cells[at]) for _, cells in columns))
    return table


def comparison_columns(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """A heading and its cells each, the runs' labels first. What is the same in all rows (data, rounds done) or did not
    happen (failures) has no column."""
    columns: list[tuple[str, list[str]]] = [
        *[(f"after\n{at}", [_points(row.accuracy_after[at]) for row in rows]) for at in _asked(rows)],
        *_reached(rows),
        (f"to\n{_points(_target(rows))}", [_or_none(row.rounds_to_target) for row in rows]),
        ("MB\nup", [megabytes(row.bytes_up) for row in rows]),
        ("MB\ndown", [megabytes(row.bytes_down) for row in rows]),
        *_given_away(rows),
        ("s", [_seconds(row.seconds) for row in rows]),
    ]
    if len({row.rounds for row in rows}) > 1 or not all(row.finished for row in rows):
        columns.insert(0, ("rounds", [_rounds(row) for row in rows]))
    if any(row.failed for row in rows):
        columns.append(("failed", [str(row.failed) for row in rows]))
    return [("run", row_labels(rows)), *columns]


def _reached(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    if not _by_f1(rows):
        return [
            ("last\n%", [_points(row.accuracy) for row in rows]),
            ("best\n%", [_points(row.best_accuracy) for row in rows]),
        ]
    return [
        ("labels\nright", [_points(row.accuracy) for row in rows]),
        ("record\nF1", [_points(row.sample_f1) for row in rows]),
        ("class\nF1", [_points(row.macro_f1) for row in rows]),
        ("best", [_points(row.best_macro_f1) for row in rows]),
    ]


def _given_away(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """Never accuracy alone: what was caught by the strongest attack, or what ε bounds, or that nobody looked."""
    columns = [("ε", [epsilon_shown(row.epsilon) for row in rows]), ("leak\n%", [leak_shown(row) for row in rows])]
    if any(row.share_sent for row in rows):
        columns.insert(1, ("sent\n%", [_points(row.share_sent) for row in rows]))
    return columns


def leak_shown(row: Row) -> str:
    if row.leak is not None:
        return f"{100 * row.leak.caught:.1f} ({100 * row.leak.low:.0f}–{100 * row.leak.high:.0f})"
    return "≤ ε" if row.epsilon is not None else "not audited"


def _by_f1(rows: Sequence[Row]) -> bool:
    return bool(rows) and rows[0].measure == "macro_f1"


def _scores_explained(rows: Sequence[Row]) -> str:
    if _by_f1(rows):
        return (
            "In %: labels right, of all yes and no; F1, mean over records and over classes; best, class F1 of the best "
            f"round; {_records_scored(rows)}."
        )
    named = "after, last, best" if _asked(rows) else "last, best"
    return f"{named}: accuracy in %, {_records_scored(rows)}."


def _records_scored(rows: Sequence[Row]) -> str:
    """Accuracy on a test set is not the same as on records held out at the clients."""
    at_clients = [row.scored_at_clients for row in rows]
    if not any(at_clients):
        return "on the test records"
    if all(at_clients):
        return "on records held out at the clients"
    which = ", ".join(label for label, held in zip(distinct_labels(rows), at_clients, strict=True) if held)
    return f"on the test records, that of {which} on records held out at the clients"


def comparison_notes(rows: Sequence[Row]) -> list[str]:
    notes = [_scores_explained(rows)]
    target = _target(rows)
    if target is not None:
        chosen = (
            "" if rows[0].target_given else f" ({100 * SHARE_OF_BEST:.0f} % of the best run; --target sets another)"
        )
        what = "class F1" if _by_f1(rows) else "accuracy"
        notes.append(f"to {_points(target)}: rounds until the {what} first reaches {percent(target)}{chosen}.")
    notes.append("MB: 10⁶ bytes, all clients and rounds together.")
    if any(row.lost_work for row in rows):
        notes.append("MB, s: including interrupted rounds, which a run repeats when it resumes.")
    if any(row.epsilon is None for row in rows):
        notes.append(f"ε {NONE}: no privacy guarantee.")
    notes += _leaks_explained(rows)
    if any(row.failed for row in rows):
        notes.append("failed: replies that did not arrive or did not count.")
    return notes


def _leaks_explained(rows: Sequence[Row]) -> list[str]:
    leaks = [row.leak for row in rows if row.leak is not None]
    notes = []
    if leaks:
        null = max(leak.null for leak in leaks)
        notes.append(
            "leak: records recognised as members by the strongest attack where 1 % of others are taken for members, "
            f"with its 95 % interval; {100 * null:.1f} % where nothing was sent (the highest of these runs)."
        )
    if any(row.share_sent for row in rows):
        notes.append("sent: images, or synthetic records of another kind, in all rounds, as a share of the real ones.")
    if any(row.leak is None and row.epsilon is None for row in rows):
        notes.append("not audited: `understudy audit DIR` measures what a run gave away.")
    return notes


def row_labels(rows: Sequence[Row]) -> list[str]:
    """Distinct, and followed by the data if rows differ in it."""
    labels = distinct_labels(rows)
    if len({row.data for row in rows}) <= 1:
        return labels
    return [f"{label} on {row.data}" for label, row in zip(labels, rows, strict=True)]


def _asked(rows: Sequence[Row]) -> list[int]:
    return list(rows[0].accuracy_after) if rows else []


def _target(rows: Sequence[Row]) -> float | None:
    return rows[0].target if rows else None


def _points(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f}"


def _or_none(value: int | None) -> str:
    return NONE if value is None else str(value)


def _seconds(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _rounds(row: Row) -> str:
    return str(row.rounds) if row.finished else f"{row.rounds}/{row.planned}"


# ---- one run


def print_summary(folder: Path, summary: Mapping[str, Any], console: Console | None = None) -> None:
    """Printed when a run has ended; ``summary`` as in summary.json."""
    console = console or Console()
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in summary_lines(folder, summary):
        table.add_row(Text(name), Text(value))
    console.print(table)


def summary_lines(folder: Path, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    repeated = ", including interrupted rounds that were repeated" if summary.get("lost_work") else ""
    best, spent = summary["best_accuracy"], summary["epsilon"]
    lines = [
        ("accuracy", f"{percent(summary['accuracy'])} after round {summary['rounds']}, best {percent(best)}"),
        ("sent", f"{size(summary['bytes_up'])} up, {size(summary['bytes_down'])} down{repeated}"),
        ("privacy", "no guarantee" if spent is None else f"ε = {spent:.3g}{_per_person(summary)}"),
        ("time", f"{duration(summary['seconds'])} min" if summary["seconds"] >= 60 else f"{summary['seconds']:.1f} s"),
    ]
    if summary.get("macro_f1") is not None:
        f1 = f"{percent(summary['macro_f1'])} over classes, {percent(summary['sample_f1'])} over records"
        lines.insert(1, ("F1", f1))
    if summary.get("failed"):
        lines.append(("failed", f"{summary['failed']} replies; see metrics.jsonl for which and why"))
    if summary.get("workers_died"):
        lines.append(("workers", _deaths(summary["workers_died"], summary["lost"])))
    return [*lines, ("folder", str(folder))]


def _per_person(summary: Mapping[str, Any]) -> str:
    most, spent = summary.get("records_per_person"), summary.get("epsilon_per_person")
    if most is None:
        return ""
    return f" per record; {epsilon_shown(spent, 3)} for a person with up to {most} records"


def _deaths(died: int, lost: Sequence[str]) -> str:
    repeated = f"{died} died, {'its' if died == 1 else 'their'} work was repeated"
    return f"{repeated}; {', '.join(lost)} still failed" if lost else repeated
