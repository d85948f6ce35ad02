"""Whether an accelerator computes what the processor does."""

import sys
from typing import Annotated

import typer

from understudy.cli.app import Json, app, print_json


@app.command()
def check_device(
    device: Annotated[str | None, typer.Argument(help="cuda, cuda:1, mps or cpu; by default what torch finds.")] = None,
    speed: Annotated[bool, typer.Option(help="Also measure the speed, about a minute.")] = True,
    as_json: Json = False,
) -> None:
    """Run the core of the contract on a device and on the CPU, compare the results, and measure the ratio of speed."""
    from understudy.runs.device_check import check_results, device_to_check
    from understudy.runs.device_speed import measure_speed
    from understudy.view.device import device_dict, print_findings, print_speeds

    chosen = device_to_check(device)
    findings = list(check_results(chosen, lambda case: print(f"{case} …", file=sys.stderr)))
    if not as_json:
        print_findings(chosen, findings)
    speeds = list(measure_speed(chosen)) if speed else []
    print_json(device_dict(chosen, findings, speeds)) if as_json else print_speeds(speeds)
    if not all(finding.agrees for finding in findings):
        raise typer.Exit(1)
