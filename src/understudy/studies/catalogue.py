"""What there is, in plain values: methods with what they send and join, networks with their sizes, generators."""

import inspect
from dataclasses import asdict
from typing import Any

from understudy import methods as _registered  # noqa: F401  (registers every method by being imported)
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation import registry
from understudy.federation.method import Method
from understudy.federation.registry import Entry
from understudy.models import registry as models
from understudy.settings import Settings
from understudy.studies.reference import defaults, must_be_chosen, reference
from understudy.synthesis import generator as generators

SHAPES = {"8×8 grey": (1, 8, 8), "28×28 grey": (1, 28, 28), "32×32 colour": (3, 32, 32)}


def describe_methods(name: str | None = None) -> list[dict[str, Any]]:
    entries = registry.entries()
    if name is not None:
        entries = [e for e in entries if e.name == name] or [registry.entry(name, "method")]
    return [_describe(entry) for entry in entries]


def _describe(entry: Entry) -> dict[str, Any]:
    plain = _built(registry.entry("fedavg", "method"))
    if entry.role == "add-on":
        below = plain.jobs()
        sends = {
            n: dict(job.kinds)
            for n, job in entry.build(defaults(entry.settings), plain).jobs().items()
            if n not in below
        }
        joins = [e.name for e in registry.entries() if e.role == "method" and _joins(entry, e)]
    else:
        sends = {n: dict(job.kinds) for n, job in _built(entry).jobs().items() if job.kinds}
        joins = [e.name for e in registry.entries() if e.role == "add-on" and _joins(e, entry)]
    return {
        "name": entry.name,
        "role": entry.role,
        "title": entry.title,
        "about": inspect.getdoc(inspect.getmodule(entry.build)) or entry.title,
        "settings": _with_choices(entry.settings),
        "reference": [asdict(line) for line in reference(entry.settings)],
        "presets": {name: dict(values) for name, values in entry.presets.items()},
        "sends": sends,
        "joins": joins,
    }


def _joins(add_on: Entry, method: Entry) -> bool:
    try:
        add_on.build(defaults(add_on.settings), _built(method))
    except UserError:
        return False
    return True


def _built(entry: Entry) -> Method:
    return entry.build(defaults(entry.settings))


def _with_choices(kind: type[Settings]) -> dict[str, Any]:
    """The defaults, and where there is none what there is to choose from."""
    chosen = {key: must_be_chosen(field) for key, field in kind.model_fields.items() if field.is_required()}
    return {**defaults(kind).model_dump(mode="json"), **chosen}


def describe_models() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "about": models.entry(name).about,
            "fast": models.entry(name).fast,
            "settings": models.entry(name).settings().model_dump(mode="json"),
            "reference": [asdict(line) for line in reference(models.entry(name).settings)],
            "parameters": {label: _parameters(name, shape) for label, shape in SHAPES.items()},
        }
        for name in models.names()
    ]


def describe_generators(name: str | None = None) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "about": entry.about,
            "settings": entry.settings().model_dump(mode="json"),
            "reference": [asdict(line) for line in reference(entry.settings)],
        }
        for entry in map(generators.entry, generators.names() if name is None else [name])
    ]


def _parameters(name: str, shape: tuple[int, ...]) -> int | None:
    """With ten classes; None where the network does not take such images."""
    entry = models.entry(name)
    try:
        return sum(p.numel() for p in entry.build(Problem(shape, 10), entry.settings()).parameters())
    except UserError:
        return None
