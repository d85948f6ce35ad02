"""Settings line by line: the name as it is typed, the default, and what it means."""

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from understudy.settings import Settings, meanings, settings_in
from understudy.synthesis import generator as generators

MUST = "must be chosen"
BY_THE_MACHINE = "by the machine"


@dataclass(frozen=True)
class Line:
    setting: str  # local.lr
    default: Any  # a plain value
    meaning: str  # the comment behind the field, and what there is to choose from


def reference(kind: type[Settings], values: Mapping[str, Any] | None = None, within: str = "") -> list[Line]:
    """Every field, also those of settings inside; ``values`` where an outer default differs from the class's own."""
    values = defaults(kind).model_dump(mode="json") if values is None else values
    said = meanings(kind)
    lines: list[Line] = []
    for name, field in kind.model_fields.items():
        value = _shown(field, values.get(name))
        line = Line(within + name, value, _meaning(field, said[name], value))
        inside = settings_in(field.annotation)
        if name == "generator" and isinstance(value, Mapping):
            lines += _generator(line, value)
        elif isinstance(value, Mapping) and inside:
            lines += [Line(line.setting, "", line.meaning)] if line.meaning else []
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
    except ValidationError:  # something must be given that is no choice among words
        return kind.model_construct()


def must_be_chosen(field: FieldInfo) -> str:
    return f"{MUST}: {', '.join(choices(field.annotation))}"


def choices(annotation: Any) -> list[str]:
    """What the words of a field can be, through unions and lists; none where it is no choice."""
    if typing.get_origin(annotation) is Literal:
        return [str(word) for word in typing.get_args(annotation)]
    return [word for part in typing.get_args(annotation) for word in choices(part)]


def _generator(line: Line, value: Mapping[str, Any]) -> list[Line]:
    """One by name, with its own settings spelled out."""
    kind = generators.entry(value["name"]).settings
    name = Line(f"{line.setting}.name", value["name"], ", ".join(generators.names()))
    return [Line(line.setting, "", line.meaning), name, *reference(kind, value, f"{line.setting}.")]


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
