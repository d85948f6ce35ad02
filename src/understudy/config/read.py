"""Where the words of a config come from: a preset, a YAML file, KEY=VALUE, Python keywords."""

import difflib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from understudy.errors import UserError

Words = dict[str, Any]
NAMED = ("data", "model", "method", "engine")  # sections in which a bare name will do


def presets() -> dict[str, str]:
    """Name and first comment line of every preset in the package."""
    folder = resources.files("understudy.config") / "presets"
    found = {path.name.removesuffix(".yaml"): path for path in folder.iterdir() if path.name.endswith(".yaml")}
    return {name: found[name].read_text().splitlines()[0].lstrip("# ") for name in sorted(found)}


def read(source: str | Path) -> Words:
    """A YAML file, or a preset by its name."""
    path = Path(source)
    if path.is_file():
        return _parse(path.read_text(), str(path))
    if str(source) in presets():
        file = resources.files("understudy.config") / "presets" / f"{source}.yaml"
        return _parse(file.read_text(), str(source))
    if path.suffix in (".yaml", ".yml"):
        raise UserError(f"There is no config file {path}.")
    near = difflib.get_close_matches(str(source), presets(), 1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise UserError(f"'{source}' is neither a file nor a preset; {hint}Presets: {', '.join(presets())}.")


def _parse(text: str, where: str) -> Words:
    try:
        words = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(words, dict):
        raise UserError(f"{where} must hold keys and values, such as `method: {{name: fedavg}}`.")
    return words


def pairs(overrides: Sequence[str]) -> Words:
    """``["method.local.lr=0.1"]`` as a mapping from dotted keys to values."""
    found: Words = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"'{text}' is not KEY=VALUE, such as method.rounds=5.")
        try:
            found[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UserError(f"The value of '{key}' cannot be read: {value}.") from None
    return found


def override(words: Words, changes: Mapping[str, Any], known: Mapping[str, Sequence[str]]) -> Words:
    """``changes`` laid over ``words``. Dotted keys reach inside; a key without a dot that is no section is
    looked for in the sections (``rounds`` is ``method.rounds``); ``known`` lists their keys."""
    result = {key: dict(value) if isinstance(value, dict) else value for key, value in words.items()}
    for key, value in changes.items():
        path = _path(key, known)
        here = result
        for step in path[:-1]:
            below = here.get(step)
            below = {"name": below} if isinstance(below, str) else dict(below or {})
            here[step] = below
            here = below
        last = path[-1]
        if len(path) == 1 and last in NAMED and isinstance(value, str):
            value = {"name": value}
        if isinstance(value, dict) and isinstance(here.get(last), dict):
            value = _laid_over(here[last], value)
        here[last] = value
    return result


def _path(key: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    path = key.split(".")
    if len(path) > 1 or key in known:
        return path
    homes = [section for section, names in known.items() if key in names]
    if len(homes) > 1:
        both = " or ".join(f"{home}.{key}" for home in homes)
        raise UserError(f"'{key}' could be {both}; write the full name.")
    return [homes[0], key] if homes else path


def _laid_over(below: Words, above: Words) -> Words:
    """Another name keeps what fits it: rounds and the like stay, and ``drop_unknown`` sorts out the rest."""
    merged = {**below, **above}
    if above.get("name", below.get("name")) != below.get("name"):
        merged["drop_unknown"] = [key for key in below if key not in above]
    return merged
