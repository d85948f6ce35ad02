"""The demo, and pictures of what left."""

import time
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.app import app
from understudy.errors import UserError


@app.command()
def sheet(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The picture: .png, .svg or .pdf; of a table .csv.")],
    per_class: Annotated[
        int | None, typer.Option(min=1, help="Images per class in a cell, or rows of each client and class.")
    ] = None,
    generated: Annotated[
        bool, typer.Option("--generated", help="Draw what a fedcog client generates for its next round; never sent.")
    ] = False,
    client: Annotated[
        str | None, typer.Option(help="With --generated or --beside: whose images; by default the first, or all.")
    ] = None,
    beside: Annotated[
        int | None,
        typer.Option(
            min=1, help="Draw this many images, or write rows, each beside its nearest record; nearest first."
        ),
    ] = None,
) -> None:
    """Draw the synthetic images that left a run's clients, or what waits at a site; of a table write the rows."""
    from understudy.runs.regenerated import generated as made_again
    from understudy.view.generated import draw_generated
    from understudy.view.rows import is_of_rows, write_sheet
    from understudy.view.sheet import draw_sheet

    if client is not None and not generated and beside is None:
        raise UserError("--client chooses whose images --generated or --beside shows; a plain sheet shows all clients.")
    if beside is not None:
        drawn = _beside(folder, out, beside, client)
    elif generated:
        drawn = draw_generated(made_again(folder, client), out, per_class or 16)
    elif is_of_rows(folder):
        drawn = write_sheet(folder, out, per_class)
    else:
        drawn = draw_sheet(folder, out, per_class=per_class or 4)
    print(f"{'Table' if drawn.suffix.lower() == '.csv' else 'Picture'}: {drawn}")


def _beside(folder: Path, out: Path, most: int, client: str | None) -> Path:
    from understudy.audits.at_site import is_site, scene_at_site
    from understudy.audits.nearest_pairs import nearest_pairs
    from understudy.audits.scene import scene_of
    from understudy.complaints import unknown_name
    from understudy.view.pairs import draw_pairs
    from understudy.view.rows import write_pairs

    scene = scene_at_site(folder) if is_site(folder) else scene_of(folder)
    if client is not None and client not in scene.data.sites:
        raise unknown_name(f"client in {folder} of the name", client, scene.data.sites)
    if is_site(folder) and scene.data.problem.kind == "vector":
        raise UserError(
            f"{folder}: a site's folder does not keep the names of a table's columns; it shows images only."
        )
    pairs, problem = nearest_pairs(scene, most, client), scene.data.problem
    drawn = write_pairs(folder, pairs, out) if problem.kind == "vector" else draw_pairs(pairs, problem, out)
    if drawn is None:
        raise UserError(f"{folder} holds no shared images or rows to show beside records.")
    return drawn


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the runs, the table and the pictures go.")] = Path("demo"),
) -> None:
    """Five methods on real images that four clients will not share: one table, three pictures, one report."""
    from rich.console import Console

    from understudy.api.reporting import report
    from understudy.config.build import build_data
    from understudy.config.read import read
    from understudy.config.resolve import resolve
    from understudy.papers.demo import PRESET, audit_demo, clear, play_demo
    from understudy.view.progress import RichProgress
    from understudy.view.story import INTRO, print_story

    began = time.perf_counter()
    console = Console(highlight=False)
    clear(out)
    console.print(INTRO, soft_wrap=True)
    with RichProgress() as progress:
        folders = {act.name: result.folder for act, result in play_demo(out, progress)}
        audit_demo(folders.values(), progress)
    print_story(folders, build_data(resolve(read(PRESET))), out, console)
    written = report(list(folders.values()), out / "report.html")
    console.print(f"{written}  all of it in one page: open it in a browser", soft_wrap=True)
    console.print(f"The whole demo took {time.perf_counter() - began:.0f} s.")
