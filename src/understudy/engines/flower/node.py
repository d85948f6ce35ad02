"""The SuperNode: Flower's process at a site, restarted whenever it ends."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from understudy.engines.flower.dialling import ServerAddress, reason, silence
from understudy.engines.flower.processes import free_port, is_free, program, start, stop
from understudy.engines.flower.quiet import switch_off, switches
from understudy.engines.flower.runtime import Door, new_secret
from understudy.printable import printable

SECRET = "runtime.secret"  # in the site's folder
AGAIN_AFTER = 15.0  # seconds: for up to a minute after a crash the server thinks the key is still connected
LOOK_OUT = 20.0  # seconds between checks whether the server answers at all


class Node:
    def __init__(self, door: Door, server: ServerAddress, folder: Path, says: Callable[[str], None]):
        self.door = door  # changes after a restart if its port was taken
        self._server, self._folder, self._says = server, folder, says
        self._log = folder / "supernode.log"
        self._ending = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name="supernode", daemon=True)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def _supervise(self) -> None:
        while not self._ending.is_set():
            try:
                trouble = self._once()
            except Exception as error:  # no such program, a full disk: reported and retried, since this thread is alone
                trouble = (
                    f"Flower's SuperNode cannot be kept running ({type(error).__name__}: {printable(str(error))})."
                )
                self._stop()
            if not self._ending.is_set():
                self._says(f"{trouble} (See {self._log}; trying again in {AGAIN_AFTER:.0f} s.)")
                self._ending.wait(AGAIN_AFTER)

    def _once(self) -> str:
        """Runs it from start to end; returns why it ended."""
        if not is_free(self.door.port):  # taken in the meantime
            self.door = replace(self.door, port=free_port())
        before = self._log.stat().st_size if self._log.exists() else 0
        self._process = start(self._command(), log=self._log, env=switches(self._folder / "flower"))
        self._watch(self._process)
        return reason(self._server, self._log.read_bytes()[before:].decode(errors="replace"))

    def _stop(self) -> None:
        if self._process is not None:
            stop(self._process)

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Until it ends; reports a server that does not answer, since the node itself just keeps trying."""
        look, told = time.monotonic() + LOOK_OUT / 4, None
        while process.poll() is None and not self._ending.wait(0.2):
            if time.monotonic() < look:
                continue
            trouble = silence(self._server)
            if trouble != told:
                self._says(trouble or f"{self._server.address} answers.")
            told, look = trouble, time.monotonic() + LOOK_OUT

    def _command(self) -> list[str]:
        command = [program("flower-supernode"), "--superlink", self._server.address, "--host", "127.0.0.1"]
        command += ["--port", str(self.door.port), "--isolation", "process"]
        command += ["--superexec-auth-secret-file", str(self.door.secret)]
        if self._server.ca is None:
            return [*command, "--insecure"]
        command += ["--root-certificates", str(self._server.ca)]
        return [*command, "--auth-supernode-private-key", str(self._server.key)]

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._stop()
        self._thread.join()


@contextmanager
def supernode(folder: Path, server: ServerAddress, says: Callable[[str], None]) -> Iterator[Node]:
    folder.mkdir(parents=True, exist_ok=True)
    switch_off(folder / "flower")
    node = Node(Door(free_port(), new_secret(folder / SECRET)), server, folder, says)
    node.begin()
    try:
        yield node
    finally:
        node.end()
