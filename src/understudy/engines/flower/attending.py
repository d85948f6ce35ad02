"""Keeps a site in the federation. Nothing heavy is imported here: it waits, and starts what has ended."""

import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from understudy.engines.flower.dialling import ServerAddress
from understudy.engines.flower.node import Node, supernode
from understudy.engines.flower.proxy import port_of
from understudy.engines.with_parent import end_with_parent
from understudy.errors import UserError
from understudy.files import make_private

Says = Callable[[str], None]
ON_PURPOSE = (0, 2, 130)  # done, told why not, stopped by a person
AGAIN_AFTER = 2.0  # seconds
LOOK = 1.0  # seconds between two looks whether the door has changed


def attend(name: str, *, server: str, keys: Path | None, folder: Path, command: Sequence[str], says: Says) -> int:
    """Keeps a site in the federation: Flower's node, and a process that answers, each started anew when it ends.

    ``command`` starts the process that answers; ``--at-door PORT`` tells it where its tasks are. Its exit code is
    given where it ended on purpose.
    """
    port_of(server, "--server server.example.org:8443")
    known = ServerAddress(server, None, None) if keys is None else _site_keys(server, keys, name)
    if keys is None:
        says("--insecure: what is sent can be read and changed on its way, and nobody proves who they are.")
    with only_one(folder), supernode(folder, known, says) as node:
        while True:
            code = _worked(command, node)
            if code in ON_PURPOSE:
                return code
            if code is not None:
                says(f"The process that answers for {name} ended with code {code}; it starts again.")
            time.sleep(AGAIN_AFTER)


def _worked(command: Sequence[str], node: Node) -> int | None:
    """How the process that answers ended; None where it was stopped, since its tasks are at another door now."""
    door = node.door
    worker = subprocess.Popen([*command, "--at-door", str(door.port)], preexec_fn=partial(end_with_parent, os.getpid()))
    try:
        while node.door == door:
            with suppress(subprocess.TimeoutExpired):
                return worker.wait(LOOK)
        return None
    finally:
        worker.terminate()
        worker.wait()


def _site_keys(server: str, keys: Path, name: str) -> ServerAddress:
    found = ServerAddress(server, keys / "ca.crt", keys / name)
    if not (keys / name).is_file():
        raise UserError(f"There is no key {keys / name}; make it with `understudy keys client {name} --keys {keys}`.")
    if not (keys / "ca.crt").is_file():
        raise UserError(f"There is no {keys / 'ca.crt'}; ask the server's operator for it.")
    return found


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Two processes of one site would spend its budget twice."""
    make_private(folder)  # replies, memory, errors that may quote records
    with (folder / ".site-lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"Another process works for the site in {folder}; stop it, or choose --folder.") from None
        yield
