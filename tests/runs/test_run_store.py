"""Runs kept by digest: found again wherever the store lies, run again if damaged, shared by whoever asks."""

import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from in_a_fork import Done, in_a_fork
from understudy.config.resolve import resolve
from understudy.runs.run_store import Diverged, FinishedRun, RunStore, StoredConfig
from understudy.runs.watching import Observer

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "clients": 2, "limit": 60},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "batch": 16, "lr": 0.1}},
    "engine": {"name": "inline"},
}


class Heard(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.rounds = self.done = 0

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None:
        self.done = done

    def says(self, sentence: str) -> None:
        self.said.append(sentence)

    def scored(self, line: dict[str, Any]) -> None:
        self.rounds += 1


def stored(**changes: Any) -> StoredConfig:
    return StoredConfig(resolve(SMALL, changes))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    store = RunStore(tmp_path_factory.mktemp("store"))
    store.play(stored(), Observer())
    return store


def copy_of(store: RunStore, to: Path) -> RunStore:
    shutil.copytree(store.root, to)
    return RunStore(to)


def test_a_run_is_found_by_what_it_computes_and_by_nothing_else() -> None:
    assert stored().digest == stored(engine={"name": "workers", "workers": 3}).digest
    others: list[dict[str, Any]] = [
        {"seed": 1},
        {"method.local.lr": 0.2},
        {"data.limit": 61},
        {"method.rounds": 2},
        {"with": ["fedssyn"]},
    ]
    digests = {stored().digest, *(stored(**changes).digest for changes in others)}
    assert len(digests) == 1 + len(others)


def test_a_generator_is_named_by_its_run_wherever_the_store_is() -> None:
    def drawing_on(folder: str) -> str:
        return stored(**{"with": [{"name": "fedssyn", "from_run": folder}]}).digest

    assert drawing_on("here/runs/fedavg-1") == drawing_on("there/runs/fedavg-1") != drawing_on("here/runs/fedavg-2")


def test_what_is_there_is_not_run_again(kept: RunStore, tmp_path: Path) -> None:
    moved, heard = copy_of(kept, tmp_path / "moved"), Heard()
    found = moved.play(stored(), heard)
    assert isinstance(found, FinishedRun)
    assert (heard.rounds, found.metrics[-1]["round"]) == (0, 1)
    assert not (found.folder / "clients").exists()


@pytest.mark.parametrize("file", ["metrics.jsonl", "summary.json", "config.yaml"])
def test_a_run_that_was_changed_after_it_finished_is_run_again(kept: RunStore, tmp_path: Path, file: str) -> None:
    store, heard = copy_of(kept, tmp_path / "store"), Heard()
    before = kept.find(stored())
    place = store.folder(stored()) / file
    place.write_text(place.read_text().replace("0", "9", 1))
    assert store.find(stored()) is None
    found = store.play(stored(), heard)
    assert heard.rounds == 2, "the opening and one round"
    assert "is not as it was when it finished; it is run again." in heard.said[0]
    assert isinstance(found, FinishedRun)
    assert isinstance(before, FinishedRun)
    assert [line["accuracy"] for line in found.metrics] == [line["accuracy"] for line in before.metrics]


class Impatient(Heard):
    """Presses Ctrl-C after the first round."""

    def scored(self, line: dict[str, Any]) -> None:
        super().scored(line)
        if line["round"] == 1:
            raise KeyboardInterrupt


def test_a_run_that_was_interrupted_is_not_taken_for_finished_and_goes_on(tmp_path: Path) -> None:
    store, asked, later = RunStore(tmp_path), stored(**{"method.rounds": 3}), Heard()
    with pytest.raises(KeyboardInterrupt):
        store.play(asked, Impatient())
    assert store.find(asked) is None
    found = store.play(asked, later)
    assert isinstance(found, FinishedRun)
    assert [line["round"] for line in found.metrics] == [0, 1, 2, 3]
    assert later.done == 1, "the first round is not run again"
    straight = RunStore(tmp_path / "straight").play(asked, Observer())
    assert isinstance(straight, FinishedRun)
    assert [line["loss"] for line in found.metrics] == [line["loss"] for line in straight.metrics]


class Slow(Observer):
    """Stops after the first round until somebody waits for the run."""

    def __init__(self, there: Path):
        self.begun, self.awaited = there / "begun", there / "awaited"

    def scored(self, line: dict[str, Any]) -> None:
        if line["round"] == 1:
            self.begun.touch()
            until = time.monotonic() + 60
            while not self.awaited.exists() and time.monotonic() < until:
                time.sleep(0.01)


class Waiting(Heard):
    def __init__(self, there: Path):
        super().__init__()
        self.awaited = there / "awaited"

    def says(self, sentence: str) -> None:
        super().says(sentence)
        self.awaited.touch()


def test_who_waits_for_another_process_finds_the_run_finished_and_leaves_it_alone(tmp_path: Path) -> None:
    asked, done, slow = stored(**{"method.rounds": 2}), list[Done](), Slow(tmp_path)
    store = RunStore(tmp_path / "store")
    other = threading.Thread(
        target=lambda: done.append(in_a_fork(lambda: print(store.play(asked, slow) is not None), tmp_path, 120))
    )
    other.start()
    while not slow.begun.exists():
        assert other.is_alive(), done
        time.sleep(0.01)
    mine = Waiting(tmp_path)
    found = store.play(asked, mine)
    other.join()
    assert isinstance(found, FinishedRun)
    assert done[0].returncode == 0, done[0].stderr
    assert mine.said == [f"Another process is working in {store.folder(asked)}; waiting for it to end."]
    assert mine.rounds == 0


def test_divergence_is_kept_too(tmp_path: Path) -> None:
    store, asked, heard = RunStore(tmp_path), stored(**{"method.local.lr": 1e30, "method.rounds": 3}), Heard()
    first = store.play(asked, Observer())
    assert isinstance(first, Diverged)
    assert store.play(asked, heard) == first
    assert heard.rounds == 0


def test_a_run_whose_memories_are_needed_is_run_again_if_they_were_not_kept(kept: RunStore, tmp_path: Path) -> None:
    store, heard = copy_of(kept, tmp_path / "store"), Heard()
    needed = replace(stored(), keep_all=True)
    assert isinstance(store.find(stored()), FinishedRun)
    assert store.find(needed) is None
    found = store.play(needed, heard)
    assert isinstance(found, FinishedRun)
    assert store.find(needed) == found
    assert heard.said[0].endswith("kept no memories of its clients; it is run again.")
    assert store.play(stored(), Observer()) == found, "who does not need them takes it as it is"


def test_a_mark_of_another_make_is_not_trusted(kept: RunStore, tmp_path: Path) -> None:
    store = copy_of(kept, tmp_path / "store")
    mark = store.folder(stored()) / "finished.json"
    for text in ("[]", "{}", "no json", json.dumps({"sha256": {"metrics.jsonl": "0"}})):
        mark.write_text(text)
        assert store.find(stored()) is None
