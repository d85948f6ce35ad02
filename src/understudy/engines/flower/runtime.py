"""Flower's Runtime API, from which both ends fetch their tasks.

Flower would start a new program for every task, and run the code that came with the run. Here a process that is already
running fetches the task with a secret that it shares with its SuperLink or SuperNode, on loopback.
"""

import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from flwr.supercore.runtime import RuntimeHttpClient

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
POLL = 0.1  # seconds between checks for a task


@dataclass(frozen=True)
class Door:
    """Where to reach the Runtime API of a process on this machine."""

    port: int
    secret: Path
    ca: Path | None = None  # None: no TLS, only ever on loopback

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self, role: str, *more: Any) -> "RuntimeHttpClient":
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
        from flwr.supercore.runtime import RuntimeHttpClient

        certificates = None if self.ca is None else self.ca.read_bytes()
        inside = [RuntimeVersionHttpInterceptor(component_name=role), *more]
        return RuntimeHttpClient.from_server_address(self.address, self.ca is None, certificates, inside)


class Tasks:
    """Tasks that a SuperLink or SuperNode has for us, each as the token that opens it."""

    def __init__(self, door: Door, kind: Literal["server", "client"]):
        from flwr.supercore.constant import TaskType
        from flwr.supercore.interceptors import SuperExecAuthHttpInterceptor

        self._type = TaskType.SERVER_APP if kind == "server" else TaskType.CLIENT_APP
        secret = door.secret.read_bytes()
        signed = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={ACQUIRE})
        self._client = door.client("SuperExec", signed)
        self._early = deque[str]()
        self._lock = threading.Lock()

    def coming(self, going: Callable[[], bool]) -> Iterator[str]:
        """One after another, while ``going``."""
        try:
            while going():
                if self._early or self.another():
                    yield self._early.popleft()
                else:
                    time.sleep(POLL)
        finally:
            self._client.close()

    def another(self) -> bool:
        """Whether there is one more; it is kept for its turn. An API that does not answer has none."""
        import httpx
        from flwr.proto.runtime_pb2 import AcquireTaskRequest

        with self._lock:
            if self._early:
                return True
            try:
                found = self._client.AcquireTask(AcquireTaskRequest(supported_task_types=[self._type]))
            except httpx.HTTPError:
                time.sleep(10 * POLL)
                return False
            if found.HasField("task") and found.token:
                self._early.append(found.token)
            return bool(self._early)


@contextmanager
def kept_alive(client: "RuntimeHttpClient") -> Iterator[None]:
    """Keeps telling Flower that the task is being worked on."""
    import httpx
    from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest
    from flwr.supercore.heartbeat import HeartbeatSender

    def beat() -> bool:
        # Flower's own version raises Ctrl-C in this process once the task is no longer wanted.
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
