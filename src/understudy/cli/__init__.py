"""The command. It only reads words, calls the rooms, and prints; heavy imports wait until they are needed.

One module a group of commands; each adds its commands to `words.app` when it is imported, in the order below.
"""

import sys
from typing import Annotated

import typer

from understudy import __version__
from understudy.cli import approval, data, federation, lists, privacy, runs, studies, theory  # noqa: F401
from understudy.cli.words import app
from understudy.errors import UserError


def main() -> None:
    try:
        app()
    except UserError as error:
        print(f"understudy: {error}", file=sys.stderr)
        sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
