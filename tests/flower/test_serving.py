"""The site's end: whatever comes in, an answer goes out."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from flwr.app import RecordDict

from understudy.engines.flower import serving, wire
from understudy.engines.flower.fetching import TooLarge, Withdrawn
from understudy.federation.exchange import Answer, Request

REQUEST = Request("run", "digest", "ash", "work", 3, 1, "", "", True, b"brief")


def site(folder: Path) -> Any:
    return SimpleNamespace(name="ash", folder=folder)


def reply(folder: Path, content: Callable[[], RecordDict], kind: str = wire.ASK) -> tuple[dict[str, Any], Any]:
    packed, told = serving._reply(site(folder), None, kind, content, 10**6)  # type: ignore[arg-type]
    return json.loads(wire.unpack(packed, 10**6)[0]), told


def raising(error: BaseException) -> Callable[..., Any]:
    def raise_it(*_: object) -> Any:
        raise error

    return raise_it


@pytest.mark.parametrize("error", [TooLarge(5), RecursionError(), KeyError("a record"), RuntimeError()])
def test_a_request_that_cannot_be_fetched_is_refused(tmp_path: Path, error: Exception) -> None:
    said, told = reply(tmp_path, raising(error))
    assert (said["outcome"], said["client"], told) == ("refused", "ash", None)
    assert "a record" not in json.dumps(said)


def test_a_header_without_end_is_refused(tmp_path: Path) -> None:
    said, _ = reply(tmp_path, lambda: wire.pack(b"[" * 100_000, b""))
    assert (said["outcome"], said["code"]) == ("refused", "bad-request")
    assert "header" in json.loads((tmp_path / "answers.jsonl").read_text())["why"]


def test_an_answer_that_breaks_down_is_a_refusal_and_the_details_stay_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "answer", raising(OSError("the record of a patient")))
    said, _ = reply(tmp_path, lambda: wire.pack_request(REQUEST))
    assert (said["outcome"], said["code"], "patient" in json.dumps(said)) == ("refused", "defect", False)
    assert "patient" in (tmp_path / "error.txt").read_text()


def test_what_was_answered_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "answer", lambda *_: Answer("ash", "done", "", "v", lambda: b"bytes"))
    said, told = reply(tmp_path, lambda: wire.pack_request(REQUEST))
    assert (said["outcome"], told) == ("done", (REQUEST, "done"))


@pytest.mark.parametrize("error", [Withdrawn(), httpx.ConnectError("gone"), ZeroDivisionError()])
def test_after_a_task_that_came_to_nothing_the_next_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    taken: list[object] = []

    def one(*words: object) -> None:
        taken.append(words)
        raise error

    class TwoTasks:
        another = None

        def __init__(self, *_: object):
            pass

        def coming(self, _: object) -> list[str]:
            return ["one", "two"]

    monkeypatch.setattr(serving, "Tasks", TwoTasks)
    monkeypatch.setattr(serving, "_one", one)
    door = SimpleNamespace(client=lambda *_: SimpleNamespace(close=lambda: None, SendTaskHeartbeat=lambda _: None))
    serving.serve(site(tmp_path), None, door, going=lambda: True, heard=lambda *_: None)  # type: ignore[arg-type]
    assert len(taken) == 2
