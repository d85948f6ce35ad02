"""Weights & Biases: offline, in the run's folder, unless WANDB_MODE says otherwise; `wandb sync` sends it later."""

import os
from collections.abc import Mapping
from pathlib import Path

import wandb

from understudy.data.tiling import Tile
from understudy.runs.tracking.tracker import FOLDER, PROJECT, TrackedRun, Tracker


class WeightsAndBiases(Tracker):
    def begin(self, run: TrackedRun, known_as: str | None) -> str:
        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.name,
            id=run.id,
            dir=str(run.folder / FOLDER),
            config=dict(run.words),
            mode=mode,
            resume=None if mode == "offline" else "allow",  # offline, parts of one id are joined by `wandb sync`
            settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
        )
        self._run.define_metric("*", step_metric="round")
        return run.id

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        self._run.log({"round": round, **values})

    def picture(self, round: int, pixels: Tile) -> None:
        self._run.log({"round": round, "synthetic": wandb.Image(pixels)})

    def file(self, path: Path) -> None:
        kept = wandb.Artifact(f"{path.stem}-{self._run.id}", type=path.stem)
        kept.add_file(str(path))
        self._run.log_artifact(kept)

    def end(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
