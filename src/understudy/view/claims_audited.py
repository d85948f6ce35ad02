"""An audit of claims for people: what each mechanism claims, and what every pair of neighbours showed."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from understudy.audits.claims.findings import AuditedMechanism, CanaryRow, ClaimsAudit, JudgedRow
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
        if mechanism.canaries:
            print_table(console, lambda gap, one=mechanism: canaries_table(one, gap))  # type: ignore[misc]
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


def canaries_table(mechanism: AuditedMechanism, gap: int = 2) -> Table:
    numbers = ("canaries", "guesses", "right", "ε\nclaimed", "ε\nshown", "at\nmost")
    cells = [
        [
            _looked_at(row, mechanism.claimed.steps),
            f"{row.run.guesses.canaries}",
            f"{row.run.guesses.made}",
            f"{row.run.guesses.right}",
            epsilon_shown(row.epsilon),
            f"{row.run.epsilon_lower:.2f}",
            f"{row.run.cap:.2f}",
            _word(row),
        ]
        for row in mechanism.canaries
    ]
    return filled({"one run: what was looked at": "words", **dict.fromkeys(numbers, "number"), "": "words"}, cells, gap)


def _looked_at(row: CanaryRow, steps: int) -> str:
    if row.what == "first release" or row.steps == steps:
        return row.what if row.steps == 1 else f"all {row.steps:,} releases"
    first = "first" if row.steps == 1 else f"first {row.steps:,}"
    return f"{first} of {steps:,} releases" + ("" if row.whole else ", where the run was ended")


def _word(row: JudgedRow | CanaryRow) -> str:
    verdict = row.verdict if isinstance(row, JudgedRow) else row.run
    if row.refuted:
        return "refuted"
    if verdict.refuted:
        return "refuted once, not in the second pass"
    return "" if verdict.within_reach else "out of reach"


def notes(audit: ClaimsAudit) -> list[str]:
    return [*_about_rows(audit), *audit.not_tested]


def _about_rows(audit: ClaimsAudit) -> list[str]:
    if not audit.mechanisms:
        return []
    canaries = [row for one in audit.mechanisms for row in one.canaries]
    if canaries:
        return [_of_canaries(canaries[0]), *_not_run(audit)]
    if not any(one.rows for one in audit.mechanisms):
        return _not_run(audit)
    found = dict.fromkeys(row.verdict.note for one in audit.mechanisms for row in one.rows if row.verdict.note)
    return [
        "ε claimed: of the releases tested, which may be fewer than a round's. ε shown: the least that the runs allow; "
        "at most: what flawless guesses would have shown. --json has rates, steps, false alarms and misses.",
        *(f"Of {_pairs_with(audit, note)}: {note}." for note in found),
        *_not_run(audit),
    ]


def _of_canaries(row: CanaryRow) -> str:
    return (
        "Guesses of which canaries were put in; as many as showed most. ε claimed: of the releases looked at. ε shown: "
        f"the least that so many right guesses allow; at most: the cap for {row.run.guesses.canaries:,} canaries, all "
        f"guesses right, at level {row.run.level:.2g} and δ = {row.run.delta:g}. One run sounds an alarm; without "
        "--canaries many runs look closer."
    )


def _not_run(audit: ClaimsAudit) -> list[str]:
    left_out = {what: why for one in audit.mechanisms for what, why in one.left_out.items()}
    return [f"Not run, {what}: {why}" for what, why in left_out.items()]


def _pairs_with(audit: ClaimsAudit, note: str) -> str:
    rows = [row for one in audit.mechanisms for row in one.rows if row.verdict.note == note]
    return ", ".join(dict.fromkeys(f"'{row.pair}'" for row in rows))
