"""Lists of what can be named in a config."""

from typing import Annotated

import typer

from understudy.cli.app import Json, app, print_json


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="A method or an add-on; without a name they are listed.")] = None,
    as_json: Json = False,
) -> None:
    """List methods and add-ons and what each sends; with NAME show its paper, its settings and what they mean."""
    from understudy.config.describe import describe_methods
    from understudy.view.listings import print_methods

    found = describe_methods(name)
    print_json(found) if as_json else print_methods(found, whole=name is not None)


@app.command()
def models(as_json: Json = False) -> None:
    """List networks by name, with their parameter counts and settings."""
    from understudy.config.describe import describe_models
    from understudy.view.listings import print_models

    found = describe_models()
    print_json(found) if as_json else print_models(found)


@app.command()
def generators(
    name: Annotated[str | None, typer.Argument(help="A generator; without a name they are listed.")] = None,
    as_json: Json = False,
) -> None:
    """List what can make images or other records from a client's, for fedssyn and central; with NAME its settings."""
    from understudy.config.describe import describe_generators
    from understudy.view.listings import print_generators

    found = describe_generators(name)
    print_json(found) if as_json else print_generators(found, whole=name is not None)


@app.command()
def presets(as_json: Json = False) -> None:
    """List the configs that come with the package."""
    from understudy.config.read import presets as found

    print_json(found()) if as_json else print("\n".join(f"{name:24} {about}" for name, about in found().items()))
