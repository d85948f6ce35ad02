"""Where a config comes from: a preset, a YAML file, KEY=VALUE, Python keywords."""

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from understudy.complaints import either, unknown_name
from understudy.errors import UserError
from understudy.reading import text_of, yaml_of
from understudy.site_names import check_site_name

Words = dict[str, Any]
DEEPEST = 30  # nested settings
OF_DATA = (".npz", ".csv", ".tsv", ".parquet")  # such files hold records, and are no configs
NAMED = ("data", "model", "method", "engine")  # sections where a bare name is enough


def presets() -> dict[str, str]:
    """Name and first comment line of every preset in the package."""
    folder = resources.files("understudy.config") / "presets"
    found = {path.name.removesuffix(".yaml"): path for path in folder.iterdir() if path.name.endswith(".yaml")}
    return {name: found[name].read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for name in sorted(found)}


def read(source: str | Path) -> Words:
    """A YAML file, or a preset by its name."""
    path = Path(source)
    if path.is_file():
        if path.suffix.lower() in OF_DATA:
            raise _about_data(path)
        return _mapping(text_of(path), str(path))
    if str(source) in presets():
        file = resources.files("understudy.config") / "presets" / f"{source}.yaml"
        return _mapping(file.read_text(encoding="utf-8"), str(source))
    if path.suffix in (".yaml", ".yml"):
        raise UserError(f"There is no config file {path}.")
    if path.is_dir():
        raise _about_data(path)
    raise unknown_name("config file or preset", str(source), presets())


def _about_data(path: Path) -> UserError:
    """Records are what everybody has at hand at first."""
    inside = path / "config.yaml"
    if inside.is_file():
        return UserError(
            f"{path} is the folder of a run; run its config anew with {inside}, or go on with --resume --out {path}."
        )
    return UserError(
        f"{path} is not a config; if it holds records, see what is in them with `understudy data check {path}`, and "
        f"write a config with data: {{name: {path}, clients: 4}}, or with one source per site in data.sites."
    )


def _mapping(text: str, where: str) -> Words:
    words = yaml_of(text, where)
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
        found[key.strip()] = yaml_of(value, f"The value of '{key}'")
    return found


def choices(overrides: Sequence[str]) -> dict[str, list[Any]]:
    """``["lr=0.01,0.1"]`` as a mapping from keys to lists of values. A comma inside brackets or quotes separates
    nothing: ``hidden=[64],[64, 32]`` are two values."""
    found: dict[str, list[Any]] = {}
    for text in overrides:
        key, equals, values = text.partition("=")
        parts = _at_commas(values)
        if len(parts) > 1 and not all(part.strip() for part in parts):
            raise UserError(f"'{text}' has an empty value between its commas; write null if none is meant.")
        found[key.strip()] = [value for part in parts for value in pairs([f"{key}{equals}{part}"]).values()]
    return found


