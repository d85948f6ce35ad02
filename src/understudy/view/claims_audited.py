"""An audit of claims for people: what each mechanism claims, and what every pair of neighbours showed."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from understudy.audits.claims.findings import AuditedMechanism, ClaimsAudit, JudgedRow
from understudy.view.numbers import epsilon_shown
from understudy.view.ruled import filled, print_notes, print_table


def print_claims_audit(audit: ClaimsAudit, console: Console | None = None) -> None:
    console = console or Console()
    console.print(Text(f"{audit.method}: {audit.sentence}", style="bold"), soft_wrap=True)
    for mechanism in audit.mechanisms:
        console.print(Text(f"\n{heading(mechanism)}"), soft_wrap=True)
        console.print(Text(mechanism.sentence, style="bold"), soft_wrap=True)
        if mechanism.rows:
            print_table(console, lambda gap, rows=mechanism.rows: rows_table(rows, gap))  # type: ignore[misc]
    print_notes(console, notes(audit))


def heading(mechanism: AuditedMechanism) -> str:
    one = mechanism.claimed
    return (
        f"{one.task}, {one.mechanism}: C = {one.clip:.4g}, σ = {one.noise:g}, q = {one.rate:.4g}, T = {one.steps:,}; "
        f"claims ε = {epsilon_shown(one.epsilon)} at δ = {one.delta:g} per round"
    )


def rows_table(rows: Sequence[JudgedRow], gap: int = 2) -> Table:
    numbers = ("runs", "ε\nclaimed", "ε\nshown", "at\nmost")
    cells = [
        [
            f"{row.pair}: {row.what}, {row.statistic}",
            f"{row.runs}",
            epsilon_shown(row.epsilon),
            f"{row.verdict.epsilon_lower:.2f}",
            f"{row.verdict.ceiling:.2f}",
            _word(row),
        ]
        for row in rows
    ]
    return filled({"pair: what was looked at": "words", **dict.fromkeys(numbers, "number"), "": "words"}, cells, gap)


def _word(row: JudgedRow) -> str:
    if row.refuted:
        return "refuted"
    if row.verdict.refuted:
        return "refuted once, not in the second pass"
    return "" if row.verdict.within_reach else "out of reach"


def notes(audit: ClaimsAudit) -> list[str]:
    if not audit.mechanisms:
        return []
    found = dict.fromkeys(row.verdict.note for one in audit.mechanisms for row in one.rows if row.verdict.note)
    left_out = {pair: why for one in audit.mechanisms for pair, why in one.left_out.items()}
    return [
        "ε claimed: of the releases tested, which may be fewer than a round's. ε shown: the least that the runs allow; "
        "at most: what flawless guesses would have shown. --json has rates, steps, false alarms and misses.",
        *(f"Of {_pairs_with(audit, note)}: {note}." for note in found),
        *(f"Not run, {pair}: {why}" for pair, why in left_out.items()),
    ]


def _pairs_with(audit: ClaimsAudit, note: str) -> str:
    rows = [row for one in audit.mechanisms for row in one.rows if row.verdict.note == note]
    return ", ".join(dict.fromkeys(f"'{row.pair}'" for row in rows))
