"""A person's approval before anything leaves a site, in a terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.app import Json, app, print_json
from understudy.errors import UserError

if TYPE_CHECKING:
    from understudy.federation.approval import ApprovalQueue
    from understudy.federation.held import Held

    Replies = Sequence[tuple[ApprovalQueue, Held]]


@app.command()
def approve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A site's folder, or a run's for all its clients.")],
    yes: Annotated[bool | None, typer.Option("--yes/--no", help="Let the waiting replies leave, or not.")] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this reply; may be repeated.")] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="Leave this image out (3.1), or a class (3), and approve the rest; repeatable."
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take a decision back, as long as the reply has not left.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the decision.")] = "",
    by: Annotated[str, typer.Option(metavar="NAME", help="Who decides; by default the user's name.")] = "",
    sheet: Annotated[Path | None, typer.Option(help="Draw the waiting images into this file.")] = None,
    per_class: Annotated[int, typer.Option(min=1, help="Images per class in a cell of the sheet.")] = 16,
    as_json: Json = False,
) -> None:
    """Review what would leave a site, in a terminal, and approve or decline it. Without a decision it only lists.

    To decide only on what you have seen, and on nothing that arrived since, name it with --only. `understudy review`
    shows the same in a browser, each image beside the nearest own record.
    """
    from understudy.view.waiting import draw_waiting, print_waiting

    if (undo and (yes is not None or drop)) or (drop and yes is False):
        raise UserError("Decide one thing at a time: --yes, --no, --drop ID (which approves the rest) or --undo.")
    found = _chosen(folder, only or [])
    if sheet is not None:
        draw_waiting([one for _, one in found], sheet, per_class)
    if undo:
        found = [(queue, queue.undo(one, by=by)) for queue, one in found if one.decision is not None]
    elif yes is not None or drop:
        found = _decided(_open(found, everything=bool(only)), "no" if yes is False else "yes", drop or [], reason, by)
    if as_json:
        print_json({"folder": str(folder), "replies": [_plain(one) for _, one in found]})
        return
    print_waiting([one for _, one in found]) if found else print(f"Nothing waits for approval in {folder}.")
    if sheet is not None:
        print(f"Picture: {sheet}")


def _chosen(folder: Path, only: list[str]) -> "Replies":
    from understudy.federation.approval import queues_in

    found = [(queue, one) for queue in queues_in(folder) for one in queue.held()]
    unknown = set(only) - {one.id for _, one in found}
    if unknown:
        raise UserError(f"Nothing in {folder} has the id {min(unknown)}; `understudy approve {folder}` lists them.")
    return [(queue, one) for queue, one in found if not only or one.id in only]


def _open(found: "Replies", *, everything: bool) -> "Replies":
    """An earlier decision changes only for replies that are named."""
    return [(queue, one) for queue, one in found if everything or one.decision is None]


def _decided(found: "Replies", word: Any, drop: list[str], reason: str, by: str) -> "Replies":
    from understudy.federation.rows import rows_named

    if drop and len(found) != 1:
        raise UserError(
            f"--drop names images of one reply, but {len(found)} wait for a decision; say which with --only ID."
        )
    dropped = [rows_named(drop, one.ids()) if drop else [] for _, one in found]
    return [
        (queue, queue.decide(one, word, rows, reason=reason, by=by))
        for (queue, one), rows in zip(found, dropped, strict=True)
    ]


def _plain(one: "Held") -> dict[str, Any]:
    about = {key: value for key, value in one.about.items() if key != "problem"}
    ids, decision = one.ids(), one.decision
    decided = {
        "decision": None if decision is None else decision.said,
        "dropped": [] if decision is None else [ids[row] for row in decision.dropped],
        **({} if decision is None else {"reason": decision.reason, "by": decision.by, "when": decision.when}),
    }
    return {"id": one.id, **about, "sha256": one.sha256, **decided, "ids": ids, "examples_a_class": one.a_class()}
