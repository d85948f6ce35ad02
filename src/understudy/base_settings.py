"""The base class of everything read from a config, and what its fields mean."""

import ast
import inspect
import io
import textwrap
import tokenize
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator


class Settings(BaseModel):
    """Frozen values with defaults; a key that is not a field is an error. The comment behind a field is its meaning.

    >>> import understudy as us
    >>> class Halfway(us.Settings):
    ...     share: float = 0.5  # how far to go
    >>> Halfway(share=0.3).share
    0.3
    """

    instead: ClassVar[tuple[tuple[str, str], ...]] = ()  # pairs of keys where one replaces the other

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _true_is_no_number(cls, given: object) -> object:
        """To Python, true is 1: `rounds=true` would mean one round."""
        for name, value in given.items() if isinstance(given, dict) else ():
            field = cls.model_fields.get(name)
            takes = _plain_kinds(field.annotation) if field is not None else set()
            values = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(one, bool) for one in values) and takes & {int, float} and bool not in takes:
                raise ValueError(f"{name} must be a number, not true or false")
        return given


class NoSettings(Settings):
    """For anything without settings."""


def meanings(kind: type[Settings]) -> dict[str, str]:
    """The comment behind each field, or above it if there is no room; else "". A subclass that only changes a field's
    default keeps the comment."""
    said: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if issubclass(one, Settings):
            said |= comments_behind(one)
    return {name: said.get(name, "") for name in kind.model_fields}


def settings_in(annotation: Any) -> list[type[Settings]]:
    """The settings classes that a field can hold, through unions and lists, in source order."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [kind for part in typing.get_args(annotation) for kind in settings_in(part)]


def names_within(kind: type[Settings], where: str) -> Iterator[str]:
    """The full name of every setting of ``kind``, and of those inside it: ``method.local``, ``method.local.lr``."""
    for name, field in kind.model_fields.items():
        full = f"{where}.{name}" if where else name
        yield full
        for inner in settings_in(field.annotation):
            yield from names_within(inner, full)


def _plain_kinds(annotation: Any) -> set[Any]:
    """What a field can hold, through unions and lists: `int | None` is int and None."""
    inside = typing.get_args(annotation)
    return {annotation} if not inside else {kind for part in inside for kind in _plain_kinds(part)}


def comments_behind(kind: type) -> dict[str, str]:
    """The comment of each field that this class itself defines, where there is one: behind it, or above."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # a class typed into a shell has no file
        return {}
    every = tokenize.generate_tokens(io.StringIO(source).readline)
    tokens = [token for token in every if token.type == tokenize.COMMENT]
    notes = {t.start[0]: t.string.lstrip("# ") for t in tokens if not t.string.startswith(("# noqa", "# type:"))}
    alone = {t.start[0] for t in tokens if t.line.lstrip().startswith("#")}
    found = {}
    for part in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            lines = range(part.lineno, (part.end_lineno or part.lineno) + 1)
            if words := " ".join(notes[line] for line in lines if line in notes) or _above(part.lineno, notes, alone):
                found[part.target.id] = words
    return found


def _above(line: int, notes: Mapping[int, str], alone: Collection[int]) -> str:
    """The lines of comment right above a line, as one."""
    first = line
    while first - 1 in alone:
        first -= 1
    return " ".join(notes[one] for one in range(first, line) if one in notes)
