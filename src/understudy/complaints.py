"""One sentence about a wrong name or key, with the right one suggested."""

import difflib
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from understudy.base_settings import Settings, settings_in
from understudy.errors import UserError


def checked(settings: type[Settings], given: Mapping[str, Any], where: str) -> Any:
    """``settings`` from plain values, or a UserError about the first mistake."""
    try:
        return settings(**given)
    except ValidationError as errors:
        raise UserError(_sentence(errors.errors()[0], settings, where)) from None


def unknown_name(what: str, name: str, known: Iterable[str], more: str = "") -> UserError:
    """There is no ``what`` of that name; suggests the nearest one and lists the rest."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return UserError(f"There is no {what} '{name}'.{hint} There are: {', '.join(names)}{more}.")


def unknown_key(key: str, known: Iterable[str], where: str) -> UserError:
    names = list(known)
    near = difflib.get_close_matches(key.rpartition(".")[2], names, 1, cutoff=0.5)
    hint = f"Did you mean '{near[0]}'?" if near else f"Known settings: {', '.join(sorted(names))}."
    full = f"{where}.{key}" if where else key
    return UserError(f"There is no setting '{full}'. {hint}")


def _sentence(error: Any, settings: type[Settings], where: str) -> str:
    path = [str(part) for part in error["loc"]]
    kinds = {settings}
    shown = [where] if where else []
    for part in path[:-1] if error["type"] == "extra_forbidden" else path:
        inside = {k for kind in kinds for k in settings_in(_field(kind, part))}
        if any(part in kind.model_fields for kind in kinds):
            shown.append(part)
            kinds = inside
        elif part.isdigit():
            shown[-1] += f"[{part}]"
    if error["type"] == "extra_forbidden":
        names = [name for kind in kinds for name in kind.model_fields]
        return str(unknown_key(path[-1], names, ".".join(shown)))
    said = error["msg"].removeprefix("Value error, ")
    said = said[0].lower() + said[1:]
    if error["type"] == "missing":
        return f"'{'.'.join(shown)}' must be given{_choices(settings, path)}."
    value = error.get("input")
    got = f" (it is {value!r})" if isinstance(value, str | int | float | bool) else ""
    return f"'{'.'.join(shown)}': {said}{got}." if shown else f"{said}{got}."


def _choices(settings: type[Settings], path: list[str]) -> str:
    args = typing.get_args(_field(settings, path[-1]))
    return f": one of {', '.join(map(str, args))}" if args and all(isinstance(a, str) for a in args) else ""


def _field(kind: type[Settings], name: str) -> Any:
    field = kind.model_fields.get(name)
    return None if field is None else field.annotation
