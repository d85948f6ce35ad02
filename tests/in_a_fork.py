"""Work in a process of its own that need not import everything again: a copy of this one."""

import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch._dynamo  # noqa: F401 - seconds that every optimiser's first step would cost in every copy


@dataclass(frozen=True)
class Done:
    returncode: int  # minus the signal that ended it, as subprocess has it
    stdout: str
    stderr: str


def in_a_fork(work: Callable[[], None], cwd: Path, seconds: float = 300) -> Done:
    """Runs it in ``cwd`` and tells how it ended; only the disk remembers what it did."""
    with tempfile.TemporaryDirectory() as kept:
        out, err = Path(kept, "out"), Path(kept, "err")
        child = os.fork()
        if child == 0:
            os._exit(_alone(work, cwd, out, err))
        status = _ended(child, seconds)
        return Done(os.waitstatus_to_exitcode(status), out.read_text(), err.read_text())


def understudy(*words: str, cwd: Path, code: int = 0, seconds_of_silence: float = 3600) -> Done:
    """The command with these words, as a person types it."""

    def command() -> None:
        from understudy import patience
        from understudy.cli import main

        patience.FIRST = seconds_of_silence  # a busy machine makes no test wordy
        sys.argv = ["understudy", *words]
        main()

    done = in_a_fork(command, cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def _alone(work: Callable[[], None], cwd: Path, out: Path, err: Path) -> int:
    """In the child: streams into files, and no way back into the tests."""
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = sys.__stdin__
    warnings.resetwarnings()  # what stops a test does not stop a person
    warnings.simplefilter("ignore", DeprecationWarning)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(stream), "w") for stream in (1, 2))
    code: object = 1
    try:
        os.chdir(cwd)
        work()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


def _ended(child: int, seconds: float) -> int:
    until = time.monotonic() + seconds
    while True:
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            return status
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"it did not end within {seconds} s")
        time.sleep(0.01)
