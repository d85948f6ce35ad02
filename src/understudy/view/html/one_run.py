"""One run, told from its result to the command that repeats it."""

import shlex
from collections.abc import Sequence

from understudy.audits.quality import Quality
from understudy.papers.study import StudyTable
from understudy.runs.compare import Row
from understudy.runs.reported import ReportedRun
from understudy.view.html.client_sections import attendance_section, held_section, left_section
from understudy.view.html.learning_charts import further_charts, learning_charts, not_recorded
from understudy.view.html.sections import Account, KeyFigure, Listing, Section
from understudy.view.html.worth import synthetic_section
from understudy.view.numbers import NONE, duration, epsilon_shown, megabytes, percent, size
from understudy.view.tables import leak_shown


def account_of(run: ReportedRun, quality: Quality | str | None, name: str = "", room: int | None = None) -> Account:
    """``name`` sets its addresses apart on a page of several; ``room`` for pictures, in bytes."""
    prefix = f"{name}-" if name else ""
    further = further_charts(run, prefix)
    sections = [
        Section(f"{prefix}learning", "How it learnt", charts=learning_charts(run, prefix), notes=not_recorded(run)),
        held_section(run, prefix),
        attendance_section(run, prefix),
        left_section(run, prefix),
        synthetic_section(run, quality, prefix, room),
        *([Section(f"{prefix}further", "What else was measured", charts=further)] if further else []),
        _to_repeat(run, prefix),
    ]
    title = f"{run.row.label} on {run.row.data}"
    return Account(title, result_in_words(run), _facts(run), sections, [*_going_on(run), *run.remarks], name)


def result_in_words(run: ReportedRun) -> str:
    row = run.row
    if _score(row) is None:
        return f"{row.label} on {row.data}: {row.rounds} of {row.planned} rounds are done, and none is scored yet."
    on = "records held out at the clients" if row.scored_at_clients else "the test records"
    told = f"After {_rounds(row)}, {row.label} on {row.data} reached {percent(_score(row))} {_measure(row)} on {on}"
    best = row.best_macro_f1 if row.macro_f1 is not None else row.best_accuracy
    if best is not None and best > (_score(row) or 0.0):
        told += f" (best {percent(best)})"
    told += f", for {size(row.bytes_up)} sent by the clients and {size(row.bytes_down)} sent to them."
    return f"{told} {_price(row)}"


def _price(row: Row) -> str:
    """Never accuracy alone."""
    covered = row.epsilon is not None
    promise = f"Everything that left is covered by ε = {epsilon_shown(row.epsilon, 3)} per record" if covered else ""
    if row.leak is None:
        return f"{promise}." if covered else "There is no privacy guarantee, and what left was not audited."
    return (
        f"{promise or 'There is no privacy guarantee'}: an attacker recognises {percent(row.leak.caught)} of the "
        "records in what left, where he takes 1 % of others for members."
    )


def _score(row: Row) -> float | None:
    return row.accuracy if row.macro_f1 is None else row.macro_f1


def _measure(row: Row) -> str:
    return "accuracy" if row.macro_f1 is None else "F1 over classes"


def _rounds(row: Row) -> str:
    return "the opening" if not row.rounds else f"{row.rounds} round{'' if row.rounds == 1 else 's'}"


def _facts(run: ReportedRun) -> list[KeyFigure]:
    row = run.row
    best = row.best_macro_f1 if row.macro_f1 is not None else row.best_accuracy
    lost = "including interrupted rounds" if row.lost_work else ""
    facts = [
        KeyFigure(_measure(row), percent(_score(row)), f"best {percent(best)}"),
        KeyFigure("rounds", str(row.rounds) if row.finished else f"{row.rounds} of {row.planned}"),
        KeyFigure("MB up", megabytes(row.bytes_up), lost or "sent by all clients"),
        KeyFigure("MB down", megabytes(row.bytes_down), lost or "sent to all clients"),
        KeyFigure(
            "ε", epsilon_shown(row.epsilon, 3), "no guarantee" if row.epsilon is None else "largest over clients"
        ),
        KeyFigure("leak", leak_shown(row), "% of records recognised" if row.leak is not None else ""),
        KeyFigure("time", _time(row.seconds), lost),
    ]
    return [*facts, KeyFigure("failed", f"{row.failed:,}", "replies")] if row.failed else facts


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    return f"{seconds:.1f} s" if seconds < 60 else f"{duration(seconds)} {'h' if seconds >= 3600 else 'min'}"


def _going_on(run: ReportedRun) -> list[str]:
    row = run.row
    if row.finished:
        return []
    how = shlex.join(["understudy", "run", "--resume", "--out", str(run.folder)])
    begun = f"This run is not finished: {row.rounds} of {row.planned} rounds count so far."
    return [f"{begun} If it has stopped, go on with: {how}"]


# ---- to repeat it


def _to_repeat(run: ReportedRun, prefix: str) -> Section:
    command = shlex.join(["understudy", "run", str(run.folder / "config.yaml"), "--out", f"{run.folder}-again"])
    text = ["The same seed gives the same bits on like machines."]
    if run.config.get("privacy"):
        text = ["The same seed gives the same bits on like machines, except for privacy noise, which is drawn anew."]
    listings = [Listing("Command", command, unfolded=True)]
    if not run.repeatable:
        text = ["Objects were passed to this run in Python, so its config alone does not repeat it."]
        listings = []
    elif run.config.get("branched"):
        text.append(
            "It was branched off another run, and is repeated by branching again: see `branched` in its config."
        )
        listings = []
    return Section(
        f"{prefix}repeat",
        "To repeat it",
        text,
        tables=[_versions(run)],
        listings=[*listings, Listing("The whole config", run.config_text)],
    )


def _versions(run: ReportedRun) -> StudyTable:
    version = str(run.config.get("version", NONE))
    rows: list[Sequence[str]] = [("seed", str(run.seed)), ("written by understudy", version)]
    for at, machine in enumerate(run.machines):
        after = f" (machine {at + 1})" if len(run.machines) > 1 else ""
        rows += [(f"{key}{after}", str(value)) for key, value in machine.items()]
    if not run.machines:
        rows.append(("machine", "not written down by that version"))
    rows += [("folder", run.row.name), ("device", str(run.config.get("device", NONE)))]
    return StudyTable(("what", "this run"), rows, "Versions and machine", words=2)
