"""What a call from Python asks for: names, settings or objects, made into a config and a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from understudy.config.read import Words, read
from understudy.config.resolve import resolve
from understudy.config.schema import Config, Live
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.runs.folder import RunFolder
from understudy.runs.watching import Observer


@dataclass(frozen=True)
class Asked:
    """A config as it was asked for, before its settings are checked: a sweep changes it in many ways."""

    words: Words
    changes: Words
    live: Live

    def config(self, more: Mapping[str, Any] | None = None) -> Config:
        return resolve(self.words, {**self.changes, **(more or {})}, self.live)


def asked(
    config: object,
    *,
    data: object = None,
    model: object = None,
    method: object = None,
    add: Any = None,
    changes: Any = None,
    resumed: Path | None = None,
    **more: Any,
) -> Asked:
    """The arguments of `understudy.run`. Without a config, a resumed run uses that of its folder."""
    check_kinds(config=config, changes=changes, add=add)
    live = live_objects(data, model, method)
    named = _in_words(live, data=data, model=model, method=method) | ({} if add is None else {"with": _listed(add)})
    words = _words(config, resumed)
    if live.method is not None:
        words["method"] = _only_the_plan(words.get("method"))
    return Asked(words, {**(changes or {}), **more, **named}, live)


KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "config": ((str, Path, Mapping), "a name, a file or a mapping"),
    "changes": ((Mapping,), "a mapping from dotted names to values"),
    "add": ((str, Mapping, list, tuple), "a list of add-ons"),
    "out": ((str, Path), "a folder"),
    "observer": ((Observer,), "an Observer"),
}
LIVE_KINDS = {
    "data": "a Federation (arrays go into Federation.from_arrays)",
    "model": "a torch.nn.Module",
    "method": "a Method or its class",
}


def check_kinds(**given: object) -> None:
    for name, value in given.items():
        kinds, what = KINDS[name]
        if value is not None and not isinstance(value, kinds):
            raise UserError(f"{name}: pass {what}, not {type(value).__name__}.")


def live_objects(data: object = None, model: object = None, method: object = None) -> Live:
    """Objects passed instead of names."""
    return Live(
        data if isinstance(data, Federation) else None,
        model if isinstance(model, nn.Module) else None,
        method if isinstance(method, Method) or (isinstance(method, type) and issubclass(method, Method)) else None,
    )


def _in_words(live: Live, **given: object) -> dict[str, Any]:
    """What was passed as a name or as settings."""
    return {key: _named(key, value) for key, value in given.items() if value is not None and getattr(live, key) is None}


def _listed(add: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]) -> list[str | dict[str, Any]]:
    items = [add] if isinstance(add, str | Mapping) else add
    return [dict(item) if isinstance(item, Mapping) else item for item in items]


def _named(key: str, value: object) -> object:
    """A name or settings; anything else was meant as an object, but has the wrong type."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, type) and issubclass(value, nn.Module):
        raise UserError(f"{key}: {value.__name__} is a class; pass a network, such as {value.__name__}().")
    raise UserError(f"{key}: pass a name, settings or {LIVE_KINDS[key]}, not {type(value).__name__}.")


def _words(config: object, resumed: Path | None) -> Words:
    if config is None:
        return {} if resumed is None else begun_with(resumed)
    return dict(config) if isinstance(config, Mapping) else read(str(config))


def begun_with(out: Path) -> Words:
    """The config that a folder's run began with."""
    folder = RunFolder(out)
    if not folder.holds_a_run:
        raise UserError(f"{out} holds no run to resume.")
    return folder.config()


def next_folder(config: object, resolved: Config) -> Path:
    """runs/digits-skewed-fedavg-1, or the next free number."""
    source = Path(str(config)).stem if isinstance(config, str | Path) else "run"
    method = "own-method" if resolved.live.method is not None else resolved.plan.name.rpartition(":")[2]
    parts = [source, method, *(chosen.name for chosen in resolved.add_ons)]
    name = "-".join(part.rpartition("/")[2] for part in parts)
    number = 1
    while Path("runs", f"{name}-{number}").exists():
        number += 1
    return Path("runs", f"{name}-{number}")


def _only_the_plan(words: object) -> Words:
    """A live method brings its own settings; of a preset's method only rounds and cohort remain."""
    given = words if isinstance(words, dict) else {}
    return {key: given[key] for key in ("rounds", "cohort", "min_replies") if key in given}
