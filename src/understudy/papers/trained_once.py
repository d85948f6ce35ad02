"""Generators that a study trains once per split and seed, and that all its runs then sample from.

A run without rounds trains them and keeps them with the clients (`fedssyn`, ``keep_generator``); later runs on the same
split find them there (``from_run``). Images depend only on seed and client, so every method gets the same ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.config.resolve import resolve
from understudy.papers.study import Changes
from understudy.papers.tuned import TUNING_SEED, VALIDATION
from understudy.runs.play import play
from understudy.runs.watching import Observer

BySeed = Callable[[int], Changes]


@dataclass(frozen=True)
class TrainedOnce:
    config: Changes  # what all runs of the study have in common
    home: Path  # of runs that train generators
    observer: Observer

    def shuffling(
        self, name: str, generator: Changes, *, records: float = 0.75, split: Changes | None = None, **exchange: Any
    ) -> BySeed:
        """What the run with one seed changes: Fedssyn with images from the generators called ``name``.

        ``split`` is what the run changes in the data; ``exchange`` are further settings of fedssyn. Settings of
        ``generator`` that only matter for sampling may differ between runs that share a name.
        """

        def changes(seed: int) -> Changes:
            run = self._trained(name, generator, records, split or {}, seed)
            # Poor generators are part of the study, so their images are sent too.
            how = {"records": records, "sound_only": False, "from_run": str(run), **exchange}
            return {"with": [{"name": "fedssyn", "generator": dict(generator), **how}]}

        return changes

    def _trained(self, name: str, generator: Changes, records: float, split: Changes, seed: int) -> Path:
        folder = (self.home / f"{name}-seed-{seed}").resolve()
        add_on = {"name": "fedssyn", "generator": dict(generator), "records": records, "keep_generator": True}
        changes = {**split, "with": [{**add_on, "images": 0}], "method.rounds": 0, "seed": seed}
        if seed == TUNING_SEED:
            changes["data.validation"] = VALIDATION
        if not (folder / "summary.json").exists():
            self.observer.says(f"\ngenerators: {name}, seed {seed}")
            play(resolve(dict(self.config), changes), folder, resume=True, observer=self.observer)
        return folder
