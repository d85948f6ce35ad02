"""MLflow: where the user has set it up (MLFLOW_TRACKING_URI); otherwise in mlflow.db here, which `mlflow ui` finds."""

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from understudy.data.tiling import Tile
from understudy.runs.tracking.tracker import PROJECT, TrackedRun, Tracker, flat

LONGEST = 500  # characters of a value, which every version of MLflow takes
MOST_AT_ONCE = 100  # settings in one call


class MLflow(Tracker):
    def begin(self, run: TrackedRun, known_as: str | None) -> str:
        for chatty in ("alembic", "mlflow.store.db.utils"):  # about a new database
            logging.getLogger(chatty).setLevel(logging.WARNING)
        own = mlflow.is_tracking_uri_set()
        here = Path.cwd()
        self._client = MlflowClient(tracking_uri=None if own else f"sqlite:///{here / 'mlflow.db'}")
        if known_as is not None and self._still_there(known_as):
            self._run = known_as
            self._client.update_run(known_as, status="RUNNING")
            return known_as
        experiment = self._experiment(None if own else (here / "mlartifacts").as_uri())
        self._run = self._client.create_run(experiment, run_name=run.name, tags={"understudy.run": run.id}).info.run_id
        settings = [Param(name, value[:LONGEST]) for name, value in flat(run.words).items()]
        for first in range(0, len(settings), MOST_AT_ONCE):
            self._client.log_batch(self._run, params=settings[first : first + MOST_AT_ONCE])
        self.file(run.folder / "config.yaml")
        return str(self._run)

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self._client.log_batch(self._run, metrics=[Metric(name, value, now, round) for name, value in values.items()])

    def picture(self, round: int, pixels: Tile) -> None:
        self._client.log_image(self._run, pixels, key="synthetic", step=round)

    def file(self, path: Path) -> None:
        self._client.log_artifact(self._run, str(path))

    def end(self, finished: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")

    def _still_there(self, run: str) -> bool:
        try:
            return bool(self._client.get_run(run).info.lifecycle_stage == "active")
        except MlflowException:
            return False

    def _experiment(self, files_at: str | None) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name, files_at) if found is None else found.experiment_id)
