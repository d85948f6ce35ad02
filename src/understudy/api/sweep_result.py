"""What a sweep found, and how it shows itself."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api.result import Result, loaded
from understudy.config.schema import Live
from understudy.errors import UserError
from understudy.runs.asked import asked, check_kinds
from understudy.runs.cluster_store import store_at
from understudy.runs.sweep import sweep
from understudy.runs.swept import Swept, SweptSettings
from understudy.runs.watching import Observer
from understudy.view.combinations import keep_sweep

if TYPE_CHECKING:
    import pandas

    from understudy.view.canvas import Figure

MOST_SEEDS = 10_000


@dataclass(frozen=True, repr=False)
class Sweep(Swept):
    """All combinations of a sweep, and the one that validation records chose.

    In a notebook it shows itself as a table and a picture.

    >>> import understudy as us
    >>> found = us.sweep("digits-skewed", {"lr": [0.01, 0.3]}, rounds=2, model="softmax")
    >>> found.best["lr"] in (0.01, 0.3)
    True
    >>> [result.accuracy is not None for result in found.results()]
    [True]
    """

    folder: Path = Path()  # with sweep.json, sweep.csv and sweep.png
    live: Live = field(default_factory=Live)

    @property
    def best(self) -> dict[str, Any]:
        """The settings that validation records chose, ready for ``run(changes=…)``."""
        return dict(self._chosen().settings)

    @property
    def accuracy(self) -> float | None:
        """Test accuracy of what was chosen, the mean over seeds; None: there is no test set. F1 over classes where a
        record may have several labels, as ``measure`` says."""
        return self._chosen().test

    @property
    def validation_accuracy(self) -> float | None:
        """Of what was chosen, in the same measure; since it chose, it flatters."""
        return self._chosen().validation

    def results(self) -> list[Result]:
        """The runs of what was chosen, one per seed."""
        objects = {key: value for key, value in vars(self.live).items() if value is not None}
        return [loaded(run.folder, **objects) for run in self._chosen().runs]

    def _chosen(self) -> SweptSettings:
        if self.chosen is None:
            why = next((line.why_failed for line in self.lines if line.why_failed), "no run has a score")
            raise UserError(f"Nothing was chosen: {why.rstrip('.')}.")
        return self.lines[self.chosen]

    def frame(self) -> "pandas.DataFrame":
        """One row per run; needs pandas."""
        from understudy.api.frames import frame_of

        return frame_of(self.rows())

    def csv(self, path: str | Path) -> Path:
        """Writes one line per run."""
        from understudy.view.csv_files import write_csv

        return write_csv(self.rows(), Path(path))

    def plot(self) -> "Figure":
        """Every combination and every seed, as a matplotlib figure."""
        from understudy.view.canvas import showing_itself
        from understudy.view.combinations import sweep_drawing
        from understudy.view.panels import drawing_figure

        return showing_itself(drawing_figure(sweep_drawing(self)))

    def _repr_html_(self) -> str:
        from understudy.view.html.cards import sweep_card

        return sweep_card(self)

    def __repr__(self) -> str:
        done = sum(not run.why_failed for run in self.runs)
        chosen = "nothing chosen" if self.chosen is None else f"chosen {self.best}"
        return f"<Sweep {str(self.folder)!r}: {done} of {len(list(self.runs))} runs, {chosen}>"


def swept(
    config: Any,
    grid: Any,
    seeds: Any,
    out: Any,
    workers: int | None,
    address: str | None,
    watching: Callable[[], Observer],
    **words: Any,
) -> Sweep:
    """`understudy.sweep`, once torch is there."""
    observer = watching()
    check_kinds(out=out, observer=observer)
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise UserError(f"workers: give a whole number, at least 1, not {workers!r}.")
    if "seed" in words or "seed" in (words["changes"] or {}):
        raise UserError("seed: a sweep takes seeds, such as seeds=[0, 1, 2].")
    found = asked(config, **words)
    if Path(out).exists() and not Path(out).is_dir():
        raise UserError(f"{out} is a file; choose another out.")
    store = store_at(Path(out), address)
    source = Path(str(config)).stem if isinstance(config, str | Path) else "sweep"
    got = sweep(
        found,
        _grid(grid),
        _seeds(seeds),
        store=store,
        observer=observer,
        workers=workers or min(8, os.cpu_count() or 1),
        name=source,
    )
    folder = store.root / got.name
    keep_sweep(got, folder)
    return Sweep(**vars(got), folder=folder, live=found.live)


def _grid(grid: object) -> dict[str, list[Any]]:
    if grid is None:
        return {}
    if not isinstance(grid, Mapping):
        raise UserError(f"grid: pass a mapping from settings to lists of values, not {type(grid).__name__}.")
    for name, values in grid.items():
        if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
            raise UserError(f"grid: give a list of values for '{name}', such as [{values!r}].")
        if name == "seed":
            raise UserError("grid: seeds have an argument of their own, such as seeds=[0, 1, 2].")
    found = {name: [_plain(value) for value in values] for name, values in grid.items()}
    for name, values in found.items():
        if not values:
            raise UserError(f"grid: '{name}' has no value to try.")
    return found


def _plain(value: Any) -> Any:
    """A number of numpy or torch as Python's own: configs hold nothing else."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _seeds(seeds: object) -> list[int]:
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        seeds = range(min(seeds, MOST_SEEDS))
    given = [_plain(seed) for seed in seeds] if isinstance(seeds, Iterable) and not isinstance(seeds, str) else []
    if not given or not all(isinstance(seed, int) and seed >= 0 for seed in given) or len(set(given)) < len(given):
        raise UserError(f"seeds: give whole numbers from 0, each once, such as [0, 1, 2], not {seeds!r}.")
    return given
