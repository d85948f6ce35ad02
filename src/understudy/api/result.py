"""What a run came to: its numbers, its model, what was sent; and how it shows itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from understudy.config.schema import Live
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.runs.asked import asked, check_kinds, live_objects, next_folder
from understudy.runs.folder import RunFolder
from understudy.runs.holdings import read_holdings
from understudy.runs.play import play
from understudy.runs.rounds import RunResult
from understudy.runs.scores import summary_so_far
from understudy.runs.synthetic_sets import SyntheticSets
from understudy.runs.trained import TrainedModel
from understudy.runs.watching import Observer

if TYPE_CHECKING:
    import pandas

    from understudy.view.canvas import Figure

GivenRecords = NDArray[Any] | Tensor | str | Path  # (n, …), as they were before training scaled them; or a file


@dataclass(frozen=True, repr=False, eq=False)
class Result(RunResult):
    """A run: its ``folder``, ``summary``, one line of ``metrics`` per round, and ``weights``, a state dict.

    `run` returns it and `load` reads it from a folder again; of a run that was killed it has no weights until `resume`.
    In a notebook it shows itself.

    >>> import numpy as np, understudy as us
    >>> result = us.run("digits-skewed", rounds=2, model="softmax")
    >>> result.predict(np.zeros((3, 8, 8), np.uint8)).shape
    (3,)
    >>> result.resume(rounds=3).summary["rounds"]
    3
    """

    live: Live = field(default_factory=Live)

    # ---- the model

    def model(self, site: str | None = None) -> nn.Module:
        """The network with its trained weights, in evaluation mode, on the CPU: a copy to do with as you like.

        It takes scaled records, which `predict` does by itself. ``site``: that client's personal model.
        """
        return self._trained.module(site)

    def predict(self, records: GivenRecords, site: str | None = None) -> NDArray[np.int64]:
        """(n,) class numbers, or (n, classes) zeros and ones where a record has several labels.

        Pass records as they were before training: pixels from 0 to 255, or unscaled floats; they are scaled as in
        training. If the run learnt from files, a file or folder of new records will do, such as ``"new.csv"``: columns
        and images are read as the run read its own. ``site`` says whose statistics (``data.scale: site``) or whose
        personal model is meant.
        """
        found: NDArray[np.int64] = self._trained.labels(records, site).numpy()
        return found

    def probabilities(self, records: GivenRecords, site: str | None = None) -> NDArray[np.float32]:
        """(n, classes): how likely each class is, by the model; otherwise like `predict`."""
        found: NDArray[np.float32] = self._trained.probabilities(records, site).numpy()
        return found

    @cached_property
    def _trained(self) -> TrainedModel:
        if not self.weights:
            raise UserError(f"{self.folder} has not finished, so there is no model yet; resume() goes on with it.")
        return TrainedModel(self.folder, self.weights, self.live)

    # ---- what is in its folder

    @property
    def config(self) -> dict[str, Any]:
        """Every setting of the run, including defaults."""
        return RunFolder(self.folder).config()

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of each class that `predict` gives the number of."""
        held = read_holdings(self.folder)
        return tuple(map(str, range(self._trained.problem.classes))) if held is None else held.classes

    @property
    def synthetic(self) -> Mapping[str, Examples]:
        """The newest synthetic set of each client that sent one, by client; a set is read when it is asked for."""
        return SyntheticSets(self.folder)

    @property
    def ledger(self) -> dict[str, Any]:
        """Everything that left each client, and what it cost in privacy."""
        return RunFolder(self.folder).ledger()

    def frame(self) -> "pandas.DataFrame":
        """One row per round, with the numbers of its line of metrics; needs pandas."""
        from understudy.api.frames import frame_of

        plain = (str, int, float, bool)
        return frame_of([{k: v for k, v in line.items() if v is None or isinstance(v, plain)} for line in self.metrics])

    # ---- pictures and pages

    def plot(self) -> "Figure":
        """Accuracy over rounds and over megabytes, as a matplotlib figure."""
        from understudy.view.canvas import showing_itself
        from understudy.view.curves import curves_of_runs
        from understudy.view.panels import drawing_figure

        return showing_itself(drawing_figure(curves_of_runs([self.folder])))

    def report(self, path: str | Path = "report.html", *, target: float | None = None, quality: bool = True) -> Path:
        """Writes the run into one HTML file that opens offline; see `report` for several runs."""
        from understudy.api.reporting import report

        return report(self, path, target=target, quality=quality)

    def _repr_html_(self) -> str:
        from understudy.view.html.cards import run_card

        return run_card(self.folder, self.summary)

    def __repr__(self) -> str:
        accuracy = "not scored" if self.accuracy is None else f"accuracy {self.accuracy:.3f}"
        rounds = self.summary["rounds"]
        return f"<Result {str(self.folder)!r}: {accuracy} after {rounds} {'round' if rounds == 1 else 'rounds'}>"

    # ---- going on

    def resume(
        self, rounds: int | None = None, *, observer: Observer | None = None, progress: bool | None = None
    ) -> "Result":
        """Goes on where the run stopped, or for more ``rounds`` in all, and returns the result after that.

        Objects passed to `run` are used again; after `load`, pass them there.
        """
        from understudy.api.run import run

        words: dict[str, Any] = {key: value for key, value in vars(self.live).items() if value is not None}
        if rounds is not None:
            words["rounds"] = rounds
        return run(out=self.folder, resume=True, observer=observer, progress=progress, **words)


def loaded(folder: object, **objects: Any) -> Result:
    """`understudy.load`."""
    if not isinstance(folder, str | Path):
        raise UserError(f"folder: pass the folder of a run, not {type(folder).__name__}.")
    live = live_objects(**objects)
    for name, value in objects.items():
        if value is not None and getattr(live, name) is None:
            raise UserError(f"{name}: pass the object that the run was given, not {type(value).__name__}.")
    run = RunFolder(Path(folder))
    if run.stopped_half_way:
        return Result(run.path, summary_so_far(run), run.metrics(), {}, live)
    return Result(run.path, run.summary(), run.metrics(), run.weights(), live)


def played(config: Any, out: str | Path | None, resume: bool, watching: Callable[[], Observer], **words: Any) -> Result:
    """`understudy.run`, once torch is there."""
    check_kinds(out=out)
    if resume and out is None:
        raise UserError("resume needs out, the folder of the run to resume.")
    observer = watching()
    check_kinds(observer=observer)
    found = asked(config, resumed=Path(out) if out is not None and resume else None, **words)
    resolved = found.config()
    folder = Path(out) if out is not None else next_folder(config, resolved)
    done = play(resolved, folder, resume=resume, observer=observer)
    return Result(done.folder, done.summary, done.metrics, done.weights, found.live)
