"""Processes that work for another one end with it."""

import os
import time
from pathlib import Path

from in_a_fork import in_a_fork
from understudy.engines.with_parent import end_with_parent


def test_a_child_whose_parent_is_gone_before_it_could_ask_ends_by_itself(tmp_path: Path) -> None:
    def orphan() -> None:
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            Path("asked").touch()
            end_with_parent(parent)
            Path("outlived").touch()
            os._exit(0)

    in_a_fork(orphan, tmp_path)
    deadline = time.monotonic() + 20
    while not (tmp_path / "asked").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    assert not (tmp_path / "outlived").exists()