def _at_commas(text: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        if letter == "," and not quote and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def check_keys(words: object) -> None:
    """YAML and Python allow anything as a key, and a value may contain itself; settings have names, and an end."""
    _check_keys(words, [], set())


def _check_keys(words: object, path: list[str], seen: set[int]) -> None:
    where = ".".join(path) or "The config"
    if len(path) > DEEPEST:
        raise UserError(f"{'.'.join(path[:3])} is nested too deeply.")
    if id(words) in seen:  # a YAML alias used many times is checked once
        return
    if isinstance(words, Mapping):
        for key, value in words.items():
            if not isinstance(key, str):
                raise UserError(f"{where} has the key {key!r}, which is not the name of a setting.")
            _check_keys(value, [*path, key], seen)
    elif isinstance(words, list | tuple):
        for at, value in enumerate(words):
            _check_keys(value, [*path, str(at)], seen)
    seen.add(id(words))


@dataclass(frozen=True)
class Keys:
    """What may be written where: the keys of each section, those a method or network adds, and all full names."""

    of_sections: Mapping[str, Sequence[str]]
    of_name: Callable[[str, str], Sequence[str]]  # (section, name)
    full_names: Callable[[Words], Collection[str]] = lambda words: ()  # of a config with these sections

    def path(self, key: str) -> list[str] | None:
        """``rounds`` is ``method.rounds``: a key that does not begin with a section is looked up in all of them. None:
        no section has it, but something inside one may."""
        path = key.split(".")
        if path[0] in self.of_sections:
            return path
        homes = [section for section, names in self.of_sections.items() if path[0] in names]
        if len(homes) > 1:
            raise _several(key, [f"{home}.{key}" for home in homes])
        return [homes[0], *path] if homes else None


def override(words: Words, changes: Mapping[str, Any], keys: Keys) -> Words:
    """``changes`` laid over ``words``; dotted keys reach inside, and the order of the changes does not matter.

    If a change names another method or network, the old one's settings stay as far as the new one has
    them too.
    """
    paths = paths_of(words, changes, keys)
    return _overridden(words, [(paths[key], value) for key, value in changes.items()], keys)


def paths_of(words: Words, changes: Mapping[str, Any], keys: Keys) -> dict[str, list[str]]:
    """Where each change belongs. ``lr`` is ``method.local.lr`` if no other setting of the changed config ends so."""
    known = {key: path for key in changes if (path := keys.path(key)) is not None}
    short = [key for key in changes if key not in known]
    if short:
        full = keys.full_names(_overridden(words, [(path, changes[key]) for key, path in known.items()], keys))
        known |= {key: _by_its_end(key, full) for key in short}
    given: dict[str, str] = {}
    for key, path in known.items():
        if (other := given.setdefault(".".join(path), key)) != key:
            raise UserError(f"'{other}' and '{key}' are the same setting; give it once.")
    return {key: known[key] for key in changes}


def _by_its_end(key: str, full: Collection[str]) -> list[str]:
    ends = sorted((name for name in full if name.endswith(f".{key}")), key=lambda name: name.count("."))
    if len(ends) > 1:
        raise _several(key, ends)
    return (ends[0] if ends else key).split(".")


def _several(key: str, full: Sequence[str]) -> UserError:
    return UserError(f"'{key}' could be {either(full)}; write the full name.")


def _overridden(words: Words, changes: Sequence[tuple[list[str], Any]], keys: Keys) -> Words:
    result = copy.deepcopy(words)
    laid = _outer_first(changes)
    for path, value in laid:
        _lay(result, path, value)
    changed = {tuple(inner) for path, value in laid for inner in _inside(path, value)}
    for section in NAMED:
        before, after = _name(words.get(section)), _name(result.get(section))
        if before and after and before != after and isinstance(result[section], dict):
            known = {"name", *keys.of_sections[section], *keys.of_name(section, after)}
            result[section] = {k: v for k, v in result[section].items() if k in known or (section, k) in changed}
    return result


def _outer_first(changes: Sequence[tuple[list[str], Any]]) -> list[tuple[list[str], Any]]:
    """A bare name for a section is its ``name``."""
    return [
        ([*path, "name"], value) if len(path) == 1 and path[0] in NAMED and isinstance(value, str) else (path, value)
        for path, value in sorted(changes, key=lambda one: len(one[0]))
    ]


def _inside(path: list[str], value: object) -> list[list[str]]:
    """The settings of a section, as (section, setting), that a change mentions."""
    if len(path) > 1:
        return [path[:2]]
    return [[path[0], key] for key in value] if isinstance(value, dict) else []


def check_listed_site(name: str, words: Words, changes: Mapping[str, Any]) -> None:
    """Before anything heavy is imported: the name is valid for a site, and one of those listed.

    If a split makes the clients, they are numbered; only the records tell how many natural users there are.
    """
    check_site_name(name)
    keys = Keys({section: ["sites"] if section == "data" else [] for section in NAMED}, lambda _, __: [])
    data = override(words, changes, keys).get("data")
    given = data if isinstance(data, dict) else {}
    sites, clients = given.get("sites"), given.get("clients")
    if isinstance(sites, dict):
        known, here = ", ".join(map(str, sites)), name in sites
    else:
        most = clients if isinstance(clients, int) else math.inf
        known, (kind, _, number) = "what its split makes: client-0, client-1, and so on", name.partition("-")
        here = number.isdigit() and (kind == "user" or (kind == "client" and int(number) < most))
    if not here:
        raise UserError(f"The config knows no site '{name}'; it has {known}.")


def _lay(words: Words, path: list[str], value: Any) -> None:
    if path[0] == "with" and len(path) > 2:
        _lay_into_add_on(words, path, value)
        return
    for step in path[:-1]:
        below = words.get(step)
        if not isinstance(below, str | dict | None):
            raise UserError(f"'{'.'.join(path)}' cannot be set: '{step}' is {below!r}, not keys and values.")
        words[step] = {"name": below} if isinstance(below, str) else dict(below or {})
        words = words[step]
    words[path[-1]] = _laid(words.get(path[-1]), value, path[-1])


def _laid(here: object, value: Any, key: str) -> Any:
    """Another kind of split or generator brings its own settings; the old one's mean nothing to it."""
    if not isinstance(here, dict) or not isinstance(value, dict):
        return value
    telling = ("kind",) if key in NAMED else ("kind", "name")
    same = all(value.get(word, here.get(word)) == here.get(word) for word in telling)
    return {**here, **value} if same else value


def _lay_into_add_on(words: Words, path: list[str], value: Any) -> None:
    """``with.fedssyn.images``: into the add-on of that name, which is added if it was not there."""
    listed = words.get("with") or []
    items = [
        {"name": item} if isinstance(item, str) else item for item in (listed if isinstance(listed, list) else [listed])
    ]
    here = next((item for item in items if item.get("name") == path[1]), None)
    if here is None:
        here = {"name": path[1]}
        items.append(here)
    _lay(here, path[2:], value)
    words["with"] = items


def _name(section: object) -> str | None:
    name = section.get("name") if isinstance(section, dict) else section
    return name if isinstance(name, str) else None
