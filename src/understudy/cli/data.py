"""Data sets and splits."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from understudy import patience
from understudy.cli.app import Json, Overrides, app, print_json

data_app = typer.Typer(help="Data sets, and how a split deals them out.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List data sets by name, and which of them are on this machine."""
    from understudy.data.sets import names
    from understudy.view.listings import print_data_sets

    rows = list(map(asdict, names()))
    print_json(rows) if as_json else print_data_sets(rows)


@data_app.command("get")
def data_get(
    name: str, folder: Annotated[Path | None, typer.Option("--data-dir", help="Where the files go.")] = None
) -> None:
    """Download a data set from its publisher and verify its checksum."""
    from understudy.data.sets import get

    patience.doing(f"Fetching {name}")
    print(f"{name} is in {get(name, folder)}")


@data_app.command("describe")
def data_describe(
    name: str,
    changes: Overrides = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the split into this file.")] = None,
    seed: int = 0,
    as_json: Json = False,
) -> None:
    """Show how skewed a split is: `understudy data describe digits clients=10 split.alpha=0.1 --plot split.png`."""
    from understudy.config.build import build_data
    from understudy.config.read import pairs
    from understudy.config.resolve import resolve, within
    from understudy.data.inspection import kind_in_words
    from understudy.data.skew import measure_skew
    from understudy.view.listings import print_skew
    from understudy.view.split import draw_split

    words = {"seed": seed, "data": {"name": name}}
    config = resolve(words, within("data", words, pairs(changes or [])))
    federation = build_data(config)
    skew = measure_skew(federation)
    if plot is not None:
        draw_split(federation, plot)
    kind = kind_in_words(federation)
    print_json({**skew.as_dict(), "kind": kind}) if as_json else print_skew(skew, [f"Records: {kind}."])
    if plot is not None and not as_json:
        print(f"Picture: {plot}")


@data_app.command("check")
def data_check(
    source: Annotated[str, typer.Argument(help="A data set, a file or folder, or a config with a data section.")],
    changes: Overrides = None,
    as_json: Json = False,
) -> None:
    """Tell what a source holds and what looks wrong: copies, leaks into the test set, labels, scale."""
    from understudy.config.build import build_data
    from understudy.config.read import pairs, read
    from understudy.config.resolve import resolve, within
    from understudy.data.inspection import inspect
    from understudy.view.listings import print_inspection

    alone = {"data": {"name": source, "clients": 1, "split": "iid"}}
    words = {"data": read(source).get("data")} if Path(source).suffix in (".yaml", ".yml") else alone
    config = resolve(words, within("data", words, pairs(changes or [])))
    found = inspect(build_data(config), config.data, seed=config.top.seed)
    print_json(found.as_dict()) if as_json else print_inspection(found)
