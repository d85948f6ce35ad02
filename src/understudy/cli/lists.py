"""What there is by name."""

from typing import Annotated

import typer

from understudy.cli.words import Json, app, print_json


@app.command()
def methods(name: Annotated[str | None, typer.Argument()] = None, as_json: Json = False) -> None:
    """What methods and add-ons there are, their settings, and what each sends."""
    from understudy.studies.catalogue import describe_methods
    from understudy.view.tables import print_methods

    found = describe_methods(name)
    print_json(found) if as_json else print_methods(found, whole=name is not None)


@app.command()
def models(as_json: Json = False) -> None:
    """Networks by name, with their parameter counts."""
    from understudy.studies.catalogue import describe_models
    from understudy.view.tables import print_models

    found = describe_models()
    print_json(found) if as_json else print_models(found)


@app.command()
def presets(as_json: Json = False) -> None:
    """Configs that come with the package."""
    from understudy.config.read import presets as found

    print_json(found()) if as_json else print("\n".join(f"{name:24} {about}" for name, about in found().items()))
