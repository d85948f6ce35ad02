"""The live page: runs, and one run, as the values that its script puts on the page. Text stays text all the way."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.papers.study import Panel
from understudy.printable import printable
from understudy.runs.compare import Row
from understudy.runs.overview import ListedRun, RunList
from understudy.runs.standing import ALIVE
from understudy.runs.status import Status
from understudy.view.html.assets import Asset, Assets, linked
from understudy.view.html.charts import Chart, line_chart
from understudy.view.html.page import render
from understudy.view.numbers import NONE, epsilon_shown, percent
from understudy.view.tables import comparison_columns, comparison_notes

STATIC_PREFIX = "/static"
MOST_SITES = 200  # rows; those that somebody has to look after come first
CHARTS: Mapping[str, Panel] = {
    "accuracy": Panel("Accuracy over rounds", "round", "accuracy in %", ()),
    "accuracy-by-megabytes": Panel("Accuracy over what was sent", "megabytes, up and down", "accuracy in %", ()),
    "loss": Panel("Loss over rounds", "round", "loss", ()),
    "seconds": Panel("Seconds per round", "round", "seconds", ()),
    "f1": Panel("F1 over rounds, mean over classes", "round", "F1 in %", ()),
    "epsilon": Panel("ε over rounds", "round", "ε", ()),
}


def live_assets() -> Assets:
    shared = linked(STATIC_PREFIX, more=("live.js",))
    return replace(shared, styles=[*shared.styles, Asset(address=f"{STATIC_PREFIX}/live.css")])


def runs_page(folder: Path) -> str:
    return render("live_runs.html", assets=live_assets(), folder=printable(str(folder)))


def run_page(run: ListedRun) -> str:
    return render("live_run.html", assets=live_assets(), run=run, charts=_charts())


def comparison_page(runs: Sequence[ListedRun]) -> str:
    return render("live_comparison.html", assets=live_assets(), runs=runs, labels=_labels(runs), charts=_charts())


def sentence_page(heading: str, sentence: str) -> str:
    """For when there is nothing else to show."""
    return render("live_sentence.html", assets=live_assets(), heading=heading, sentence=sentence)


def _labels(runs: Sequence[ListedRun]) -> list[tuple[str, str]]:
    """Id and label of each; methods, or, where two have the same, where they are."""
    times = Counter(run.standing.label for run in runs)
    return [(run.id, _label(run, times[run.standing.label] == 1)) for run in runs]


def _label(run: ListedRun, unique: bool) -> str:
    return run.standing.label if unique and run.standing.label else f"{run.standing.label} ({run.name})".strip()


def _charts() -> list[Chart]:
    return [line_chart(name, panel) for name, panel in CHARTS.items()]


# ---- what the script is sent


def listing_values(listing: RunList, before: Mapping[str, ListedRun] | None) -> dict[str, Any]:
    """What changed since ``before``; all of it if that is None."""
    known = before or {}
    return {
        "all": before is None,
        "runs": [_row(run) for id, run in listing.runs.items() if known.get(id) != run],
        "gone": [id for id in known if id not in listing.runs],
        "order": list(listing.runs),
        "complete": listing.complete,
        "remark": listing.remark,
    }


def _row(run: ListedRun) -> dict[str, Any]:
    standing = run.standing
    return {
        "id": run.id,
        "alone": run.alone,
        "name": run.name,
        "label": standing.label,
        "data": standing.data,
        "stands": standing.stands,
        "detail": standing.detail,
        "rounds": f"{standing.round}/{standing.planned}" if standing.stands != "unreadable" else NONE,
        "round": standing.round,
        "accuracy": percent(standing.accuracy),
        "share": standing.accuracy,
        "epsilon": epsilon_shown(standing.epsilon),
        "spent": standing.epsilon,
        "changed": standing.changed,
    }


def run_values(run: ListedRun, status: Status | None) -> dict[str, Any]:
    standing = run.standing
    alive = standing.stands in ALIVE
    return {
        "id": run.id,
        "name": run.name,
        "label": standing.label,
        "stands": standing.stands,
        "detail": standing.detail,
        "commands": list(standing.commands),
        "facts": _facts(run),
        "sites": _sites(status) if alive else None,
        "phases": _phases(status),
        "phase": None if not alive or status is None or not status.phase else _phase(status),
        "said": [] if status is None else [printable(one) for one in status.said],
    }


def _facts(run: ListedRun) -> list[tuple[str, str]]:
    standing = run.standing
    facts = [
        ("accuracy", percent(standing.accuracy)),
        ("rounds", f"{standing.round} of {standing.planned}"),
        ("method", standing.label or NONE),
        ("data", standing.data or NONE),
        ("seed", NONE if standing.seed is None else str(standing.seed)),
        ("version", standing.version or NONE),
    ]
    if standing.epsilon is not None:
        facts.insert(2, ("ε", epsilon_shown(standing.epsilon)))
    return facts


def _phase(status: Status) -> dict[str, Any]:
    answered = len(status.asked) - len(status.awaited)
    return {
        "name": printable(status.phase),
        "since": status.since,
        "replies": f"{answered} of {len(status.asked)} replies" if status.asked else "",
    }


def _phases(status: Status | None) -> list[tuple[str, str, str]]:
    """Where the time goes: since the run was started, and in its last whole round."""
    if status is None:
        return []
    names = sorted({*status.seconds, *status.last_round}, key=lambda name: -status.seconds.get(name, 0.0))
    return [(printable(name), _seconds(status.seconds, name), _seconds(status.last_round, name)) for name in names]


def _seconds(by_phase: Mapping[str, float], name: str) -> str:
    return f"{by_phase[name]:.1f}" if name in by_phase else NONE


def _sites(status: Status | None) -> dict[str, Any] | None:
    """None where clients are not on machines of their own."""
    if status is None or status.there is None:
        return None
    there, asked, awaited = set(status.there), set(status.asked), set(status.awaited)
    rows = [
        {
            "name": printable(name, 100),
            "there": name in there,
            "reply": _reply(name, asked, awaited),
            "awaited": name in awaited,
        }
        for name in status.clients
    ]
    rows.sort(key=lambda row: (not row["awaited"], row["there"]))
    return {
        "online": sum(name in there for name in status.clients),
        "count": len(status.clients),
        "awaited": len(awaited),
        "rows": rows[:MOST_SITES],
    }


def _reply(name: str, asked: set[str], awaited: set[str]) -> str:
    if name in awaited:
        return "reply awaited"
    return "answered" if name in asked else "not asked"


def comparison_values(rows: Sequence[Row]) -> dict[str, Any]:
    headings, cells = zip(*comparison_columns(rows), strict=True)
    return {
        "columns": [heading.replace("\n", " ") for heading in headings],
        "rows": [list(row) for row in zip(*cells, strict=True)],
        "notes": comparison_notes(rows),
    }
