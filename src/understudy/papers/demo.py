"""The demo's five methods: one preset, and what each changes in it.

Sizes are cut down so that the whole demo takes two minutes on two cores. Rounds, local training, FedDM's settings and
the generator's were chosen on a validation share of the training images (``data.validation=0.2``), with seeds other
than the demo's; the test images chose nothing. FedCOG begins in round 21 because its rounds take longest.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.audits.attack_run import audit_run
from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.runs.folder import RunFolder
from understudy.runs.play import play
from understudy.runs.rounds import RunResult
from understudy.runs.watching import Observer

PRESET = "mnist-disjoint"


@dataclass(frozen=True)
class Act:
    name: str  # also the folder's
    says: str  # one line for the audience
    changes: dict[str, Any]


VAE = {
    "name": "vae",
    "epochs": 20,
    "batch": 64,
    "lr": 0.002,
    "gamma": 0.5,
    "capacity": 0,
    "conditional": True,
    "spread": "class",
}
ACTS = (
    Act("fedavg", "clients train, the server averages", {}),
    Act("scaffold", "the same, with control variates against drift", {"method": "scaffold"}),
    Act(
        "fedavg+fedcog",
        "from round 21 on, each client also learns from images inverted out of the shared model",
        {"with": [{"name": "fedcog", "kd_weighting": "fixed", "from_round": 21, "images": 64, "steps": 20}]},
    ),
    Act(
        "feddm",
        "clients send ten pictures per digit instead of weights; the server trains on them",
        {
            "transcript": True,
            "method": {
                "name": "feddm",
                "rounds": 5,
                "steps": 40,
                "real_batch": 64,
                "server": {"epochs": 150, "batch": 100, "lr": 0.05},
            },
        },
    ),
    Act(
        "fedavg+fedssyn",
        "before round 1, clients swap pictures from their own generators; then they train as in fedavg",
        {"transcript": True, "with": [{"name": "fedssyn", "generator": VAE}]},
    ),
)


def play_demo(out: Path, observer: Observer) -> Iterator[tuple[Act, RunResult]]:
    """One act after another, each in its own folder below ``out``."""
    for act in ACTS:
        observer.says(f"\n{act.name}: {act.says}")
        folder = RunFolder(out / "runs" / act.name)
        config = resolve(read(PRESET), act.changes)
        yield act, play(config, folder.path, resume=True, observer=observer)


def audit_demo(folders: Iterable[Path], observer: Observer) -> None:
    """Attacks the pictures of the acts that sent some: by distance alone, which takes seconds."""
    for folder in folders:
        if RunFolder(folder).synthetic():
            observer.says(f"\n{folder.name}: whose records can be recognised in the pictures?")
            audit_run(folder, only=("distance",), workers=os.cpu_count() or 1)


def clear(out: Path) -> None:
    """An earlier demo makes room; anything else in the folder is left alone."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose another --out.")
    for act in ACTS:
        folder = RunFolder(out / "runs" / act.name)
        if folder.holds_a_run:
            shutil.rmtree(folder.path)
