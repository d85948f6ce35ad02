"""`understudy check-device` as tables, and as plain values."""

from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console

from understudy.runs.device_check import DeviceFinding
from understudy.runs.device_speed import DeviceSpeed
from understudy.view.numbers import NONE
from understudy.view.ruled import Columns, print_notes, print_rows

FINDINGS: Columns = {"run": "whole", "apart": "number", "allowed": "number", "same bits twice": "words", "": "words"}
SPEEDS: Columns = {"work": "words", **dict.fromkeys(("CPU", "device", "times as fast"), "number")}


def device_name(device: torch.device) -> str:
    """With the card's own name, where torch knows it."""
    known = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return f"{device} ({known})" if known else str(device)


def print_findings(device: torch.device, findings: Sequence[DeviceFinding], console: Console | None = None) -> None:
    console = console or Console()
    print_rows(console, FINDINGS, [_row(finding) for finding in findings])
    wrong = [finding.case for finding in findings if not finding.agrees]
    verdict = f"wrong: {'; '.join(wrong)}" if wrong else f"all {len(findings)} runs agree with the CPU's"
    about = "apart: the distance between the two models, as a share of how far training moved them"
    print_notes(console, [f"{device_name(device)}, torch {torch.__version__}: {verdict}.", f"{about}."])


def _row(finding: DeviceFinding) -> list[str]:
    apart = NONE if finding.apart is None else f"{finding.apart:.1e}"
    verdict = "agrees" if finding.agrees else finding.failure or "differs"
    return [finding.case, apart, f"{finding.allowed:.0e}", "yes" if finding.repeats else "no", verdict]


def print_speeds(speeds: Sequence[DeviceSpeed], console: Console | None = None) -> None:
    console = console or Console()
    if speeds:
        console.print()
        print_rows(console, SPEEDS, [_speed_row(speed) for speed in speeds])
        print_notes(console, ["Milliseconds per step; CPU: one thread of this machine's processor, in turns."])


def _speed_row(speed: DeviceSpeed) -> list[str]:
    return [speed.work, f"{1000 * speed.here:,.1f}", f"{1000 * speed.there:,.1f}", f"{speed.ratio:.2f}"]


def device_dict(
    device: torch.device, findings: Sequence[DeviceFinding], speeds: Sequence[DeviceSpeed]
) -> dict[str, Any]:
    return {
        "device": device_name(device),
        "torch": torch.__version__,
        "agrees": all(finding.agrees for finding in findings),
        "runs": [{**vars(finding), "agrees": finding.agrees} for finding in findings],
        "speed": [{**vars(speed), "ratio": speed.ratio} for speed in speeds],
    }
