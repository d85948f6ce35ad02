"""Keeps a site in the federation. Nothing heavy is imported here: it waits, and restarts what has ended."""

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
ON_PURPOSE = (0, 2, 130)  # done, refused with a message, stopped by the user
AGAIN_AFTER = 2.0  # seconds
LOOK = 1.0  # seconds between checks whether the door has changed


def attend(name: str, *, server: str, keys: Path | None, folder: Path, command: Sequence[str], says: Says) -> int:
    """Keeps a site in the federation: Flower's node and an answering process, each restarted when it ends.

    ``command`` starts the answering process; ``--at-door PORT`` tells it where its tasks are. Returns its exit code
    once it ends on purpose.
    """
    port_of(server, "--server server.example.org:8443")
    known = ServerAddress(server, None, None) if keys is None else _site_keys(server, keys, name)
    if keys is None:
        says("--insecure: messages can be read and changed in transit, and nobody proves who they are.")
    with only_one(folder), supernode(folder, known, says) as node:
        while True:
            code = _worked(command, node)
            if code in ON_PURPOSE:
                return code
            if code is not None:
                says(f"The answering process of {name} ended with code {code}; restarting it.")
            time.sleep(AGAIN_AFTER)


def _worked(command: Sequence[str], node: Node) -> int | None:
    """The answering process's exit code; None if it was stopped because its tasks are now at another door."""
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
            raise UserError(f"Another process runs the site in {folder}; stop it or choose another --folder.") from None
        yield
