"""The SuperLink: Flower's process on the server's machine, on loopback, with one open run of ours."""

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.engines.flower.keys import Certificates
from understudy.engines.flower.processes import free_port, program, start, stop, wait_until_open
from understudy.engines.flower.quiet import switch_off, switches
from understudy.engines.flower.runtime import Door, Tasks, kept_alive, new_secret
from understudy.errors import UserError, resuming
from understudy.files import make_private

if TYPE_CHECKING:
    from flwr.serverapp import Grid

START_UP = 120.0  # seconds; a busy machine is slow

# What Flower requires a run to contain. None of it is ever executed: both ends run what is installed there.
APP = {
    "pyproject.toml": b"""[project]
name = "understudy-run"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "understudy"
[tool.flwr.app.components]
serverapp = "nothing:app"
clientapp = "nothing:app"
[tool.flwr.app.config]
""",
    "nothing.py": b'raise SystemExit("Start a site with `understudy client`; this bundle holds no program.")\n',
}


@dataclass(frozen=True)
class Link:
    door: Door
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        if self.process.poll() is not None:
            raise UserError(
                f"Flower's SuperLink ended ({self.process.returncode}); see {self.log}, then run again with "
                f"{resuming()}."
            )

    @contextmanager
    def in_sentences(self) -> Iterator["Link"]:
        """Reports what goes wrong between this process and the SuperLink in a sentence."""
        import httpx

        try:
            yield self
        except httpx.HTTPError as error:
            self.check()
            raise UserError(
                f"Flower's SuperLink does not answer ({error}); see {self.log}, then run again with {resuming()}."
            ) from None

    # ---- Control API

    def _control(self) -> Any:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        door = self.door
        certificates = None if door.ca is None else door.ca.read_bytes()
        return ControlHttpClient.from_server_address(
            door.address, door.ca is None, certificates, [RuntimeVersionHttpInterceptor(component_name="understudy")]
        )

    def register(self, nodes: dict[str, bytes]) -> None:
        """Registers sites that may join, by name and public key. Known ones stay; a changed key is an error."""
        from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest

        with closing(self._control()) as control:
            known = {node.name: bytes(node.public_key) for node in control.ListNodes(ListNodesRequest()).nodes_info}
            for name, key in nodes.items():
                if name in known and known[name] != key:
                    raise UserError(
                        f"The site '{name}' is registered with another key; give it a new name, or start with an "
                        "empty --state folder."
                    )
                if name not in known:
                    control.RegisterNode(RegisterNodeRequest(public_key=key, name=name))

    def _start_run(self) -> None:
        from flwr.cli.build import build_fab_from_files
        from flwr.common.serde import fab_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        bundle, _ = build_fab_from_files(APP)
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        with closing(self._control()) as control:
            control.StartRun(StartRunRequest(fab=fab_to_proto(fab)))

    # ---- Runtime API

    @contextmanager
    def run(self) -> Iterator["Grid"]:
        """A Flower run, open while this process works on it."""
        import httpx
        from flwr.common.serde import run_from_proto
        from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
        from flwr.supercore.task_identity import TaskIdentity

        from understudy.engines.flower.grid import LinkGrid

        self._start_run()
        token = next(Tasks(self.door, "server").coming(self._alive))
        grid = LinkGrid(self.door, token, ended=lambda: self.process.poll() is not None)
        client = grid._runtime_client
        try:
            with kept_alive(client):
                given = client.PullTaskInput(PullTaskInputRequest())
                TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
                TaskIdentity.node_id = given.context.node_id
                grid.set_run(run_from_proto(given.run))
                try:
                    yield grid
                finally:
                    if self.process.poll() is None:
                        with suppress(httpx.HTTPError):  # everything that matters is done
                            client.PushTaskOutput(PushTaskOutputRequest(sub_status="completed"))
        finally:
            grid.close()

    def _alive(self) -> bool:
        self.check()
        return True


@contextmanager
def superlink(state: Path, certificates: Certificates | None, *, port: int | None = None) -> Iterator[Link]:
    """``state`` holds its database, so that sites and their keys outlive it; no certificates, no TLS."""
    make_private(state)  # what sites sent passes through here
    switch_off(state / "flower")
    log = state / "superlink.log"
    ca = None if certificates is None else certificates.ca
    door = Door(port or free_port(), new_secret(state / "runtime.secret"), ca)
    process = start(_command(door, state, certificates), log=log, env=switches(state / "flower"))
    try:
        wait_until_open(door.address, process, log, seconds=START_UP)
        with Link(door, process, log).in_sentences() as link:
            yield link
    finally:
        stop(process)


def _command(door: Door, state: Path, certificates: Certificates | None) -> list[str]:
    command = [program("flower-superlink"), "--host", "127.0.0.1", "--port", str(door.port)]
    command += ["--database", str(state / "superlink.db"), "--isolation", "process"]
    command += ["--superexec-auth-secret-file", str(door.secret), "--disable-runtime-dependency-installation"]
    if certificates is None:
        return [*command, "--insecure"]
    command += ["--ssl-ca-certfile", str(certificates.ca), "--ssl-certfile", str(certificates.certificate)]
    return [*command, "--ssl-keyfile", str(certificates.key), "--enable-supernode-auth"]
