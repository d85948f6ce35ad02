"""TensorBoard: event files in the run's folder; `tensorboard --logdir runs` shows all runs."""

import json
from collections.abc import Mapping
from pathlib import Path

import yaml
from torch.utils.tensorboard import SummaryWriter

from understudy.data.tiling import Tile
from understudy.runs.tracking.tracker import FOLDER, TrackedRun, Tracker

EVENTS = "tensorboard"


class TensorBoard(Tracker):
    def begin(self, run: TrackedRun, known_as: str | None) -> str:
        self._writer = SummaryWriter(str(run.folder / FOLDER / EVENTS))
        if known_as is None:
            self._text("config", yaml.safe_dump(dict(run.words), sort_keys=False))
        return EVENTS

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def picture(self, round: int, pixels: Tile) -> None:
        self._writer.add_image("synthetic", pixels, round, dataformats="HWC")

    def file(self, path: Path) -> None:
        """TensorBoard keeps no files, but shows text."""
        if path.suffix == ".json":
            self._text(path.stem, json.dumps(json.loads(path.read_text("utf-8")), indent=1))

    def end(self, finished: bool) -> None:
        self._writer.close()

    def _text(self, name: str, text: str) -> None:
        """As code: four spaces in front of each line, in Markdown."""
        self._writer.add_text(name, "\n".join(f"    {line}" for line in text.splitlines()))
