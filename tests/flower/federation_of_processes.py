"""Real processes on loopback: the commands a person would type, in folders of their own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from understudy.engines.flower.keys import admit, make_node, make_server
from understudy.engines.flower.processes import free_port

FAULTY = Path(__file__).parent / "faulty.py"


@dataclass
class Federation:
    folder: Path
    sites: tuple[str, ...]
    port: int = field(default_factory=free_port)
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in ("faults", "logs"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        make_server(self.folder / "keys", [])
        for site in self.sites:
            home = self.folder / "sites" / site
            admit(self.folder / "keys", make_node(home, site))
            (home / "ca.crt").write_bytes((self.folder / "keys" / "ca.crt").read_bytes())

    def write_config(self, **words: Any) -> None:
        (self.folder / "config.yaml").write_text(yaml.safe_dump(words))

    def understudy(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        """One of our commands, its output in logs/NAME."""
        with (self.folder / "logs" / name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "understudy", *words],
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "FAULTS": str(self.folder / "faults")},
                start_new_session=True,
            )
        return self.running[name]

    def start_site(self, site: str, *more: str) -> None:
        where = ("--server", f"127.0.0.1:{self.port}", "--keys", f"sites/{site}", "--folder", f"sites/{site}/state")
        self.understudy(site, "client", "config.yaml", "--name", site, *where, *more)

    def wait_for_sites(self, seconds: float) -> None:
        """Until every site that was started has its records and would answer."""
        started = [site for site in self.sites if site in self.running]
        self.wait_until(lambda: all(f"{site} takes part" in self.log(site) for site in started), seconds)

    def start_server(self, *more: str) -> "subprocess.Popen[bytes]":
        listen = ("--listen", f"127.0.0.1:{self.port}", "--out", "run")
        return self.understudy("server", "server", "config.yaml", *listen, *more)

    def fault(self, round: int, site: str, order: str) -> None:
        (self.folder / "faults" / f"{round}-{site}").write_text(order)

    def release(self, round: int, site: str) -> None:
        """A site that was ordered to wait goes on."""
        (self.folder / "faults" / f"{round}-{site}.released").touch()

    def worked(self, round: int, site: str) -> bool:
        return (self.folder / "faults" / f"{round}-{site}.worked").exists()

    def log(self, name: str) -> str:
        return (self.folder / "logs" / name).read_text()

    def lines(self) -> dict[int, dict[str, Any]]:
        file = self.folder / "run" / "metrics.jsonl"
        if not file.exists():
            return {}
        whole = [text for text in file.read_text().split("\n")[:-1] if text]
        return {line["round"]: line for line in map(json.loads, whole)}

    def wait_until(self, happened: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not happened():
            ended = {name: process.poll() for name, process in self.running.items() if process.poll() not in (None, 0)}
            told = "\n".join(f"{name}: {self.log(name)[-800:]}" for name in self.running)
            assert not ended, f"ended: {ended}\n{told}"
            assert time.monotonic() < until, f"it did not happen within {seconds} s\n{told}"
            time.sleep(0.2)

    def finish(self, seconds: float) -> None:
        assert self.running["server"].wait(seconds) == 0, self.log("server")

    def stop(self) -> None:
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def child(parent: int, program: str) -> int:
    """The process that a command of ours started under that name."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and program in (status.parent / "cmdline").read_text():
                return int(status.parent.name)
    raise AssertionError(f"no {program} below {parent}")
