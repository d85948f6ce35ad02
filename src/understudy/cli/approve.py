"""A person's approval before anything leaves a site."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.app import Json, app, print_json
from understudy.errors import UserError

if TYPE_CHECKING:
    from understudy.federation.approval import ApprovalQueue, Held


@app.command()
def approve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A site's folder, or a run's for all its clients.")],
    yes: Annotated[bool | None, typer.Option("--yes/--no", help="Let the waiting replies leave, or not.")] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this reply; may be repeated.")] = None,
    sheet: Annotated[Path | None, typer.Option(help="Draw the waiting images into this file.")] = None,
    per_class: Annotated[int, typer.Option(min=1, help="Images per class in a cell of the sheet.")] = 16,
    as_json: Json = False,
) -> None:
    """Review what would leave a site, and approve or decline it. Without --yes or --no it only lists.

    To decide only on what you have seen, and on nothing that arrived since, name it with --only.
    """
    from understudy.view.waiting import draw_waiting, print_waiting

    found = _chosen(folder, only or [])
    if sheet is not None:
        draw_waiting([one for _, one in found], sheet, per_class)
    if yes is not None:
        found = _decided(found, yes, everything=bool(only))
    if as_json:
        print_json({"folder": str(folder), "replies": [_plain(one) for _, one in found]})
        return
    print_waiting([one for _, one in found]) if found else print(f"Nothing waits for approval in {folder}.")
    if sheet is not None:
        print(f"Picture: {sheet}")


def _chosen(folder: Path, only: list[str]) -> "list[tuple[ApprovalQueue, Held]]":
    from understudy.federation.approval import ApprovalQueue

    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; name a site's or a run's folder.")
    homes = sorted((folder / "clients").iterdir()) if (folder / "clients").is_dir() else [folder]
    found = [(queue, one) for queue in map(ApprovalQueue, homes) for one in queue.held()]
    unknown = set(only) - {one.id for _, one in found}
    if unknown:
        raise UserError(f"Nothing in {folder} has the id {min(unknown)}; `understudy approve {folder}` lists them.")
    return [(queue, one) for queue, one in found if not only or one.id in only]


def _decided(
    found: "list[tuple[ApprovalQueue, Held]]", yes: bool, *, everything: bool
) -> "list[tuple[ApprovalQueue, Held]]":
    """An earlier decision changes only for replies that are named."""
    changed = [(queue, one) for queue, one in found if everything or one.decision is None]
    for queue, one in changed:
        queue.decide(one, "yes" if yes else "no")
    return [(queue, replace(one, decision="yes" if yes else "no")) for queue, one in changed]


def _plain(one: "Held") -> dict[str, Any]:
    about = {key: value for key, value in one.about.items() if key != "problem"}
    return {"id": one.id, **about, "sha256": one.sha256, "decision": one.decision, "examples_a_class": one.a_class()}
