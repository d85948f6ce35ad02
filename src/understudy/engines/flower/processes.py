"""Programs that work for this process and end with it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from understudy.engines.with_parent import end_with_parent
from understudy.errors import UserError
from understudy.printable import printable

GRACE = 5.0  # seconds between asking a program to end and killing it


def program(name: str) -> str:
    """The path of a command installed alongside this Python."""
    return str(Path(sys.executable).parent / name)


def start(command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
    """Its output goes to ``log``. Our Ctrl-C does not reach it, and it ends when this process does."""
    log.parent.mkdir(parents=True, exist_ok=True)
    end_leftovers(log)
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            preexec_fn=partial(end_with_parent, os.getpid()),
        )
    _group(log).write_text(f"{process.pid} {Path(command[0]).name[:15]}")
    return process


def _group(log: Path) -> Path:
    return log.with_suffix(".group")


def end_leftovers(log: Path) -> None:
    """A killed parent takes the program with it, but not what that program had started (nginx's workers)."""
    until = time.monotonic() + GRACE
    while (left := _leftovers(log)) and time.monotonic() < until:
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.1)


def _leftovers(log: Path) -> list[int]:
    """Processes of the group started with this log that still have its name."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        group, name = _group(log).read_text().split()
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                before, _, after = status.read_text().rpartition(")")
                state, _, its_group = after.split()[:3]
                if its_group == group and before.endswith(f"({name}") and state != "Z":
                    found.append(int(status.parent.name))
    return found


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Asks, waits, kills; with everything it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            break


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def dialled(listen: str) -> tuple[str, int]:
    """Where this machine can reach what listens on ADDRESS:PORT; all addresses include loopback."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), int(port)


def wait_until_open(listen: str, process: "subprocess.Popen[bytes]", log: Path, *, seconds: float) -> None:
    """Waits until something listens on ADDRESS:PORT; a UserError if the program ends or takes too long."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError), socket.create_connection(dialled(listen), 1):
            return
        if process.poll() is not None:
            raise UserError(f"{Path(str(process.args[0])).name} ended at once; {last_line(log)} (see {log}).")  # type: ignore[index]
        if time.monotonic() > until:
            raise UserError(f"Nothing listens on {listen} after {seconds:.0f} s; see {log}.")
        time.sleep(0.1)


def last_line(log: Path) -> str:
    """A program's last output, as part of a sentence."""
    with contextlib.suppress(OSError):
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if lines:
            return f"it said: {printable(lines[-1])}"
    return "it said nothing"
