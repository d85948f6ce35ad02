"""Flower's Runtime API, from which both ends take their tasks.

Flower would start a program of its own for every task, and run the code that came with the run. Here a process that is
there already takes the task with a secret that it shares with its SuperLink or SuperNode, on loopback.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from flwr.supercore.runtime import RuntimeHttpClient

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
POLL = 0.1  # seconds between two looks for a task


@dataclass(frozen=True)
class Door:
    """Where the Runtime API of a process on this machine is."""

    port: int
    secret: Path
    ca: Path | None = None  # None: without TLS, which never leaves loopback

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self, role: str, *more: Any) -> "RuntimeHttpClient":
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
        from flwr.supercore.runtime import RuntimeHttpClient

        certificates = None if self.ca is None else self.ca.read_bytes()
        inside = [RuntimeVersionHttpInterceptor(component_name=role), *more]
        return RuntimeHttpClient.from_server_address(self.address, self.ca is None, certificates, inside)


def tokens(door: Door, kind: Literal["server", "client"], *, going: Callable[[], bool] = lambda: True) -> Iterator[str]:
    """One token a task, as they come, while ``going``. An API that does not answer is asked again."""
    import httpx
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.interceptors import SuperExecAuthHttpInterceptor

    task_type = TaskType.SERVER_APP if kind == "server" else TaskType.CLIENT_APP
    signed = SuperExecAuthHttpInterceptor(master_secret=door.secret.read_bytes(), protected_methods={ACQUIRE})
    client = door.client("SuperExec", signed)
    try:
        while going():
            try:
                found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[task_type]))
            except httpx.HTTPError:
                time.sleep(10 * POLL)
                continue
            if found.HasField("task") and found.token:
                yield found.token
            else:
                time.sleep(POLL)
    finally:
        client.close()


@contextmanager
def kept_alive(client: "RuntimeHttpClient") -> Iterator[None]:
    """The task counts as being worked on."""
    import httpx
    from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest
    from flwr.supercore.heartbeat import HeartbeatSender

    def beat() -> bool:
        # Flower's own raises Ctrl-C in this process when nobody wants the task any more.
        try:
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        except httpx.HTTPError:
            return False
        return True

    sender = HeartbeatSender(beat)
    sender.start()
    try:
        yield
    finally:
        if sender.is_running:
            sender.stop()


def new_secret(file: Path) -> Path:
    """Shared by two processes of one user on one machine."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as written:
        written.write(secrets.token_hex(32).encode())
    return file
