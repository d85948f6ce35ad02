"""A command that takes long says what it is at, once it has been silent for a while."""

import time
from pathlib import Path

import pytest

from in_a_fork import understudy
from understudy import patience
from understudy.data.splits.make import make_split
from understudy.models.zoo import FastPath


def test_dealing_records_out_to_many_clients_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*given: object, **named: object) -> object:
        time.sleep(1)
        return make_split(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("understudy.data.assemble.make_split", slow)
    words = ["data", "describe", "digits", "clients=7", "--json"]
    told = understudy(*words, cwd=tmp_path, seconds_of_silence=0.3)
    assert "Dealing records out to 7 clients … (" in told.stderr
    assert told.stdout.startswith("{")
    assert understudy(*words, cwd=tmp_path).stderr == "", "who does not wait is told nothing"


def test_building_the_network_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> FastPath:
        time.sleep(1)
        return "eager"

    monkeypatch.setattr("understudy.config.build.choose_fast_path", slow)
    told = understudy("run", "digits-skewed", "rounds=0", "--out", "run", cwd=tmp_path, seconds_of_silence=0.3)
    assert "Building the network … (" in told.stderr


def test_the_same_word_comes_again_only_after_a_while(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "FIRST", 0.05)
    monkeypatch.setattr(patience, "NEXT", 0.5)
    patience.doing("Counting")
    patience.begin()
    time.sleep(0.35)
    patience.doing("Writing")
    time.sleep(0.2)
    patience.over()
    time.sleep(0.2)
    assert [line.split(" …")[0] for line in capfd.readouterr().err.splitlines()] == ["Counting", "Writing"]
