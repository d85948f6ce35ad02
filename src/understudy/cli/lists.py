"""Lists of what can be named in a config."""

from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Any

import typer

from understudy.cli.app import Json, app, print_json
from understudy.cli.kept_listings import kept

ListedEntry = dict[str, Any]  # one entry of a listing, in plain values


def _describe() -> ModuleType:
    """Imports torch and every method."""
    from understudy.config import describe

    return describe


def _named(what: str, name: str | None, every: Callable[[], list[ListedEntry]]) -> list[ListedEntry] | None:
    """All of them, or those of this name; None: none has it, so that it is your own code's, or a slip."""
    found: list[ListedEntry] = kept(what, every)
    return found if name is None else [one for one in found if one["name"] == name] or None


def _about_methods(name: str | None) -> list[ListedEntry]:
    found = _named("methods", name, lambda: _describe().describe_methods())
    if found is None:
        own: list[ListedEntry] = _describe().describe_methods(name)
        return own
    return found if name is None else sorted(found, key=lambda one: one["role"] != "method")


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="A method or an add-on; without a name they are listed.")] = None,
    as_json: Json = False,
) -> None:
    """List methods and add-ons and what each sends; with NAME show its paper, its settings and what they mean."""
    from understudy.view.listings import print_methods

    found = _about_methods(name)
    print_json(found) if as_json else print_methods(found, whole=name is not None)


@app.command()
def models(as_json: Json = False) -> None:
    """List networks by name, with their parameter counts and settings."""
    from understudy.view.listings import print_models

    found = kept("models", lambda: _describe().describe_models())
    print_json(found) if as_json else print_models(found)


@app.command()
def generators(
    name: Annotated[str | None, typer.Argument(help="A generator; without a name they are listed.")] = None,
    as_json: Json = False,
) -> None:
    """List what can make images from a client's records, for fedssyn and central; with NAME show its settings."""
    from understudy.view.listings import print_generators

    found = _named("generators", name, lambda: _describe().describe_generators())
    found = _describe().describe_generators(name) if found is None else found
    print_json(found) if as_json else print_generators(found, whole=name is not None)


@app.command()
def presets(as_json: Json = False) -> None:
    """List the configs that come with the package."""
    from understudy.config.read import presets as found

    print_json(found()) if as_json else print("\n".join(f"{name:24} {about}" for name, about in found().items()))
