"""Measures the quantities in the theory of data shuffling."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.app import Json, Overrides, app, print_json


@app.command()
def measure(
    source: Annotated[str, typer.Argument(metavar="RUN_DIR|CONFIG", help="A run folder, a YAML file or a preset.")],
    changes: Overrides = None,
    at: Annotated[str, typer.Option(help="At which model: final (the run's) or initial.")] = "final",
    target: Annotated[float | None, typer.Option(help="Count the rounds to this accuracy, such as 0.8.")] = None,
    against: Annotated[Path | None, typer.Option(metavar="DIR", help="A run to compare rounds with.")] = None,
    as_json: Json = False,
) -> None:
    """Measure ζ², σ², δ² and L at one model, before and after shuffling, beside the bounds of Fedssyn's Lemma 1."""
    from understudy.runs.measure import measure as measured
    from understudy.view.measured import print_measured

    found = measured(source, changes, at=at, target=target, against=against)
    print_json(found.as_dict()) if as_json else print_measured(found)
