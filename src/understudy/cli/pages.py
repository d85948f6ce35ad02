"""Pages in a browser."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from understudy import patience
from understudy.cli.app import app


@app.command()
def view(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="A folder with runs, at any depth.")] = Path("."),
    port: Annotated[int, typer.Option(help="Where the page is served; 0 takes one that is free.")] = 8420,
    host: Annotated[str, typer.Option(help="The address to serve at; by default this machine only.")] = "127.0.0.1",
) -> None:
    """Watch runs in a browser: curves that grow, what is stopped and why, several beside each other. It only reads."""
    from understudy.errors import UserError
    from understudy.web import check_installed

    check_installed("`understudy view`")
    from understudy.web.live import LivePages
    from understudy.web.serving import Port

    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; name one that holds runs.")
    address = Port(port, host)
    pages = LivePages(folder)
    patience.over()
    address.serve(pages.app, say, closing=pages.close)


@app.command()
def review(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A site's folder, or a run's for all its clients.")],
    records: Annotated[
        bool | None,
        typer.Option(
            "--records/--no-records",
            help="Show the nearest own records. By default only where no mechanism covers what would leave.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The site's records, if they are no longer where they were.")
    ] = None,
    port: Annotated[int, typer.Option(help="Where the page is served; 0 takes one that is free.")] = 8421,
) -> None:
    """Look at what waits in a browser, drop single images, and approve the rest; runs until stopped.

    Each image stands beside the nearest own record, the nearest first. Under differential privacy the page shows
    neither records nor distances, unless --records is given. What is decided with records in view is outside every
    mechanism, and the ledger says so.
    """
    from understudy.web import check_installed

    check_installed("`understudy review`")
    from understudy.audits.own_records import OwnRecords
    from understudy.federation.approval import queues_in
    from understudy.web.review import Desk, review_app
    from understudy.web.serving import Port

    queues_in(folder)  # a folder that is not there is noticed first
    address = Port(port)  # of this machine only: records are shown
    desk = Desk(folder, OwnRecords(folder, data), records, _next_step(folder))
    patience.over()
    address.serve(review_app(desk), say)


def _next_step(folder: Path) -> str:
    if (folder / "config.yaml").exists():
        return f"Once everything is decided, go on with: understudy run --resume --out {folder}"
    return "It is sent when the server asks again; its operator goes on with --resume."


@contextmanager
def shown(folder: Path, port: int | None, says: Callable[[str], None]) -> Iterator[None]:
    """Beside a run, until it ends; without a ``port`` nothing is shown."""
    if port is None:
        yield
        return
    from understudy.web import check_installed

    check_installed("--view")
    from understudy.web.live import LivePages
    from understudy.web.serving import Port

    address, pages = Port(port, option="--view"), LivePages(folder)
    with address.serving(pages.app, says, closing=pages.close):
        yield


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
