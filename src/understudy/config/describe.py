"""What is available, in plain values: methods with what they send and join, networks with their sizes, generators; and
the settings line by line: the name as typed, the default, and the meaning.
"""

import inspect
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from understudy import methods as _registered  # noqa: F401  (registers every method by being imported)
from understudy.base_settings import Settings, meanings, settings_in
from understudy.config import families
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation import registry
from understudy.federation.message import Kind
from understudy.federation.method import Method
from understudy.federation.registry import Entry
from understudy.models import zoo as models
from understudy.synthesis import generator as generators

SHAPES = {  # records of ten classes
    "8×8 grey": Problem((1, 8, 8), 10),
    "28×28 grey": Problem((1, 28, 28), 10),
    "32×32 colour": Problem((3, 32, 32), 10),
    "30 numbers": Problem((30,), 10, floats=True),
    "3×50 series": Problem((3, 50), 10, floats=True),
    "5,000 tokens": Problem((20,), 10, tokens=5000),
}


def describe_methods(name: str | None = None) -> list[dict[str, Any]]:
    entries = registry.entries()
    if name is not None:
        named = sorted((e for e in entries if e.name == name), key=lambda e: e.role != "method")
        entries = named or [registry.entry(name, "method")]
    return [_describe(entry) for entry in entries]


def _describe(entry: Entry) -> dict[str, Any]:
    plain = _built(registry.entry("fedavg", "method"))
    if entry.role == "add-on":
        built = entry.build(defaults(entry.settings), plain)
        sends = _added(plain, built)
        joins = [e.name for e in registry.entries() if e.role == "method" and _joins(entry, e)]
    else:
        built = _built(entry)
        sends = {name: dict(job.kinds) for name, job in built.jobs().items() if job.kinds}
        joins = [e.name for e in registry.entries() if e.role == "add-on" and _joins(e, entry)]
    kinds = {kind for parts in sends.values() for kind in parts.values()}
    return {
        "name": entry.name,
        "role": entry.role,
        "title": entry.title,
        "about": inspect.getdoc(inspect.getmodule(entry.build)) or entry.title,
        "command": families.command(entry, built.private),
        "family": families.family(entry, kinds, built.private),
        "settings": _with_choices(entry.settings),
        "reference": [asdict(line) for line in reference(entry.settings)],
        "presets": {name: dict(values) for name, values in entry.presets.items()},
        "sends": sends,
        "sends_in_words": families.sent(entry, kinds, built.private),
        "joins": joins,
        "takes": dict(built.takes),
    }


def _added(below: Method, above: Method) -> dict[str, dict[str, Kind]]:
    """By task, what is sent ``above`` only."""
    before = {(n, part) for n, job in below.jobs().items() for part in job.kinds}
    added = {
        n: {part: kind for part, kind in job.kinds.items() if (n, part) not in before}
        for n, job in above.jobs().items()
    }
    return {n: parts for n, parts in added.items() if parts}


def _joins(add_on: Entry, method: Entry) -> bool:
    try:
        add_on.build(defaults(add_on.settings), _built(method))
    except UserError:
        return False
    return True


def _built(entry: Entry) -> Method:
    return entry.build(defaults(entry.settings))


def _with_choices(kind: type[Settings]) -> dict[str, Any]:
    """The defaults, or the choices where there is no default."""
    required = {key: choices(field.annotation) for key, field in kind.model_fields.items() if field.is_required()}
    chosen = {key: f"{MUST}: {', '.join(words)}" for key, words in required.items()}
    return {**defaults(kind).model_dump(mode="json"), **chosen}


def describe_models() -> list[dict[str, Any]]:
    return [
        {
            **_about(entry),
            "fast": entry.fast,
            "takes": list(entry.takes),
            "parameters": {label: _parameters(entry, problem) for label, problem in SHAPES.items()},
        }
        for entry in map(models.entry, models.names())
    ]


def describe_generators(name: str | None = None) -> list[dict[str, Any]]:
    found = map(generators.entry, generators.names() if name is None else [name])
    return [{**_about(entry), "makes": list(getattr(entry.build, "makes", ()))} for entry in found]


def _about(entry: models.ModelEntry | generators.GeneratorEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "about": entry.about,
        "settings": entry.settings().model_dump(mode="json"),
        "reference": [asdict(line) for line in reference(entry.settings)],
    }


def _parameters(entry: models.ModelEntry, problem: Problem) -> int | None:
    """None if the network does not take such records."""
    try:
        models.check_takes(entry, problem)
        return sum(p.numel() for p in entry.build(problem, entry.settings()).parameters())
    except UserError:
        return None


# ---- settings line by line

MUST = "must be chosen"
BY_THE_MACHINE = "by the machine"


@dataclass(frozen=True)
class SettingLine:
    setting: str  # local.lr
    default: Any  # a plain value
    meaning: str  # the comment behind the field, and the choices


def reference(kind: type[Settings], values: Mapping[str, Any] | None = None, within: str = "") -> list[SettingLine]:
    """Every field, including nested settings; ``values`` where an outer default differs from the class's own."""
    values = defaults(kind).model_dump(mode="json") if values is None else values
    said = meanings(kind)
    lines: list[SettingLine] = []
    for name, field in kind.model_fields.items():
        value = _shown(field, values.get(name))
        line = SettingLine(within + name, value, _meaning(field, said[name], value))
        inside = settings_in(field.annotation)
        if name == "generator" and isinstance(value, Mapping):
            lines += _generator(line, value)
        elif isinstance(value, Mapping) and inside:
            lines += [SettingLine(line.setting, "", line.meaning)] if line.meaning else []
            chosen = next(one for one in inside if value.keys() <= one.model_fields.keys())
            lines += reference(chosen, value, f"{line.setting}.")
        else:
            lines.append(line)
            lines += reference(inside[0], None, f"{line.setting}.") if inside else []
    return lines


def defaults(kind: type[Settings]) -> Settings:
    """Default settings; where a choice must be made, the first one."""
    chosen = {key: choices(field.annotation)[:1] for key, field in kind.model_fields.items() if field.is_required()}
    try:
        return kind(**{key: first[0] for key, first in chosen.items() if first})
    except ValidationError:  # something required is not a choice among words
        return kind.model_construct()


def choices(annotation: Any) -> list[str]:
    """The words a field can hold, through unions and lists; none if it is not a choice."""
    if typing.get_origin(annotation) is Literal:
        return [str(word) for word in typing.get_args(annotation)]
    return [word for part in typing.get_args(annotation) for word in choices(part)]


def _generator(line: SettingLine, value: Mapping[str, Any]) -> list[SettingLine]:
    """A generator by name, with its own settings spelled out."""
    kind = generators.entry(value["name"]).settings
    name = SettingLine(f"{line.setting}.name", value["name"], ", ".join(generators.names()))
    return [SettingLine(line.setting, "", line.meaning), name, *reference(kind, value, f"{line.setting}.")]


def _shown(field: FieldInfo, value: Any) -> Any:
    if field.is_required():
        return MUST
    return BY_THE_MACHINE if field.default_factory is not None and isinstance(value, int) else value


def _meaning(field: FieldInfo, comment: str, value: Any) -> str:
    for ours, written in (("None", "null"), ("True", "true"), ("False", "false")):
        comment = comment.replace(f"{ours}:", f"{written}:")
    words = [word for word in choices(field.annotation) if word]
    if words == [value] or not words or settings_in(field.annotation):
        return comment
    listed = ", ".join(words)
    return f"{comment} ({listed})" if comment else listed
