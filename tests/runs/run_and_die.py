"""Runs a config and kills itself with SIGKILL while it writes its N-th file, half of the file on disk."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.config.resolve import resolve
from understudy.federation import answering, parcels_on_disk
from understudy.federation import tensor_store as store
from understudy.files import write_whole
from understudy.runs import folder, releases, rounds
from understudy.runs import play as run
from understudy.runs.api import begun_with

COMMON: dict[str, Any] = {
    "seed": 1,
    "data": {"name": "digits", "limit": 120, "clients": 3, "split": {"kind": "dirichlet", "alpha": 0.3}},
    "model": {"name": "softmax"},
}
LOCAL = {"local": {"epochs": 1, "batch": 16, "lr": 0.1}}
CASES: dict[str, dict[str, Any]] = {
    "fedavg": {"method": {"name": "fedavg", "rounds": 3, **LOCAL}},
    "scaffold": {"method": {"name": "scaffold", "rounds": 3, **LOCAL}},
    "fedcog": {
        "method": {"name": "fedavg", "rounds": 3, **LOCAL},
        "with": [{"name": "fedcog", "kd_weighting": "balanced", "images": 20, "steps": 5}],
    },
    "feddm": {
        "method": {
            "name": "feddm",
            "rounds": 3,
            "ipc": 2,
            "steps": 3,
            "real_batch": 8,
            "min_class_records": 2,
            "server": {"epochs": 3},
        }
    },
    "fedssyn": {
        "method": {"name": "fedavg", "rounds": 3, **LOCAL},
        "with": [{"name": "fedssyn", "generator": {"name": "vae", "epochs": 2, "width": 4}, "sound_only": False}],
    },
}


def dying_writer(at: int) -> None:
    whole, count = write_whole, 0

    def write(path: Path, data: bytes, *, durable: bool = True) -> None:
        nonlocal count
        count += 1
        if count == at:
            path.with_name(f"{path.name}.part").write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        whole(path, data, durable=durable)

    for module in (store, parcels_on_disk, answering, folder, rounds, releases):
        module.__dict__["write_whole"] = write


def run_and_die(at: int, engine: Mapping[str, object], out: Path, case: str) -> None:
    """With ``at`` 0 it lives."""
    if at:
        dying_writer(at)
    if (out / "config.yaml").exists():
        run.play(resolve(begun_with(out), {"engine": engine}), out, resume=True)
    else:
        run.play(resolve({**COMMON, **CASES[case]}, {"engine": engine}), out, resume=out.exists())
