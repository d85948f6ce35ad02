"""Where a run ran, and on which versions: the same seed gives the same bits only on like machines."""

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy import __version__
from understudy.errors import UserError
from understudy.printable import printable
from understudy.reading import json_of, text_of
from understudy.runs.folder import RunFolder

MACHINE_FILE = "machine.json"

MachineFacts = dict[str, str | int]


def this_machine() -> MachineFacts:
    """Nothing in it tells whose machine it is."""
    return {
        "understudy": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
    }


def note_machine(run: RunFolder) -> None:
    """A run that is resumed elsewhere, or after an upgrade, has several."""
    known, here = read_machines(run.path), this_machine()
    if here not in known:
        run.write_json(MACHINE_FILE, [*known, here])


def read_machines(folder: Path) -> list[MachineFacts]:
    """In the order in which the run used them; none if its folder is older than this file, or it cannot be read."""
    file = folder / MACHINE_FILE
    try:
        found = json_of(text_of(file), str(file)) if file.exists() else []
    except UserError:
        return []
    return [_plain(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _plain(one: dict[str, Any]) -> MachineFacts:
    return {printable(key, 40): one[key] if isinstance(one[key], int) else printable(str(one[key])) for key in one}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
