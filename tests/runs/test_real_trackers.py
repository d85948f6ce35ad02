"""The trackers' own packages, where they are installed (the extras tensorboard, mlflow and wandb)."""

from pathlib import Path

import pytest

import understudy as us

RUN = {
    "data": {"name": "digits", "limit": 60, "clients": 3},
    "model": "softmax",
    "method": {"name": "feddm", "rounds": 2, "steps": 1, "ipc": 1, "min_class_records": 1, "server": {"epochs": 1}},
    "engine": {"name": "inline"},
}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # theirs are not ours to mend


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = us.run(RUN, track="tensorboard", out=tmp_path / "run")
    us.run(RUN, rounds=3, out=tmp_path / "run", resume=True, track="tensorboard")
    events = EventAccumulator(str(tmp_path / "run" / "tracking" / "tensorboard")).Reload()
    scalars = events.Scalars("accuracy")
    assert [event.step for event in scalars] == [0, 1, 2, 3]
    assert scalars[2].value == pytest.approx(result.accuracy)
    assert [event.step for event in events.Images("synthetic")] == [1, 2, 3]
    assert {"config/text_summary", "ledger/text_summary"} <= set(events.Tags()["tensors"])


def test_mlflow_reads_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    result = us.run(RUN, track="mlflow", out=tmp_path / "runs" / "a")
    us.run(RUN, rounds=3, out=tmp_path / "runs" / "a", resume=True, track="mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("understudy").experiment_id])
    assert (run.info.run_name, run.info.status) == ("a", "FINISHED")
    assert run.data.params["method.name"] == "feddm"
    history = sorted(client.get_metric_history(run.info.run_id, "accuracy"), key=lambda metric: metric.step)
    assert [metric.step for metric in history] == [0, 1, 2, 3]
    assert history[2].value == result.accuracy
    assert {"config.yaml", "images", "ledger.json"} <= {file.path for file in client.list_artifacts(run.info.run_id)}
    assert not (tmp_path / "mlruns").exists()


def test_wandb_writes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    us.run(RUN, track="wandb", out=tmp_path / "run")
    (kept,) = (tmp_path / "run" / "tracking" / "wandb").glob("offline-run-*")
    assert list(kept.glob("run-*.wandb"))
    assert len(list(kept.rglob("synthetic_*.png"))) == 2
