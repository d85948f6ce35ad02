"""What commands share: the top-level app, common arguments, and how JSON is printed."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from typer.core import TyperGroup

from understudy.errors import UserError, speaking_to_a_command_line


class Stopped(KeyboardInterrupt):
    """A subclass, because after a plain KeyboardInterrupt inside `exec` Python ends with SIGINT, whatever the code."""


class Commands(TyperGroup):
    """All commands end the same way when the user or the system stops them, and what they started ends with them."""

    def invoke(self, ctx: click.Context) -> Any:
        told = _heed_signals()
        try:
            with speaking_to_a_command_line():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            pass
        except (typer.Exit, UserError):
            raise
        except Exception:  # an interrupted import can raise anything
            if not told:
                raise
        print("\nStopped.", file=sys.stderr)
        raise typer.Exit(130)


def _heed_signals() -> list[int]:
    """SIGTERM does what Ctrl-C does; the list holds the signals received."""
    told: list[int] = []

    def stop(which: int, _: object) -> None:
        told.append(which)
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if the shell set it to be ignored
        signal.signal(signal.SIGINT, stop)
    return told


app = typer.Typer(
    cls=Commands,
    help="Federated learning in which synthetic data stands in for private data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE ...]", help="Settings to change.")]
ClusterAddress = Annotated[
    str | None, typer.Option(help="Whole runs go to this Ray cluster: its head's host:port, or auto.")
]
GpuShare = Annotated[float, typer.Option(min=0, help="With --address: the share of a GPU that each run takes.")]
RunDir = Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")]


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=1))
