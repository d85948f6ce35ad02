"""What commands share: the top, the words they take, and how JSON is printed."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Federated learning in which synthetic data stands in for private data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE ...]", help="Settings to change.")]
RunDir = Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")]


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=1))
