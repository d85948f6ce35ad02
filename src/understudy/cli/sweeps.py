"""Many runs with one command."""

import os
from pathlib import Path
from typing import Annotated

import typer

from understudy import patience
from understudy.cli.app import ClusterAddress, GpuShare, Json, app, print_json
from understudy.errors import UserError


@app.command()
def sweep(
    config: Annotated[str, typer.Argument(help="A YAML file or a preset (see `understudy presets`).")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE,VALUE ...]", help="Values to try; a single one is the same for all."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where runs are kept, shared by all sweeps, and results go.")] = Path(
        "sweeps"
    ),
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core, at most 8.")] = None,
    address: ClusterAddress = None,
    gpus: GpuShare = 0.0,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the runs as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw them into this file.")] = None,
    as_json: Json = False,
) -> None:
    """Run every combination of some settings: `understudy sweep digits-skewed lr=0.01,0.1 seed=0,1,2`.

    Validation records choose, the test set is only reported. The same command goes on after a stop or a kill. A value
    that is a list has brackets: `hidden=[64],[64,32]`; one with a comma has quotes.
    """
    from understudy.config.read import choices
    from understudy.runs.asked import asked
    from understudy.runs.cluster_store import store_at
    from understudy.runs.sweep import sweep as swept
    from understudy.view.combinations import draw_sweep, keep_sweep, print_sweep
    from understudy.view.csv_files import write_csv
    from understudy.view.progress import RichProgress

    given = choices(values or [])
    seeds = given.pop("seed", [0])
    if not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds) or len(set(seeds)) < len(seeds):
        raise UserError("seed: write whole numbers from 0, each once, such as seed=0,1,2.")
    grid = {key: tried for key, tried in given.items() if len(tried) > 1}
    fixed = {key: tried[0] for key, tried in given.items() if len(tried) == 1}
    with RichProgress() as progress:
        patience.over()
        processes = workers or min(8, os.cpu_count() or 1)
        store, name = store_at(out, address, gpus), Path(config).stem
        found = swept(
            asked(config, changes=fixed), grid, seeds, store=store, observer=progress, workers=processes, name=name
        )
    files = keep_sweep(found, out / found.name)
    if csv is not None:
        files.append(write_csv(found.rows(), csv))
    if plot is not None:
        files.append(draw_sweep(found, plot))
    if as_json:
        print_json({"folder": str(out / found.name), **found.as_dict()})
        return
    print_sweep(found)
    print("\n".join(map(str, files)))
