"""What there is: methods, networks, data sets; and how skewed a split is."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from understudy.data.skew import Skew
from understudy.view.numbers import NONE
from understudy.view.ruled import number, print_notes, print_table, ruled, words

MOST_CLIENTS = 30


def print_methods(found: Sequence[Mapping[str, Any]], whole: bool = False, console: Console | None = None) -> None:
    """``found`` as `studies.catalogue.describe_methods` gives it; ``whole``: all about each."""
    console = console or Console()
    if whole:
        for one in found:
            print_method(one, console)
        return
    print_table(console, lambda gap: methods_table(found, gap))
    print_notes(console, [one["title"] for one in found])
    print_notes(console, ["Settings of one: understudy methods NAME."])


def methods_table(found: Sequence[Mapping[str, Any]], gap: int = 2) -> Table:
    table = ruled(gap)
    words(table, "name", whole=True)
    words(table, "role", whole=True)
    words(table, "clients send")
    words(table, "joins")
    for one in found:
        joins = ", ".join(one.get("joins", ())) or NONE
        table.add_row(*map(Text, (one["name"], one["role"], _sent(one), joins)))
    return table


def _sent(one: Mapping[str, Any]) -> str:
    """Kinds only: weights, scalars; an add-on may send nothing besides what its method sends."""
    kinds = dict.fromkeys(kind for parts in one["sends"].values() for kind in parts.values())
    return ", ".join(kinds) or ("nothing more" if one["role"] == "add-on" else NONE)


def print_method(one: Mapping[str, Any], console: Console | None = None) -> None:
    console = console or Console()
    console.print(Text.assemble((one["name"], "bold"), f"  {one['role']}"))
    console.print(Text(one["title"]))
    if one.get("joins"):
        console.print(Text(f"joins {', '.join(one['joins'])}"))
    console.print()
    print_table(console, lambda gap: settings_table(one["settings"], gap))
    console.print()
    for name, values in one.get("presets", {}).items():
        said = ", ".join(f"{key} {value}" for key, value in flat(values))
        console.print(Text(f"preset: {name}  {said}"))
    print_table(console, lambda gap: sends_table(one["sends"], gap))
    console.print()


def settings_table(settings: Mapping[str, Any], gap: int = 2) -> Table:
    table = ruled(gap)
    words(table, "setting", whole=True)
    words(table, "default")
    for name, value in flat(settings):
        table.add_row(Text(name), Text(value))
    if not settings:
        table.add_row(Text("none"), Text(""))
    return table


def flat(settings: Mapping[str, Any], within: str = "") -> list[tuple[str, str]]:
    """`local: {lr: 0.1}` as `local.lr`, the way it is typed."""
    lines: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            lines += flat(value, f"{within}{name}.")
        else:
            lines.append((within + name, _typed(value)))
    return lines


def _typed(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def sends_table(sends: Mapping[str, Mapping[str, str]], gap: int = 2) -> Table:
    table = ruled(gap)
    words(table, "task", whole=True)
    words(table, "part sent", whole=True)
    words(table, "kind")
    for task, parts in sends.items():
        for part, kind in parts.items():
            table.add_row(Text(task), Text(part), Text(kind))
    if not any(sends.values()):
        table.add_row(*map(Text, ("none", "nothing of its own leaves a client", "")))
    return table


def print_models(found: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """``found`` as `studies.catalogue.describe_models` gives it."""
    console = console or Console()
    print_table(console, lambda gap: models_table(found, gap))
    print_notes(console, ["Trainable parameters with ten classes, by the images that come in."])


def models_table(found: Sequence[Mapping[str, Any]], gap: int = 2) -> Table:
    table = ruled(gap)
    words(table, "name", whole=True)
    shapes = list(found[0]["parameters"]) if found else []
    for shape in shapes:
        number(table, shape.replace(" ", "\n"))
    words(table, "what it is")
    for one in found:
        counts = (one["parameters"][shape] for shape in shapes)
        cells = (NONE if count is None else f"{count:,}" for count in counts)
        table.add_row(*map(Text, (one["name"], *cells, one["about"])))
    return table


def print_data_sets(rows: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """``rows`` have name, shape, classes, records (training, test), origin and here."""
    console = console or Console()
    print_table(console, lambda gap: data_sets_table(rows, gap))
    if not all(row["here"] for row in rows):
        print_notes(console, ["Fetch one that is not here: understudy data get NAME."])


def data_sets_table(rows: Sequence[Mapping[str, Any]], gap: int = 2) -> Table:
    table = ruled(gap)
    words(table, "name", whole=True)
    words(table, "here", whole=True)
    number(table, "image")
    for heading in ("classes", "training", "test"):
        number(table, heading)
    words(table, "from")
    for row in rows:
        training, test = row["records"]
        numbers = (shape_words(row["shape"]), f"{row['classes']:,}", f"{training:,}", f"{test:,}")
        table.add_row(*map(Text, (row["name"], "yes" if row["here"] else "no", *numbers, row["origin"])))
    return table


def shape_words(shape: Sequence[int]) -> str:
    """(3, 32, 32) -> 32×32×3"""
    channels, *sides = shape
    return "×".join(map(str, sides if channels == 1 and sides else [*sides, channels]))


def print_skew(skew: Skew, console: Console | None = None) -> None:
    console = console or Console()
    print_table(console, lambda gap: skew_table(skew, gap))
    print_notes(console, skew_notes(skew))


def skew_table(skew: Skew, gap: int = 2) -> Table:
    table = ruled(gap)
    words(table, "client")
    for heading in ("records", "held\nout", "classes", "entropy\nnats", "effective\nclasses", "distance"):
        number(table, heading)
    for one in skew.clients[:MOST_CLIENTS]:
        numbers = (f"{one.entropy:.2f}", f"{one.effective_classes:.1f}", f"{one.distance:.2f}")
        counts = (f"{count:,}" for count in (one.records, one.held_out, one.classes))
        table.add_row(*map(Text, (one.name, *counts, *numbers)))
    mean = (f"{skew.mean_entropy:.2f}", NONE, f"{skew.mean_distance:.2f}")
    table.add_section()
    held = sum(one.held_out for one in skew.clients)
    table.add_row(*map(Text, ("all, or mean", f"{skew.records:,}", f"{held:,}", f"{skew.mean_classes:.1f}", *mean)))
    return table


def skew_notes(skew: Skew) -> list[str]:
    notes = [
        "distance: of a client's labels to those of all together; 0 the same, 1 nothing in common.",
        f"{len(skew.clients)} clients with {skew.smallest:,} to {skew.largest:,} records, "
        f"in effect {skew.effective_clients:.1f} of equal size; entropy of all labels {skew.entropy_of_all:.2f} nats.",
    ]
    if skew.empty_clients:
        notes.append(f"{skew.empty_clients} of them without records, left out of the means.")
    if len(skew.clients) > MOST_CLIENTS:
        notes.append(f"The first {MOST_CLIENTS} are listed; --json has all.")
    return notes
