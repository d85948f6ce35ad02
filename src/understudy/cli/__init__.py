"""The command. It only parses arguments, calls the rooms and prints; heavy imports wait until they are needed.

One module per group of commands; each adds its commands to `app.app` when imported, in the order below.
"""

import sys
from typing import Annotated, NoReturn

import typer

from understudy import __version__, patience
from understudy.cli import (  # noqa: F401
    approve,
    audit,
    data,
    devices,
    federation,
    lists,
    pages,
    pictures,
    privacy,
    report,
    runs,
    studies,
    sweeps,
    theory,
)
from understudy.cli.app import app
from understudy.errors import TOO_LITTLE_MEMORY, UserError, no_memory


def main() -> None:
    patience.begin()
    try:
        app()
    except UserError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename or 'A file or a connection'} cannot be used ({error.strerror or error}).")
    except (RuntimeError, MemoryError) as error:
        if not no_memory(error):
            raise
        _refuse(TOO_LITTLE_MEMORY)
    finally:
        patience.over()


def _refuse(sentence: str) -> NoReturn:
    print(f"understudy: {sentence}", file=sys.stderr)
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
