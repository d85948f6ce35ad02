"""The report in one file."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.app import app


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run folders.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The page: FILE.html.")] = Path("report.html"),
    target: Annotated[float | None, typer.Option(help="Begin with this target accuracy, such as 0.8.")] = None,
    quality: Annotated[
        bool,
        typer.Option(help="Measure what synthetic sets are worth, if nobody has yet; it trains a few small networks."),
    ] = True,
) -> None:
    """Write what runs did into one HTML file that opens offline."""
    from understudy.api.reporting import report as write_report
    from understudy.view.numbers import size

    written = write_report(folders, out, target=target, quality=quality)
    print(f"Report: {written} ({size(written.stat().st_size)})")
