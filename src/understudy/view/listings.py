"""What is available: methods, networks, generators, data sets; and how skewed a split is."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from understudy.view.numbers import NONE
from understudy.view.ruled import Columns, filled, print_notes, print_rows, print_table

if TYPE_CHECKING:  # listings that are kept are printed without torch
    from understudy.data.inspection import Inspection, Persons
    from understudy.data.skew import Skew

KINDS_OF_RECORD = 4  # `data.kinds` lists them, and needs torch
MOST_CLIENTS = 30
MOST_SIZES = 3  # columns of parameter counts beside each other
MOST_NAMES = 3  # of what joins a method, or what an add-on joins
SENDS: Columns = {"task": "whole", "part sent": "whole", "kind": "words"}
SETTINGS: Columns = {"setting": "whole", "default": "words", "meaning": "words"}
SETTINGS_BY_NAME: Columns = {"name": "whole", "setting": "whole", "default": "whole", "meaning": "words"}
SETS: Columns = {
    **dict.fromkeys(("name", "here"), "whole"),
    **dict.fromkeys(("image", "classes", "training", "test"), "number"),
    "from": "words",
}
SKEW = ("records", "held\nout", "classes", "entropy\nnats", "effective\nclasses", "distance")


def print_methods(found: Sequence[Mapping[str, Any]], whole: bool = False, console: Console | None = None) -> None:
    """``found`` as returned by `config.describe.describe_methods`; ``whole``: everything about each."""
    console = console or Console()
    if whole:
        for one in found:
            print_method(one, console)
        return
    _print_role(console, "add-on", found)
    console.print()
    _print_role(console, "method", found)
    notes = ["Typed as with=ADD-ON and method=METHOD.", "Paper, algorithm, settings, joins: understudy methods NAME."]
    notes.append("takes: kinds of record (data.kind); * with a setting: understudy methods NAME.")
    print_notes(console, notes)


def _print_role(console: Console, role: str, found: Sequence[Mapping[str, Any]]) -> None:
    """One line each; more names than a few are only counted."""
    rows = []
    for one in found:
        if one["role"] == role:
            joins = one.get("joins", ())
            counted = f"{len(joins)} {'methods' if role == 'add-on' else 'add-ons'}"
            said = counted if len(joins) > MOST_NAMES else ", ".join(joins) or NONE
            rows.append((one["name"], _sent(one), _taken_briefly(one), said))
    print_rows(console, {role: "whole", "clients send": "words", "takes": "words", "joins": "words"}, rows)


def _sent(one: Mapping[str, Any]) -> str:
    """Kinds only: weights, scalars; an add-on may send nothing besides what its method sends."""
    kinds = dict.fromkeys(kind for parts in one["sends"].values() for kind in parts.values())
    return ", ".join(kinds) or ("nothing more" if one["role"] == "add-on" else NONE)


def _taken_briefly(one: Mapping[str, Any]) -> str:
    """all, or the kinds of record; * where a setting is needed."""
    takes = one["takes"]
    if len(takes) == KINDS_OF_RECORD and not any(takes.values()):
        return "all"
    return ", ".join(f"{kind}{'*' if needs else ''}" for kind, needs in takes.items())


def taken(one: Mapping[str, Any]) -> str:
    """image, vector (with dsa=false)"""
    return ", ".join(f"{kind} (with {needs})" if needs else kind for kind, needs in one["takes"].items())


def print_method(one: Mapping[str, Any], console: Console | None = None) -> None:
    console = console or Console()
    console.print(Text.assemble((one["name"], "bold"), f"  {one['role']}"))
    console.print(Text(_reflowed(one["about"]) + "\n"))
    console.print(Text(f"takes {taken(one)}\n"))
    if one.get("joins"):
        console.print(Text(f"joins {', '.join(one['joins'])}\n"))
    _print_settings(console, one["reference"])
    for name, values in one.get("presets", {}).items():
        said = ", ".join(f"{key} {value}" for key, value in flat(values))
        console.print(Text(f"preset: {name}  {said}"))
    print_notes(console, _typing(one))
    console.print()
    sent = [(task, part, kind) for task, parts in one["sends"].items() for part, kind in parts.items()]
    print_rows(console, SENDS, sent or [("none", "nothing of its own leaves a client", "")])
    console.print()


def _reflowed(text: str) -> str:
    """One line per paragraph, to be wrapped by the window; indented text stays as it is."""
    parts = text.split("\n\n")
    return "\n\n".join(part if "\n " in f"\n{part}" else " ".join(part.split("\n")) for part in parts)


def _typing(one: Mapping[str, Any]) -> list[str]:
    run = [f"Run it: {one['command']}"] if one.get("command") else []
    if one["role"] == "method":
        return ["Typed as method.SETTING=VALUE; every method also has method.rounds, .cohort and .min_replies.", *run]
    notes = [f"Typed as with.{one['name']}.SETTING=VALUE.", *run]
    if any(line["setting"] == "generator.name" for line in one["reference"]):
        notes.append("Settings of other generators: understudy generators NAME.")
    return notes


def _print_settings(console: Console, reference: Sequence[Mapping[str, Any]]) -> None:
    rows = [(line["setting"], typed(line["default"]), line["meaning"]) for line in reference]
    print_rows(console, SETTINGS, rows or [("none", "", "")])


def flat(settings: Mapping[str, Any], within: str = "") -> list[tuple[str, str]]:
    """`local: {lr: 0.1}` as `local.lr`, the way it is typed."""
    lines: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            lines += flat(value, f"{within}{name}.")
        else:
            lines.append((within + name, typed(value)))
    return lines


def typed(value: object) -> str:
    """As it is written in a config."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(typed, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def print_models(found: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """``found`` as returned by `config.describe.describe_models`."""
    console = console or Console()
    shapes = list(found[0]["parameters"]) if found else []
    for at in range(0, len(shapes), MOST_SIZES):  # images, then other records
        some = shapes[at : at + MOST_SIZES]
        counts = [(one, [one["parameters"][shape] for shape in some]) for one in found]
        rows = [(one["name"], *map(_count, each), one["about"]) for one, each in counts if any(each)]
        sizes: Columns = {shape.replace(" ", "\n"): "number" for shape in some}
        print_rows(console, {"name": "whole", **sizes, "what it is": "words"}, rows)
    print_notes(console, ["Trainable parameters with ten classes, by kind of record.\n"])
    settings = [
        (one["name"], line["setting"], typed(line["default"]), line["meaning"])
        for one in found
        for line in one["reference"]
    ]
    print_rows(console, SETTINGS_BY_NAME, settings)
    print_notes(console, ["Typed as model.SETTING=VALUE; networks not listed here have no settings."])


def _count(parameters: int | None) -> str:
    return NONE if parameters is None else f"{parameters:,}"


def print_generators(found: Sequence[Mapping[str, Any]], whole: bool = False, console: Console | None = None) -> None:
    """``found`` as returned by `config.describe.describe_generators`; ``whole``: everything about each."""
    console = console or Console()
    if whole:
        for one in found:
            console.print(Text.assemble((one["name"], "bold"), f"  {one['about']}\n"))
            _print_settings(console, one["reference"])
            print_notes(console, [f"For fedssyn: 'with.fedssyn.generator={{name: {one['name']}, SETTING: VALUE}}'."])
        return
    rows = [(one["name"], ", ".join(one["makes"]), one["about"]) for one in found]
    print_rows(console, {"name": "whole", "makes": "words", "what it is": "words"}, rows)
    print_notes(console, ["Settings of one: understudy generators NAME."])


def print_data_sets(rows: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """``rows`` have name, shape, classes, records (training, test), origin and here."""
    console = console or Console()
    print_rows(console, SETS, [_data_set_row(row) for row in rows])
    if not all(row["here"] for row in rows):
        print_notes(console, ["Fetch one that is not here: understudy data get NAME."])


def _data_set_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    training, test = row["records"]
    numbers = (shape_words(row["shape"]), f"{row['classes']:,}", f"{training:,}", f"{test:,}")
    return (row["name"], "yes" if row["here"] else "no", *numbers, row["origin"])


def shape_words(shape: Sequence[int]) -> str:
    """(3, 32, 32) -> 32×32×3"""
    channels, *sides = shape
    return "×".join(map(str, sides if channels == 1 and sides else [*sides, channels]))


def print_skew(skew: "Skew", besides: Sequence[str] = (), console: Console | None = None) -> None:
    console = console or Console()
    print_table(console, lambda gap: skew_table(skew, gap))
    print_notes(console, [*besides, *skew_notes(skew)])


def print_inspection(found: "Inspection", console: Console | None = None) -> None:
    console = console or Console()
    print_rows(console, {"where": "words", "records": "number"}, [(n, f"{c:,}") for n, c in found.records.items()])
    print_rows(console, {"class": "words", "records": "number"}, [(n, f"{c:,}") for n, c in found.classes.items()])
    persons = [] if found.persons is None else [_whose(found.persons)]
    print_notes(console, [f"{found.kind}; {found.scale}.", *persons, *(found.warnings or ("Nothing looks wrong.",))])


def _whose(persons: "Persons") -> str:
    return f"{persons.number:,} persons, with up to {persons.most_records:,} records each to learn from at one site."


def skew_table(skew: "Skew", gap: int = 2) -> Table:
    rows = []
    for one in skew.clients[:MOST_CLIENTS]:
        numbers = (f"{one.entropy:.2f}", f"{one.effective_classes:.1f}", f"{one.distance:.2f}")
        rows.append((one.name, *(f"{count:,}" for count in (one.records, one.held_out, one.classes)), *numbers))
    table = filled({"client": "words", **dict.fromkeys(SKEW, "number")}, rows, gap)
    mean = (f"{skew.mean_entropy:.2f}", NONE, f"{skew.mean_distance:.2f}")
    table.add_section()
    held = sum(one.held_out for one in skew.clients)
    table.add_row(*map(Text, ("all, or mean", f"{skew.records:,}", f"{held:,}", f"{skew.mean_classes:.1f}", *mean)))
    return table


def skew_notes(skew: "Skew") -> list[str]:
    notes = [
        "distance: between a client's labels and those of all clients; 0 the same, 1 nothing in common.",
        f"{len(skew.clients)} clients with {skew.smallest:,} to {skew.largest:,} records, "
        f"in effect {skew.effective_clients:.1f} of equal size; entropy of all labels {skew.entropy_of_all:.2f} nats.",
    ]
    if skew.empty_clients:
        notes.append(f"{skew.empty_clients} of them without records, left out of the means.")
    if len(skew.clients) > MOST_CLIENTS:
        notes.append(f"The first {MOST_CLIENTS} are listed; --json has all.")
    return notes
