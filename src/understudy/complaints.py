"""One sentence about a wrong name or key, with the right one suggested."""

import difflib
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from understudy.base_settings import Settings, names_within, settings_in
from understudy.errors import UserError

# What other libraries call the same thing; by last names.
OTHER_WORDS = {
    "learning_rate": "lr",
    "step_size": "lr",
    "eta": "lr",
    "optimizer_lr": "lr",
    "dataset": "data",
    "network": "model",
    "algorithm": "method",
    "strategy": "method",
    "fraction": "cohort",
    "cuda": "device",
    "gpu": "device",
}


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
    """``known``: full names of the settings in ``where`` and inside them. Suggests the one with the same last name, or
    else the nearest by its letters."""
    names, full = list(dict.fromkeys(known)), f"{where}.{key}" if where else key
    within = [name for name in names if name.count(".") == full.count(".")]
    if near := _meant(full, names, within):
        shown = near if " " not in where else [name.removeprefix(f"{where}.") for name in near]  # a file, no section
        return UserError(f"There is no setting '{full}'. Did you mean {either(shown)}?")
    listed = ", ".join(sorted(name.rpartition(".")[2] for name in within))
    return UserError(f"There is no setting '{full}'. Known settings: {listed}.")


def either(names: Iterable[str]) -> str:
    """'a', 'b' or 'c'"""
    *before, last = (f"'{name}'" for name in names)
    return f"{', '.join(before)} or {last}" if before else last


def _meant(full: str, names: list[str], within: list[str]) -> list[str]:
    last = full.rpartition(".")[2]
    if same := _ending_in(last, names) or _ending_in(OTHER_WORDS.get(last.lower().replace("-", "_"), ""), names):
        return same
    for candidates, cutoff in ((within, 0.75), (names, 0.65), (within, 0.5), (names, 0.6)):
        by_last = {name.rpartition(".")[2]: name for name in reversed(candidates)}
        if near := difflib.get_close_matches(last, by_last, 1, cutoff=cutoff):
            return [by_last[near[0]]] if candidates is within else _ending_in(near[0], names)
    return []


def _ending_in(last: str, names: list[str]) -> list[str]:
    """The outermost of the names whose last part this is."""
    same = [name for name in names if name.rpartition(".")[2] == last]
    outermost = min((name.count(".") for name in same), default=0)
    return [name for name in same if name.count(".") == outermost]


def _sentence(error: Any, settings: type[Settings], where: str) -> str:
    path = [str(part) for part in error["loc"]]
    kinds = owners = {settings}
    shown = [where] if where else []
    for part in path[:-1] if error["type"] == "extra_forbidden" else path:
        below = {k for kind in kinds for k in settings_in(_field(kind, part))}
        if any(part in kind.model_fields for kind in kinds):
            shown.append(part)
            owners, kinds = kinds, below
        elif part.isdigit():
            shown[-1] += f"[{part}]"
    if error["type"] == "extra_forbidden":
        inside = ".".join(shown)
        return str(unknown_key(path[-1], (name for kind in kinds for name in names_within(kind, inside)), inside))
    said = error["msg"].removeprefix("Value error, ")
    said = said[0].lower() + said[1:]
    if error["type"] == "missing":
        return f"'{'.'.join(shown)}' must be given{_choices(owners, path[-1])}."
    value = error.get("input")
    if error["type"] in ("tuple_type", "list_type") and isinstance(value, str | int | float):
        return f"'{'.'.join(shown)}': write a list, such as {'.'.join(shown)}=[{value}] (it is {value!r})."
    got = f" (it is {value!r})" if isinstance(value, str | int | float | bool) else ""
    return f"'{'.'.join(shown)}': {said}{got}." if shown else f"{said}{got}."


def _choices(owners: Iterable[type[Settings]], name: str) -> str:
    """Of a setting of one of these, wherever in a config it stands."""
    args = next((args for kind in owners if (args := typing.get_args(_field(kind, name)))), ())
    return f": one of {', '.join(map(str, args))}" if args and all(isinstance(a, str) for a in args) else ""


def _field(kind: type[Settings], name: str) -> Any:
    field = kind.model_fields.get(name)
    return None if field is None else field.annotation
