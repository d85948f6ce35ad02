"""A run goes on as it was begun: the checkpoint knows the digest of its config, whatever became of the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from understudy.errors import UserError
from understudy.runs.folder import RunFolder
from understudy.runs.watching import Observer

TINY = {
    "data": {"name": "digits", "limit": 120, "clients": 4},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "lr": 0.1}},
    "engine": "inline",
}


class Listening(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []

    def says(self, sentence: str) -> None:
        self.said.append(sentence)


def begun(out: Path, **changes: Any) -> RunFolder:
    return RunFolder(us.run(TINY, out=out, **changes).folder)


def edit(run: RunFolder, change: Callable[[dict[str, Any]], None]) -> None:
    words = run.config()
    change(words)
    run.write_config(words)


EDITS: dict[str, Callable[[dict[str, Any]], None]] = {
    "learning rate": lambda words: words["method"]["local"].update(lr=0.2),
    "seed": lambda words: words.update(seed=1),
    "method": lambda words: words["method"].update(name="fedprox"),
    "add-on": lambda words: words.update({"with": [{"name": "fedcog", "kd_weighting": "fixed"}]}),
    "privacy": lambda words: words.update(privacy={"delta": 1e-5}),
    "clients of a round": lambda words: words["method"].update(cohort=2),
}


@pytest.mark.parametrize("what", EDITS)
def test_a_config_that_was_edited_in_the_folder_is_not_resumed(what: str, tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    edit(run, EDITS[what])
    edited = (tmp_path / "run/config.yaml").read_bytes()
    with pytest.raises(UserError, match=r"config\.yaml was edited after the run began"):
        us.run(out=tmp_path / "run", resume=True, rounds=2)
    assert (tmp_path / "run/config.yaml").read_bytes() == edited, "what is refused is left alone"
    assert run.summary()["rounds"] == 1


def test_rounds_and_engine_may_be_edited(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    edit(run, lambda words: words["method"].update(rounds=3))
    edit(run, lambda words: words.update(engine={"name": "workers", "workers": 1}))
    assert us.run(out=tmp_path / "run", resume=True).summary["rounds"] == 3


def test_but_not_rounds_that_learning_rates_follow(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", changes={"method.local.schedule": "cosine"})
    edit(run, lambda words: words["method"].update(rounds=3))
    with pytest.raises(UserError, match=r"config\.yaml was edited after the run began"):
        us.run(out=tmp_path / "run", resume=True)


def test_a_checkpoint_without_a_digest_is_resumed_and_that_is_told(tmp_path: Path) -> None:
    run, listening = begun(tmp_path / "run"), Listening()
    (entry,) = (tmp_path / "run/checkpoint").glob("*.json")
    listing = json.loads(entry.read_text())
    del listing["notes"]["config"]  # as an older version wrote it
    entry.write_text(json.dumps(listing))
    assert us.run(out=tmp_path / "run", resume=True, rounds=2, observer=listening).summary["rounds"] == 2
    assert any("from an older version: edits of its config.yaml cannot be" in said for said in listening.said)
    edit(run, EDITS["learning rate"])
    with pytest.raises(UserError, match="was edited"):  # it has a digest by now
        us.run(out=tmp_path / "run", resume=True, rounds=3)
