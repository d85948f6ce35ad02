"""A simulation does not wait for the disk in every round: a kill takes nothing, a power cut a second of work."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from understudy.errors import UserError
from understudy.federation import memories
from understudy.runs import durability
from understudy.runs.checkpoint import Checkpoint
from understudy.runs.folder import Line, RunFolder
from understudy.runs.watching import Observer

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "limit": 90},
    "model": {"name": "softmax"},
    "engine": {"name": "inline"},
}


class Stops(Observer):
    """Pulls the plug after a round."""

    def __init__(self, after: int):
        self._after = after

    def scored(self, line: Line) -> None:
        if line["round"] == self._after:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def no_second_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "SYNC_EVERY", 1e9)


def config(method: str, count: int, **more: Any) -> dict[str, Any]:
    return {**SMALL, "method": {"name": method, "rounds": count, "local": {"epochs": 1, "lr": 0.1}}, **more}


def synced(monkeypatch: pytest.MonkeyPatch, out: Path, words: dict[str, Any]) -> int:
    """How often the run waited for the disk."""
    found, real = [], os.fsync

    def counted(file: int) -> None:
        found.append(file)
        real(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", counted)
        us.run(words, out=out)
    return len(found)


def test_a_simulation_waits_for_the_disk_by_the_clock_and_not_by_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (synced(monkeypatch, tmp_path / str(count), config("scaffold", count)) for count in (2, 9))
    assert few == many
    monkeypatch.setattr(durability, "SYNC_EVERY", 0.0)
    assert synced(monkeypatch, tmp_path / "each", config("scaffold", 9)) >= many + 7 * 4


def test_what_cost_privacy_is_safe_before_the_next_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved, real = list[bool](), RunFolder.save_checkpoint

    def noted(self: RunFolder, checkpoint: Checkpoint, *, durable: bool = True) -> None:
        saved.append(durable)
        real(self, checkpoint, durable=durable)

    monkeypatch.setattr(RunFolder, "save_checkpoint", noted)
    us.run(config("fedavg", 3), out=tmp_path / "open")
    assert saved == [True, False, False, True]
    saved.clear()
    promise = {"epsilon": 8.0, "delta": 1e-3, "records": 30}
    us.run(config("dp-fedavg", 3, privacy=promise), out=tmp_path / "private")
    assert saved == [True] * 4


def cut_short(out: Path, words: dict[str, Any], after: int) -> RunFolder:
    with pytest.raises(KeyboardInterrupt):
        us.run(words, out=out, observer=Stops(after))
    return RunFolder(out)


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
@pytest.mark.parametrize("harm", ["tensor", "listing"])
def test_after_a_power_cut_the_run_goes_on_from_what_was_safe_to_the_same_bits(
    method: str, harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "DEAD_BYTES", 0)  # files are made tidy at every opportunity
    monkeypatch.setattr(memories, "DEAD_LINES", 0)
    monkeypatch.setattr(durability.Durability, "needed", lambda self, round: round in (0, 2, self._last))
    words = config(method, 6)
    whole = us.run(words, out=tmp_path / "whole")
    folder = cut_short(tmp_path / "cut", words, 4)
    safe, newest = folder.checkpoints.entries()
    assert (safe, newest) == ("round-000002", "round-000004")
    if harm == "listing":
        (folder.path / "checkpoint" / f"{newest}.json").write_bytes(b"")
    else:
        before = {file.name for file in (folder.path / "checkpoint" / "parts").iterdir()}
        listed = (folder.path / "checkpoint" / f"{safe}.json").read_text()
        for name in (name for name in before if name not in listed):
            (folder.path / "checkpoint" / "parts" / name).write_bytes(b"")
    again = us.run(resume=True, out=folder.path)
    assert (again.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()
    numbers = [[{"round": line["round"], "loss": line["loss"]} for line in run.metrics] for run in (again, whole)]
    assert numbers[0] == numbers[1]
    assert folder.checkpoints.entries() == ["round-000006"]


def test_a_kill_takes_nothing(tmp_path: Path) -> None:
    folder = cut_short(tmp_path / "cut", config("scaffold", 6), 4)
    asked: list[int] = []

    class Watches(Observer):
        def phase(self, round: int, name: str, clients: Sequence[str] = ()) -> None:
            asked.extend([round] if clients else [])

    us.run(resume=True, out=folder.path, observer=Watches())
    assert asked == [5, 6]


def test_with_nothing_older_to_go_on_from_the_damage_is_told(tmp_path: Path) -> None:
    folder = cut_short(tmp_path / "cut", config("fedavg", 3), 0)
    (folder.path / "checkpoint" / "round-000000.json").write_bytes(b"")
    with pytest.raises(UserError, match="damaged"):
        us.run(resume=True, out=folder.path)
