"""What an audit of a run found, as a table; and the shared images nearest to a record, each beside it."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from understudy.audits.measures import Interval, Reached
from understudy.audits.members import SMALL
from understudy.audits.result import AttackRow, Audit
from understudy.view.numbers import NONE
from understudy.view.ruled import filled, print_notes, print_table


def print_audit(found: Audit, console: Console | None = None) -> None:
    console = console or Console()
    console.print(f"{found.label}: what left was attacked in {len(found.rows)} ways.", highlight=False)
    print_table(console, lambda gap: audit_table(found.rows, gap))
    print_notes(console, audit_notes(found))


def audit_table(rows: Sequence[AttackRow], gap: int = 2) -> Table:
    small = any(row.small is not None for row in rows)
    headings = [
        "caught\n%",
        "by\nchance",
        "AUC",
        "AUC by\nchance",
        *(["small\n%", "small by\nchance", "small\nAUC"] if small else []),
    ]
    cells = [[row.name, *_pooled(row), *(_small(row) if small else [])] for row in rows]
    return filled({"attack": "words", **dict.fromkeys(headings, "number")}, cells, gap)


def _pooled(row: AttackRow) -> list[str]:
    return [_share(row.pooled.caught), _short(row.null), _auc(row.pooled), _auc(row.null)]


def _small(row: AttackRow) -> list[str]:
    return [NONE if row.small is None else _share(row.small.caught), _short(row.null_small), _auc(row.small)]


def audit_notes(found: Audit) -> list[str]:
    notes = [
        f"caught: of {found.members:,} records that were trained on, how many an attacker recognises (95 % interval) "
        f"where 1 % of {found.non_members:,} others are taken for members. By chance: the same attack on what no "
        "client sent."
    ]
    if any(row.small is not None for row in found.rows):
        notes.append(f"small: the same among classes of which a client holds at most {SMALL} records.")
    if found.copies is not None:
        notes.append(
            f"near-copies: {found.copies.near} of {found.copies.images} shared examples "
            f"({100 * found.copies.share:.0f} %) are nearer to a training record than 99 % of held-out records are."
        )
    if found.images:
        notes.append(f"sent: {found.images:,} examples for {found.records:,} records ({100 * found.share_sent:.0f} %).")
    if found.epsilon is not None:
        notes.append(f"ε = {found.epsilon:.3g} covers everything that left; no attack here can refute that.")
    notes += found.notes
    notes.append("This report comes from real records and is itself a release: it stays with whoever holds them.")
    return notes


def _share(found: Interval) -> str:
    return f"{100 * found.value:.1f} ({100 * found.low:.1f}–{100 * found.high:.1f})"


def _short(found: Reached | None) -> str:
    return NONE if found is None else f"{100 * found.caught.value:.1f}"


def _auc(found: Reached | None) -> str:
    return NONE if found is None else f"{found.auc.value:.3f}"
