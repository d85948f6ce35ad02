"""Studies and pictures."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.app import Json, app, print_json
from understudy.errors import UserError


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="A study; without a name they are listed.")] = None,
    scale: Annotated[
        str, typer.Option(help="smoke, desk or paper; not every study has all three, the list says which.")
    ] = "desk",
    out: Annotated[Path | None, typer.Option(help="Where its runs, table and picture go.")] = None,
    as_json: Json = False,
) -> None:
    """Run a study that compares methods, each tuned alike; a stopped one goes on where it was."""
    from understudy.papers.reproduce import STUDIES
    from understudy.view.standings import show_study

    if name is None:
        listed = {one.name: {"about": one.about, "scales": list(one.scales)} for one in STUDIES.values()}
        lines = [f"{key:24} {one['about']} ({', '.join(one['scales'])})" for key, one in listed.items()]
        print_json(listed) if as_json else print("\n".join(lines))
        return
    table = show_study(name, scale, out or Path("studies", f"{name}-{scale}"), quiet=as_json)
    if as_json:
        print_json(table)


@app.command()
def sheet(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The picture: .png, .svg or .pdf.")],
    per_class: Annotated[int | None, typer.Option(min=1, help="Images of a class in a cell.")] = None,
    generated: Annotated[
        bool, typer.Option("--generated", help="Draw what a fedcog client makes for its next round; it never leaves.")
    ] = False,
    client: Annotated[
        str | None, typer.Option(help="With --generated: whose images; by default the first client's.")
    ] = None,
) -> None:
    """Draw the synthetic images that left the clients of a run."""
    from understudy.view.generated import generated_sheet
    from understudy.view.sheet import draw_sheet

    if client is not None and not generated:
        raise UserError("--client chooses whose images --generated makes; without it the sheet shows all clients.")
    if generated:
        drawn = generated_sheet(folder, out, client=client, per_class=per_class or 16)
    else:
        drawn = draw_sheet(folder, out, per_class=per_class or 4)
    print(f"Picture: {drawn}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the runs, the table and the pictures go.")] = Path("demo"),
) -> None:
    """Five methods on real images that four clients will not share: one table, three pictures."""
    from understudy.view.demo import show_demo

    show_demo(out)
