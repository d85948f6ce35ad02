"""SIGTERM ends a command as Ctrl-C does, whatever it is at, and nothing that it started outlives it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from in_a_fork import in_a_fork
from understudy.engines.workers import Workers

LONG = ["run", "digits-skewed", "data.limit=80", "clients=3", "model=softmax", "rounds=5000", "engine.workers=3"]


def processes(of: int) -> list[int]:
    """Of the session that this process leads, itself and those that have ended left out."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = status.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == of and state != "Z" and int(status.parent.name) != of:
            found.append(int(status.parent.name))
    return found


def begun(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "understudy", *LONG, "--out", "long"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stopped(process: "subprocess.Popen[str]") -> str:
    process.send_signal(signal.SIGTERM)  # to it alone, as systemd and docker do
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    wait_for(lambda: not processes(process.pid))
    return said


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="what is left over is looked for in /proc")
@pytest.mark.parametrize("moment", ["its workers start", "in mid-round"])
def test_a_run_that_is_told_to_end_says_how_it_goes_on(tmp_path: Path, moment: str) -> None:
    process = begun(tmp_path)
    metrics = tmp_path / "long/metrics.jsonl"
    if moment == "its workers start":
        wait_for(lambda: bool(processes(process.pid)))
    else:
        wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= 3)
    assert "Stopped. Resume with: understudy run --resume --out long" in stopped(process)


def test_a_command_that_is_told_to_end_while_it_loads_says_so(tmp_path: Path) -> None:
    process = begun(tmp_path)
    wait_for(lambda: "torch" in Path(f"/proc/{process.pid}/maps").read_text() or (tmp_path / "long").exists())
    assert "Stopped." in stopped(process)


def test_workers_that_are_ended_as_they_begin_do_end(tmp_path: Path) -> None:
    """A copy that got the signal before it is ready for it would be waited for for ever."""

    def work() -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)  # what a command answers is no business of its workers
        os.register_at_fork(after_in_child=lambda: time.sleep(0.2))
        Workers({}, None, 2).close()  # type: ignore[arg-type]

    assert in_a_fork(work, tmp_path, seconds=20).returncode == 0
