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
