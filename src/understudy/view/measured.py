"""`understudy measure` as a table: what was measured beside what the theory predicts."""

from rich.console import Console
from rich.table import Table

from understudy.runs.measure import SMOOTHNESS_IS, Cost, Measured, Speed
from understudy.runs.quantities import Shuffled
from understudy.view.numbers import NONE, percent, size
from understudy.view.ruled import filled, print_notes, print_table


def print_measured(found: Measured, console: Console | None = None) -> None:
    console = console or Console()
    print_table(console, lambda gap: measured_table(found, gap))
    print_notes(console, measured_notes(found))


def measured_table(found: Measured, gap: int = 2) -> Table:
    headings = ["own records"] if found.shuffled is None else ["own records", "with synthetic", "bound", "kept"]
    columns = {f"{found.label}, {found.at} model": "whole", **dict.fromkeys(headings, "number")}
    return filled(columns, _rows(found), gap)


def _rows(found: Measured) -> list[list[str]]:
    own, mixed = {"ζ²": found.zeta2, "σ²": found.sigma2, "L": found.smoothness}, found.shuffled
    if mixed is None:
        return [[name, _short(value)] for name, value in own.items()]
    bounds = (_short(mixed.zeta2_bound), _short(mixed.sigma2_bound), "")
    rows = zip(own.items(), (mixed.zeta2, mixed.sigma2, mixed.smoothness), bounds, strict=True)
    return [[name, _short(before), _short(after), bound, _kept(before, after)] for (name, before), after, bound in rows]


def _short(value: float) -> str:
    return f"{value:.4g}"


def _kept(before: float, after: float) -> str:
    return f"× {after / before:.3f}" if before else NONE


def measured_notes(found: Measured) -> list[str]:
    notes = [
        f"{found.clients} clients, weighted equally, {found.records:,} records, {found.parameters:,} parameters; "
        "ζ² and σ² are exact, from every record's gradient.",
        f"L is {SMOOTHNESS_IS}.",
    ]
    notes += [] if found.shuffled is None else _about_pool(found.shuffled)
    notes += [] if found.speed is None else [_about_speed(found.speed)]
    return notes + ([] if found.cost is None else _about_cost(found.cost))


def _about_pool(mixed: Shuffled) -> list[str]:
    return [
        f"Pool: {mixed.images:,} images, p = {mixed.p:.3f}, σ̃² = {_short(mixed.sigma2_pool)}, "
        f"δ² = {_short(mixed.delta2)}.",
        mixed.verdict,
    ]


def _about_speed(speed: Speed) -> str:
    rounds = NONE if speed.rounds is None else str(speed.rounds)
    said = f"Rounds to {percent(speed.target)}: {rounds}"
    if speed.against is None:
        return said + "."
    other = NONE if speed.rounds_against is None else str(speed.rounds_against)
    factor = "" if speed.speed_up is None else f", {speed.speed_up:.1f} times as many"
    return f"{said}; {speed.against} needs {other}{factor}."


def _about_cost(cost: Cost) -> list[str]:
    formula, images = "plain averaging, 2·R·M_c", ""
    if cost.images:
        formula, images = "shuffling with averaging, 2·M_s + 2·R·M_c", f", M_s = {size(cost.images)}"
    notes = [
        f"A client sent and received {size(cost.measured)}; {formula}, is {size(cost.formula)}, "
        f"R = {cost.rounds:g}, M_c = {size(cost.model)}{images}."
    ]
    if cost.images_dealt < cost.images:
        notes.append(f"Of M_s only {size(cost.images_dealt)} went down, as some clients have not been asked yet.")
    return notes
