"""Running a federation, and comparing runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.app import Json, Overrides, app, print_json
from understudy.errors import UserError


@app.command()
def run(
    config: Annotated[str | None, typer.Argument(help="A YAML file or a preset (see `understudy presets`).")] = None,
    changes: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default a new one in runs/.")] = None,
    engine: Annotated[str | None, typer.Option(help="inline, workers, ray or flower (on this machine).")] = None,
    address: Annotated[str | None, typer.Option(help="The Ray cluster's head, host:port, or auto.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    as_json: Json = False,
) -> None:
    """Run one federation from a config or a preset."""
    from understudy.config.read import pairs, read
    from understudy.config.resolve import resolve
    from understudy.runs.api import begun_with, next_folder
    from understudy.runs.play import play
    from understudy.view.progress import RichProgress
    from understudy.view.tables import print_summary

    words = [*([config] if config and "=" in config else []), *(changes or [])]
    source = None if config is None or "=" in config else config
    overrides = pairs(words) | ({"engine": {"name": engine}} if engine is not None else {})
    if address is not None:
        overrides |= {"engine.address": address}
    if resume and out is None:
        raise UserError("--resume needs --out, the folder of the run to resume.")
    if resume and out is not None and source is None:
        resolved = resolve(begun_with(out), overrides)
    elif source is None:
        raise UserError("Name a config file or a preset, such as `understudy run digits-skewed`.")
    else:
        resolved = resolve(read(source), overrides)
    folder = out or next_folder(source, resolved)
    try:
        with RichProgress() as progress:
            result = play(resolved, folder, resume=resume, observer=progress)
    except KeyboardInterrupt:
        begun = (folder / "config.yaml").exists()
        how = f"Resume with: understudy run --resume --out {folder}" if begun else "Nothing was written."
        print(f"\nStopped. {how}", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print_json({"folder": str(folder), **result.summary})
    else:
        print_summary(folder, result.summary)


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run folders.")],
    target: Annotated[float | None, typer.Option(help="Count the rounds to this accuracy, such as 0.8.")] = None,
    as_json: Json = False,
) -> None:
    """Compare runs in a table."""
    from understudy.runs.compare import compare as rows_of
    from understudy.view.tables import print_comparison

    rows = rows_of(folders, target=target)
    if as_json:
        print_json([row.as_dict() for row in rows])
    else:
        print_comparison(rows)
