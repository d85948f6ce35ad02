"""Runs told to experiment trackers: what they get, when, and that they change nothing. Stand-ins take the place of the
trackers' packages; test_real_trackers.py has the real ones."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

import understudy as us
from understudy.config.resolve import resolve
from understudy.data.tiling import Tile
from understudy.errors import UserError
from understudy.runs.branching import branch
from understudy.runs.folder import RunFolder
from understudy.runs.play import play
from understudy.runs.tracking import tracking
from understudy.runs.tracking.tracker import TrackedRun, Tracker, flat
from understudy.runs.watching import Observer, PassesOn

TINY = {
    "data": {"name": "digits", "limit": 60, "clients": 3},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 1, "lr": 0.1}},
    "engine": {"name": "inline"},
}
PICTURES = {
    **TINY,
    "method": {"name": "feddm", "rounds": 1, "steps": 1, "ipc": 1, "min_class_records": 1, "server": {"epochs": 1}},
}


class Notebook(Tracker):
    def __init__(self, fails_in_round: int | None = None) -> None:
        self.begun: list[str | None] = []
        self.lines: dict[int, Mapping[str, float]] = {}
        self.pictures: dict[int, Tile] = {}
        self.files: list[str] = []
        self.ended: list[bool] = []
        self.fails_in_round = fails_in_round

    def begin(self, run: TrackedRun, known_as: str | None) -> str:
        self.begun.append(known_as)
        return known_as or f"page {len(self.begun)}"

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        if round == self.fails_in_round:
            raise ConnectionError("no\nroute to host")
        assert round not in self.lines, "told twice"
        self.lines[round] = values

    def picture(self, round: int, pixels: Tile) -> None:
        self.pictures[round] = pixels

    def file(self, path: Path) -> None:
        assert path.is_file()
        self.files.append(path.name)

    def end(self, finished: bool) -> None:
        self.ended.append(finished)


class Listener(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []

    def says(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    return put_in_place(Notebook(), monkeypatch)


def put_in_place(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    monkeypatch.setattr(tracking, "_tracker", lambda name: notebook)
    return notebook


# ---- what trackers get


def test_every_round_and_the_ledger_are_told(notebook: Notebook, tmp_path: Path) -> None:
    result = us.run(TINY, track="mlflow", out=tmp_path / "run")
    assert [*notebook.lines] == [0, 1, 2]
    told = notebook.lines[2]
    assert told["accuracy"] == result.accuracy
    assert told["bytes_up"] == result.metrics[2]["bytes_up"]
    assert {"round", "undone", "failures"}.isdisjoint(told)
    assert notebook.files == ["ledger.json", "summary.json"]
    assert (notebook.ended, notebook.pictures) == ([True], {})


def test_images_that_left_are_shown_when_they_are_new(notebook: Notebook, tmp_path: Path) -> None:
    us.run(PICTURES, track="mlflow", out=tmp_path / "run")
    assert len(RunFolder(tmp_path / "run").synthetic()) == 3
    assert [*notebook.pictures] == [1]
    height, width, colours = notebook.pictures[1].shape
    assert (colours, str(notebook.pictures[1].dtype)) == (3, "uint8")
    assert width > height  # ten classes across, three clients down


def test_a_resumed_run_is_the_same_and_only_new_rounds_are_told(notebook: Notebook, tmp_path: Path) -> None:
    us.run(TINY, track="mlflow", out=tmp_path / "run")
    us.run(TINY, rounds=4, track="mlflow", out=tmp_path / "run", resume=True)
    assert notebook.begun == [None, "page 1"]
    assert [*notebook.lines] == [0, 1, 2, 3, 4]


def test_a_tracker_that_joins_late_is_told_everything(notebook: Notebook, tmp_path: Path) -> None:
    us.run(TINY, out=tmp_path / "run")
    assert not notebook.begun
    us.run(TINY, rounds=3, track="mlflow", out=tmp_path / "run", resume=True)
    assert [*notebook.lines] == [0, 1, 2, 3]


def test_a_tracker_that_missed_rounds_is_told_them_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"mlflow": Notebook(), "wandb": Notebook()}
    monkeypatch.setattr(tracking, "_tracker", lambda name: kept[name])
    us.run(TINY, track="mlflow", out=tmp_path / "run")
    us.run(TINY, rounds=3, track="wandb", out=tmp_path / "run", resume=True)
    us.run(TINY, rounds=4, track="mlflow", out=tmp_path / "run", resume=True)
    assert kept["mlflow"].begun == [None, "page 1"]
    assert [*kept["mlflow"].lines] == [0, 1, 2, 3, 4]
    assert [*kept["wandb"].lines] == [0, 1, 2, 3]


def test_a_branch_is_another_run(notebook: Notebook, tmp_path: Path) -> None:
    us.run(TINY, track="mlflow", out=tmp_path / "run")
    config = branch(tmp_path / "run", tmp_path / "branch", {"method.rounds": 3})
    notebook.lines.clear()
    play(config, tmp_path / "branch", resume=True)
    assert notebook.begun == [None, None]
    assert [*notebook.lines] == [0, 1, 2, 3]


@pytest.mark.parametrize("damage", ["{", "[]", '{"mlflow": 3}'])
def test_a_damaged_note_of_what_was_told_begins_anew(damage: str, notebook: Notebook, tmp_path: Path) -> None:
    us.run(TINY, track="mlflow", out=tmp_path / "run")
    (tmp_path / "run" / "tracking" / "told.json").write_text(damage)
    notebook.lines.clear()
    us.run(TINY, track="mlflow", out=tmp_path / "run", resume=True)
    assert (notebook.begun, [*notebook.lines]) == ([None, None], [0, 1, 2])


# ---- they change nothing


def test_trackers_change_no_bit(notebook: Notebook, tmp_path: Path) -> None:
    plain, told = us.run(TINY, out=tmp_path / "plain"), us.run(TINY, track="mlflow", out=tmp_path / "told")
    assert len(notebook.lines) == 3
    assert all(torch.equal(plain.weights[name], told.weights[name]) for name in plain.weights)


def test_a_tracker_that_fails_is_left_out_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook, listener = put_in_place(Notebook(fails_in_round=1), monkeypatch), Listener()
    result = us.run(TINY, track="mlflow", out=tmp_path / "run", observer=listener)
    assert result.summary["finished"]
    assert [*notebook.lines] == [0]
    assert not notebook.ended
    (said,) = listener.said
    assert said.startswith("Tracking by mlflow has stopped (no route to host); the run continues")


def test_a_run_that_fails_ends_for_its_trackers_too(notebook: Notebook, tmp_path: Path) -> None:
    class Interrupting(Observer):
        def scored(self, line: dict[str, Any]) -> None:
            if line["round"] == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        us.run(TINY, track="mlflow", out=tmp_path / "run", observer=Interrupting())
    assert notebook.ended == [False]
    assert "ledger.json" in notebook.files


def test_whatever_a_run_tells_is_passed_on() -> None:
    told = {name for name, value in vars(Observer).items() if callable(value) and not name.startswith("_")}
    assert told <= vars(PassesOn).keys()
    heard = MagicMock()
    through = PassesOn(heard)
    for name in told:
        getattr(through, name)(*range(getattr(Observer, name).__code__.co_argcount - 1))
    assert {call[0] for call in heard.method_calls} == told


# ---- the setting


@pytest.mark.parametrize("given", ["tensorboard,mlflow", ["tensorboard", "mlflow"], "tensorboard, mlflow,mlflow"])
def test_trackers_are_listed_or_separated_by_commas(given: object) -> None:
    assert resolve(TINY, {"track": given}).top.track == ("tensorboard", "mlflow")


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(UserError, match=r"track.*tensorboard"):
        resolve(TINY, {"track": "comet"})


def test_a_missing_package_is_named_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "understudy.runs.tracking.to_wandb", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"track: wandb needs more packages.*'\.\[wandb\]'"):
        us.run(TINY, track="wandb", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---- each tracker, with a stand-in for its package

RUN_WORDS = {"seed": 3, "method": {"name": "fedavg", "local": {"lr": 0.1}}, "with": []}


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> Any:
    module: Any = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def begun(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, known_as: str | None = None) -> tuple[Tracker, str]:
    """With its module imported anew, so that it finds the stand-in; and without what this machine has set."""
    for variable in [*tracking.UNLESS_SET, "WANDB_MODE", "WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME"]:
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.delitem(sys.modules, f"understudy.runs.tracking.{tracking.KINDS[name][0]}", raising=False)
    (folder / "config.yaml").write_text("seed: 3\n")
    (folder / "ledger.json").write_text(json.dumps({"lines": []}))
    tracker = tracking.trackers_named([name])[name]
    return tracker, tracker.begin(TrackedRun("a", "id-1", folder, RUN_WORDS), known_as)


def stand_in_for_mlflow(monkeypatch: pytest.MonkeyPatch, *, set_up: bool) -> MagicMock:
    client = MagicMock()
    client.return_value.get_experiment_by_name.return_value = None
    client.return_value.create_run.return_value.info.run_id = "r1"
    stand_in(monkeypatch, "mlflow", is_tracking_uri_set=lambda: set_up, MlflowClient=client)
    stand_in(monkeypatch, "mlflow.entities", Metric=lambda *a: a, Param=lambda *a: a)
    stand_in(monkeypatch, "mlflow.exceptions", MlflowException=LookupError)
    return client


def test_mlflow_keeps_a_database_here_and_reports_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    client = stand_in_for_mlflow(monkeypatch, set_up=False)
    tracker, known_as = begun("mlflow", monkeypatch, tmp_path)
    assert known_as == "r1"
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert client.call_args.kwargs == {"tracking_uri": f"sqlite:///{tmp_path}/mlflow.db"}
    calls = client.return_value
    assert calls.create_experiment.call_args.args == ("understudy", (tmp_path / "mlartifacts").as_uri())
    assert ("method.local.lr", "0.1") in calls.log_batch.call_args.kwargs["params"]
    tracker.numbers(4, {"accuracy": 0.5})
    ((name, value, _, round),) = calls.log_batch.call_args.kwargs["metrics"]
    assert (name, value, round) == ("accuracy", 0.5, 4)
    tracker.file(tmp_path / "ledger.json")
    assert calls.log_artifact.call_args.args == ("r1", str(tmp_path / "ledger.json"))
    tracker.end(finished=False)
    assert calls.set_terminated.call_args.args == ("r1", "KILLED")


def test_mlflow_goes_where_the_user_has_set_it_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client = stand_in_for_mlflow(monkeypatch, set_up=True)
    begun("mlflow", monkeypatch, tmp_path)
    assert client.call_args.kwargs == {"tracking_uri": None}
    assert client.return_value.create_experiment.call_args.args == ("understudy", None)


def test_mlflow_goes_on_with_a_run_that_is_there_and_begins_anew_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = stand_in_for_mlflow(monkeypatch, set_up=True).return_value
    calls.get_run.return_value = SimpleNamespace(info=SimpleNamespace(lifecycle_stage="active"))
    assert begun("mlflow", monkeypatch, tmp_path, known_as="r0")[1] == "r0"
    assert not calls.create_run.called
    calls.get_run.side_effect = LookupError("another database")
    assert begun("mlflow", monkeypatch, tmp_path, known_as="r0")[1] == "r1"


def stand_in_for_wandb(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    init = MagicMock()
    stand_in(
        monkeypatch, "wandb", init=init, Settings=dict, Image=lambda pixels: ("image", pixels), Artifact=MagicMock()
    )
    return init


def test_wandb_is_offline_and_reports_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    init = stand_in_for_wandb(monkeypatch)
    tracker, known_as = begun("wandb", monkeypatch, tmp_path)
    asked = init.call_args.kwargs
    assert known_as == asked["id"] == "id-1"
    assert (asked["mode"], asked["resume"], asked["project"]) == ("offline", None, "understudy")
    assert asked["dir"] == str(tmp_path / "tracking")
    assert asked["config"] == RUN_WORDS
    assert os.environ["WANDB_ERROR_REPORTING"] == "false"
    tracker.numbers(2, {"accuracy": 0.5})
    assert init.return_value.log.call_args.args == ({"round": 2, "accuracy": 0.5},)
    tracker.file(tmp_path / "ledger.json")
    assert init.return_value.log_artifact.called
    tracker.end(finished=True)
    assert init.return_value.finish.call_args.kwargs == {"exit_code": 0}


def test_wandb_is_online_where_the_user_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    init = stand_in_for_wandb(monkeypatch)
    begun("wandb", monkeypatch, tmp_path)
    monkeypatch.setenv("WANDB_MODE", "online")
    tracking.trackers_named(["wandb"])["wandb"].begin(TrackedRun("a", "id-1", tmp_path, RUN_WORDS), "id-1")
    assert (init.call_args.kwargs["mode"], init.call_args.kwargs["resume"]) == ("online", "allow")


def test_tensorboard_writes_into_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writer = MagicMock()
    stand_in(monkeypatch, "torch.utils.tensorboard", SummaryWriter=writer)
    tracker, _ = begun("tensorboard", monkeypatch, tmp_path)
    assert writer.call_args.args == (str(tmp_path / "tracking" / "tensorboard"),)
    assert writer.return_value.add_text.call_args.args[0] == "config"
    tracker.numbers(2, {"accuracy": 0.5})
    assert writer.return_value.add_scalar.call_args.args == ("accuracy", 0.5, 2)
    tracker.file(tmp_path / "ledger.json")
    name, text = writer.return_value.add_text.call_args.args
    assert (name, text.splitlines()[1]) == ("ledger", '     "lines": []')
    tracker.end(finished=True)
    assert writer.return_value.close.called


def test_a_config_is_flattened_to_dotted_names() -> None:
    assert flat(RUN_WORDS) == {"seed": "3", "method.name": "fedavg", "method.local.lr": "0.1", "with": "[]"}
