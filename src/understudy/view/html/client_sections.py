"""What clients held, did and gave away: sections of a run's report."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from understudy.data.skew import total_variation
from understudy.papers.study import StudyTable
from understudy.runs.attendance import SLOW, Attendance, Attended, Took
from understudy.runs.holdings import Holdings
from understudy.runs.reported import ReportedRun
from understudy.view.html.charts import CellState, CellTable, Chart, cell_chart
from understudy.view.html.sections import Section
from understudy.view.ledger import LEFT, SPENT, headline, mechanism_rows, not_covered, notes_of, release_rows
from understudy.view.numbers import NONE, size

MOST_CELLS = 250_000  # of one table of shades
MOST_ROWS = 60  # clients by name in a table
MOST_REASONS = 15
STATES = (
    CellState("answered", "line-0"),
    CellState("failed", "line-1"),
    CellState("budget spent", "line-3"),
)
PLACE: Mapping[Took, int] = {"answered": 0, "failed": 1, "spent": 2}


# ---- who held what


def held_section(run: ReportedRun, prefix: str = "") -> Section:
    found = run.holdings
    if found is None:
        why = "the records are at the sites" if run.config["data"].get("sites") else "its version did not write it down"
        return Section(f"{prefix}held", "Who held what", [f"Not known here: {why}."])
    clients = list(found.records)
    shown = _most(clients, len(found.classes))
    table = CellTable(("client", shown), ("class", found.classes), [found.row(client) for client in shown])
    what = "Labels" if sum(map(sum, map(found.row, clients))) > sum(found.records.values()) else "Records"
    chart = cell_chart(f"{prefix}split", f"{what} by client and class", table, _rest(clients, shown), wide=True)
    outside = ["Known only because this is a simulation: these counts are not covered by ε."]
    notes = outside if run.row.epsilon is not None else ()
    return Section(f"{prefix}held", "Who held what", [_skew_in_words(found)], [chart], notes=notes)


def _skew_in_words(found: Holdings) -> str:
    sizes = list(found.records.values())
    rows = {client: found.row(client) for client in found.records if found.records[client]}
    overall = [sum(column) for column in zip(*rows.values(), strict=True)]
    empty = len(sizes) - len(rows)
    told = f"{_many(len(sizes), 'client')} held {_many(sum(sizes), 'record')}"
    if len(set(sizes)) > 1:
        told += f", from {min(sizes):,} to {max(sizes):,} each"
    if empty:
        told += f"; {empty:,} held none"
    if not rows:
        return told + "."
    classes = statistics.fmean(sum(map(bool, row)) for row in rows.values())
    distance = statistics.fmean(total_variation(row, overall) for row in rows.values())
    return (
        f"{told}. A client saw {classes:.1f} of {len(found.classes):,} classes on average; the mix of labels lies "
        f"{distance:.2f} from that of all records, where 0 is the same and 1 has nothing in common."
    )


# ---- who took part


def attendance_section(run: ReportedRun, prefix: str = "") -> Section:
    found = run.attendance
    rounds = [round for round in found.rounds if any(round in one.rounds for one in found.clients.values())]
    if not rounds:
        return Section(
            f"{prefix}clients", "Who took part", ["No client was asked yet, or its version did not note whom."]
        )
    return Section(
        f"{prefix}clients",
        "Who took part",
        [_attendance_in_words(run)],
        [_attendance_chart(found, rounds, prefix)],
        tables=_reasons(found),
        folded=[_by_client(found)],
    )


def _attendance_in_words(run: ReportedRun) -> str:
    found = run.attendance
    clients = found.clients.values()
    asked = sum(len(one.rounds) for one in clients)
    told = f"{_many(len(found.clients), 'client')}, {_many(asked, 'time')} asked for a round's work"
    usual = found.usual_seconds
    if usual is not None:
        told += f", usually {usual:.3g} s each"
    parts = [
        (sum(one.times("failed") + one.times("spent") for one in clients), "failed"),
        (sum(found.slow(client) for client in found.clients), f"clients took over {SLOW:g} times the usual time"),
        (sum(one.spent for one in clients), "clients have spent their privacy budget"),
        (sum(one.left_out for one in clients), "clients were left out for good"),
        (sum(bool(line.get("undone")) for line in run.lines), "rounds had too few replies and were undone"),
    ]
    return "; ".join([told, *(f"{count:,} {what}" for count, what in parts if count)]) + "."


def _attendance_chart(found: Attendance, rounds: Sequence[int], prefix: str) -> Chart:
    clients = list(found.clients)
    shown = _most(clients, len(rounds))
    cells = [[_place(found.clients[client], round) for round in rounds] for client in shown]
    table = CellTable(("client", shown), ("round", [str(round) for round in rounds]), cells, states=STATES)
    about = "Blank where a client was not asked. " + _rest(clients, shown)
    return cell_chart(f"{prefix}attendance", "Clients by round", table, about.strip(), wide=True)


def _place(one: Attended, round: int) -> int | None:
    took = one.rounds.get(round)
    return None if took is None else PLACE[took]


def _reasons(found: Attendance) -> list[StudyTable]:
    if not found.reasons:
        return []
    rows = [(why, _named(who), f"{times:,}") for why, times, who in found.reasons[:MOST_REASONS]]
    more = len(found.reasons) - len(rows)
    heading = "Why replies failed" + (f"; {more:,} rarer reasons are in metrics.jsonl" if more > 0 else "")
    return [StudyTable(("reason", "clients", "times"), rows, heading, words=2)]


def _by_client(found: Attendance) -> StudyTable:
    def noteworthy(client: str) -> tuple[int, float]:
        one = found.clients[client]
        return -(one.times("failed") + one.times("spent") + one.spent + one.left_out), -(one.median_seconds or 0.0)

    clients = sorted(found.clients, key=noteworthy) if len(found.clients) > MOST_ROWS else list(found.clients)
    rows = [_client_row(found, client) for client in clients[:MOST_ROWS]]
    columns = ("client", "remark", "asked", "answered", "failed", "seconds, median", "longest", "sent", "received")
    some = (
        f"; the {MOST_ROWS} with most failures and the slowest of {len(clients):,}" if len(clients) > MOST_ROWS else ""
    )
    return StudyTable(columns, rows, f"Clients over all rounds{some}", words=2)


def _client_row(found: Attendance, client: str) -> tuple[str, ...]:
    one = found.clients[client]
    remarks = ["slow"] * found.slow(client) + ["budget spent"] * one.spent + ["left out"] * one.left_out
    return (
        client,
        ", ".join(remarks) or NONE,
        f"{len(one.rounds):,}",
        f"{one.times('answered'):,}",
        f"{one.times('failed') + one.times('spent'):,}",
        NONE if one.median_seconds is None else f"{one.median_seconds:.2f}",
        NONE if not one.seconds else f"{max(one.seconds):.2f}",
        size(one.bytes_up),
        size(one.bytes_down),
    )


# ---- what left, and what it cost


def left_section(run: ReportedRun, prefix: str = "") -> Section:
    ledger = run.ledger
    if ledger is None:
        return Section(f"{prefix}left", "What left each client", ["This run keeps no ledger, so nobody can tell."])
    left, spent = release_rows(ledger), mechanism_rows(ledger)
    tables = [_by_kind(ledger)] if left else []
    folded = [StudyTable(tuple(LEFT), left[:MOST_ROWS], f"By client and part{_more(left)}", words=4)] if left else []
    if spent:
        tables.append(StudyTable(tuple(SPENT), spent[:MOST_ROWS], f"What was spent on privacy{_more(spent)}"))
    bare = not_covered(ledger)
    listed = bare[:MOST_REASONS] + ([f"… and {len(bare) - MOST_REASONS:,} more"] if len(bare) > MOST_REASONS else [])
    notes = [f"Not covered by any guarantee: {sentence}." for sentence in listed]
    text = [headline(ledger)] if left else ["Nothing has left a client yet."]
    return Section(
        f"{prefix}left",
        "What left each client, and what it cost",
        text,
        tables=tables,
        notes=[*notes, *notes_of(ledger)],
        folded=folded,
    )


def _more(rows: Sequence[object]) -> str:
    return f"; the first {MOST_ROWS} of {len(rows):,} lines" if len(rows) > MOST_ROWS else ""


def _by_kind(ledger: Mapping[str, Any]) -> StudyTable:
    kinds: dict[str, list[int]] = {}
    who: dict[str, set[str]] = {}
    for client, lines in ledger["clients"].items():
        for line in lines:
            have = kinds.setdefault(line["kind"], [0, 0, 0])
            have[0] += line["releases"]
            have[1] += line["bytes"]
            have[2] += line["covered"]
            who.setdefault(line["kind"], set()).add(client)
    rows = [
        (
            kind,
            f"{len(who[kind]):,}",
            f"{times:,}",
            size(count),
            "all" if covered == times else f"{covered:,} of {times:,}",
        )
        for kind, (times, count, covered) in sorted(kinds.items(), key=lambda item: -item[1][1])
    ]
    return StudyTable(("kind", "clients", "times", "bytes", "covered by a guarantee"), rows, "By kind")


# ---- in words


def _most(clients: Sequence[str], columns: int) -> list[str]:
    """As many clients as a chart can carry."""
    return list(clients[: max(1, MOST_CELLS // max(columns, 1))])


def _rest(clients: Sequence[str], shown: Sequence[str]) -> str:
    return "" if len(shown) == len(clients) else f"The first {len(shown):,} of {len(clients):,} clients."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _named(clients: Sequence[str]) -> str:
    more = len(clients) - 3
    return ", ".join(clients[:3]) + (f" and {more} more" if more > 0 else "")
