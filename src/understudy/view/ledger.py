"""A run's ledger for people: what each client spent and on what, what left it, and what no guarantee covers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from understudy.runs.folder import RunFolder
from understudy.runs.persons import PersonEpsilon, person_epsilon
from understudy.view.numbers import epsilon_shown, size
from understudy.view.ruled import Columns, print_notes, print_rows

NAMED = 3  # clients by name in one row; clients with the same line share it
CLAIM = ("mechanism", "clip", "noise", "rate", "delta", "accountant", "unit", "test_noise")  # what makes charges alike
SPENT: Columns = {
    "client": "words",
    "ε": "number",
    "mechanism": "words",
    **dict.fromkeys(("clip", "noise σ", "rate", "steps", "rounds", "δ"), "number"),
    **dict.fromkeys(("by", "unit"), "words"),
}
LEFT: Columns = {
    **dict.fromkeys(("client", "task", "part", "kind"), "words"),
    **dict.fromkeys(("times", "bytes"), "number"),
    "covered by": "words",
}

Cells = tuple[str, ...]
LedgerValues = Mapping[str, Any]


def print_ledger(folder: Path, console: Console | None = None) -> None:
    """Reads ``ledger.json`` of a run folder."""
    console, ledger = console or Console(), RunFolder(folder).ledger()
    console.print(Text(headline(ledger), style="bold"), soft_wrap=True)
    if (person := person_epsilon(folder, ledger)) is not None:
        console.print(Text(for_persons(person)), soft_wrap=True)
    parts = (("What was spent", SPENT, mechanism_rows(ledger)), ("What left", LEFT, release_rows(ledger)))
    for heading, columns, rows in parts:
        if rows:
            console.print(Text(f"\n{heading}", style="bold"))
            print_rows(console, columns, _named_once(rows))
    console.print(Text("\nWhat is not covered", style="bold"))
    for sentence in not_covered(ledger) or ["Nothing: every part that left is covered or declared public."]:
        console.print(Text(f"  {sentence}"), soft_wrap=True)
    print_notes(console, notes_of(ledger))


def headline(ledger: LedgerValues) -> str:
    """One sentence: what the run as a whole promises."""
    epsilon, charges = ledger["epsilon"], list(_charges(ledger))
    if epsilon is None:
        return "No guarantee: see what is not covered."
    if not charges:
        return "ε = 0: nothing that depends on records left."
    delta, accountant = charges[0][1]["delta"], charges[0][1]["accountant"]
    return (
        f"ε = {epsilon_shown(epsilon, 3)} at δ = {delta:g} ({accountant}) for one {charges[0][1]['unit']}, "
        f"the largest over {len(ledger['epsilon_by_client'])} clients."
    )


def for_persons(found: PersonEpsilon) -> str:
    if found.epsilon is None:
        return f"For a person, who has up to {found.records} records at one client, no bound is known."
    return (
        f"For a person, who has up to {found.records} records at one client: ε = {epsilon_shown(found.epsilon, 3)} at "
        "the same δ, by group privacy."
    )


# ---- what was spent


def mechanism_rows(ledger: LedgerValues) -> list[Cells]:
    """One row per mechanism of a client, steps summed over rounds; clients with equal rows share one."""
    by_client: dict[str, dict[tuple[Any, ...], list[Mapping[str, Any]]]] = {}
    for client, charge in _charges(ledger):
        alike = by_client.setdefault(client, {})
        alike.setdefault(tuple(charge[key] for key in CLAIM), []).append(charge)
    rows = []
    for client, alike in by_client.items():
        epsilon = ledger["epsilon_by_client"].get(client)
        for at, charges in enumerate(alike.values()):
            rows.append((client, *_mechanism(charges, epsilon_shown(epsilon, 3), at == 0)))
    return _shared(rows)


def _mechanism(charges: Sequence[Mapping[str, Any]], epsilon: str, first: bool) -> Cells:
    one = charges[0]
    return (
        epsilon if first else "",
        one["mechanism"] + (" (test noise)" if one["test_noise"] else ""),
        f"{one['clip']:g}",
        f"{one['noise']:g}",
        f"{one['rate']:.4g}",
        f"{sum(charge['steps'] for charge in charges):,}",
        str(len({charge["round"] for charge in charges})),
        f"{one['delta']:g}",
        one["accountant"],
        one["unit"],
    )


# ---- what left


def release_rows(ledger: LedgerValues) -> list[Cells]:
    rows = []
    for client, lines in ledger["clients"].items():
        for line in lines:
            times, covered = line["releases"], line["covered"]
            how = "nothing" if not covered else line["mechanism"] + ("" if covered == times else f", {covered} times")
            part = "–" if line["kind"] == "decision" else line["part"]
            rows.append((client, line["task"], part, line["kind"], f"{times:,}", size(line["bytes"]), how))
    return _shared(rows)


# ---- what no guarantee covers


def not_covered(ledger: LedgerValues) -> list[str]:
    """One sentence per part that depends on records and that no charge covers, or whose noise can be repeated."""
    rows = []
    for client, lines in ledger["clients"].items():
        for line in lines:
            bare = line["releases"] - line["covered"]
            if bare:
                times = "once" if bare == 1 else f"{bare:,} times"
                rows.append((client, f"{_bare(line)}, {times}"))
    found = [f"{clients}: {what}" for clients, what in _shared(rows)]
    repeatable = list(dict.fromkeys(client for client, charge in _charges(ledger) if charge["test_noise"]))
    if repeatable:
        found.append(f"{_named(repeatable)}: all of it, since the noise can be repeated (privacy.test_noise)")
    return found


def _bare(line: Mapping[str, Any]) -> str:
    if line["kind"] == "decision":
        return f"what a person with records in view decided about {line['task']}"
    return f"'{line['part']}' ({line['kind']}) of {line['task']}"


def notes_of(ledger: LedgerValues) -> list[str]:
    public = sorted({fact for _, charge in _charges(ledger) for fact in charge["public"]})
    notes = [f"Declared public: {', '.join(public)}."] if public else []
    if any(True for _ in _charges(ledger)):
        notes.append("Noise σ is in units of the clip; rate is that of Poisson sampling; steps are summed over rounds.")
    return notes


# ---- rows


def _charges(ledger: LedgerValues) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return ((client, charge) for client, charges in ledger.get("charges", {}).items() for charge in charges)


def _shared(rows: Sequence[Cells]) -> list[Cells]:
    """Clients whose rows are all equal share them, in the order of the first."""
    of_client: dict[str, list[Cells]] = {}
    for client, *rest in rows:
        of_client.setdefault(client, []).append(tuple(rest))
    together: dict[tuple[Cells, ...], list[str]] = {}
    for client, mine in of_client.items():
        together.setdefault(tuple(mine), []).append(client)
    return [(_named(clients), *row) for mine, clients in together.items() for row in mine]


def _named(clients: Sequence[str]) -> str:
    more = len(clients) - NAMED
    return ", ".join(clients[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _named_once(rows: Sequence[Cells]) -> list[Cells]:
    """Without a client's name where the row above has it."""
    before = ["", *(client for client, *_ in rows)]
    return [("" if row[0] == above else row[0], *row[1:]) for above, row in zip(before, rows, strict=False)]
