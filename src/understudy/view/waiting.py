"""What waits for approval at a site: a table, and a sheet of its images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.held import Held
from understudy.view.canvas import save_figure
from understudy.view.listings import shape_words
from understudy.view.numbers import epsilon_shown, size
from understudy.view.ruled import Columns, print_notes, print_rows
from understudy.view.sheet import Sheet, figure_of

COLUMNS: Columns = {
    "client": "words",
    "round": "number",
    **dict.fromkeys(("task", "would send"), "words"),
    **dict.fromkeys(("bytes", "ε"), "number"),
    "decision": "words",
}
NAMED = 6  # dropped rows that are named one by one


def print_waiting(held: Sequence[Held], console: Console | None = None) -> None:
    console = console or Console()
    print_rows(console, COLUMNS, [_row(one) for one in held])
    notes = [f"{one.about['client']}: {one.id}{_a_class(one)}" for one in held]
    notes += [f"{one.about['client']}: no single row can be dropped, since {one.whole}" for one in held if one.whole]
    if any(one.about["epsilon"] for one in held):
        notes.append("ε is for this reply alone, and is spent whatever you decide.")
    print_notes(console, notes)


def _row(one: Held) -> tuple[str, ...]:
    about = one.about
    parts = "\n".join(f"{p['part']}: {p['kind']}, {content_of(p)}" for p in about["parts"])
    total = size(sum(part["bytes"] for part in about["parts"]))
    where, spent = (about["client"], str(about["round"]), about["task"]), epsilon_shown(about["epsilon"] or None, 3)
    return (*where, parts, total, spent, standing(one))


def draw_waiting(held: Sequence[Held], file: Path, per_class: int) -> Path:
    """Clients down, classes across, up to ``per_class`` images per cell; one sheet per request that has images."""
    asks: dict[tuple[str, int, int], list[tuple[Held, Examples]]] = {}
    for one in held:
        examples = one.examples()
        if examples is not None and len(examples) and len(one.problem.shape) == 3:
            about = one.about
            asks.setdefault((about["run"], about["round"], about["step"]), []).append((one, examples))
    if not asks:
        raise UserError("Nothing waiting there holds images, so there is nothing to draw; leave --sheet out.")
    sheets = [_sheet(group) for group in asks.values()]
    most = max((count for one in held for count in one.a_class().values()), default=1)
    return save_figure(figure_of(sheets, min(per_class, most), "Images that wait for a person's approval"), file)


def _sheet(group: Sequence[tuple[Held, Examples]]) -> Sheet:
    first = group[0][0]
    sets: Mapping[str, Examples] = {one.about["client"]: examples for one, examples in group}
    label = f"{first.about['task']}, round {first.about['round']}"
    return Sheet(label, first.problem, dict(sets), list(sets), "not sent")


def _a_class(one: Held) -> str:
    hidden = one.not_shown()
    if hidden:
        return f", {hidden:,} examples that no sheet shows, since they are not records with one label each"
    return "".join(f", {count:,} of class {label}{_ids(label, count)}" for label, count in one.a_class().items())


def _ids(label: int, count: int) -> str:
    """By which ``--drop`` names them."""
    return f" ({label}.1)" if count == 1 else f" ({label}.1 to {label}.{count})"


def standing(one: Held) -> str:
    decision = one.decision
    if decision is None:
        return "waits"
    if not decision.dropped:
        return "yes, not sent yet" if decision.said == "yes" else "no"
    ids, many = one.ids(), len(decision.dropped)
    which = ", ".join(ids[row] for row in decision.dropped) if many <= NAMED else f"{many} of {len(ids)}"
    return f"yes without {which}, not sent yet"


def content_of(part: Mapping[str, Any]) -> str:
    values = part.get("values")
    return _shape(part["shape"]) if not values else " and ".join(f"{value:g}" for value in values)


def _shape(shape: Sequence[int]) -> str:
    """(72, 1, 8, 8) -> 72 of 8×8; one number has no shape."""
    if not shape:
        return "one number"
    count, *rest = shape
    return f"{count:,} of {shape_words(rest)}" if rest else f"{count:,} numbers"
