"""Who gets in and who does not, with a real SuperLink behind a real nginx."""

import resource
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from understudy.engines.flower.dialling import ServerAddress
from understudy.engines.flower.keys import Certificates, admit, make_node, make_server
from understudy.engines.flower.link import Link, superlink
from understudy.engines.flower.node import supernode
from understudy.engines.flower.processes import free_port
from understudy.engines.flower.proxy import nginx, proxy

pytestmark = pytest.mark.skipif(nginx() is None, reason="nginx is not installed")


@dataclass(frozen=True)
class Opened:
    folder: Path
    certificates: Certificates
    link: Link
    address: str


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("a folder of trust")
    certificates = make_server(folder / "keys", [])
    admit(certificates.folder, make_node(folder / "known", "ash"))
    address = f"127.0.0.1:{free_port()}"
    with superlink(folder / "server", certificates) as link:
        link.register(certificates.nodes())
        with proxy(folder / "proxy", address, certificates, link.door):
            yield Opened(folder, certificates, link, address)


def ends(server: ServerAddress, folder: Path) -> str:
    """What a node says when it is turned away."""
    said: list[str] = []
    with supernode(folder, server, said.append):
        until = time.monotonic() + 90
        while not said and time.monotonic() < until:
            time.sleep(0.2)
    assert said, "it was let in"
    return said[0] + (folder / "supernode.log").read_text()


def test_a_node_whose_key_is_not_known_is_refused(opened: Opened, tmp_path: Path) -> None:
    make_node(tmp_path, "stranger")
    said = ends(ServerAddress(opened.address, opened.certificates.ca, tmp_path / "stranger"), tmp_path / "site")
    assert "305" in said or "refused" in said.lower() or "not registered" in said.lower()


def test_a_node_that_trusts_another_authority_does_not_connect(opened: Opened, tmp_path: Path) -> None:
    other = make_server(tmp_path / "other", [])
    with supernode(tmp_path / "site", ServerAddress(opened.address, other.ca, opened.folder / "known" / "ash"), print):
        log, until = tmp_path / "site" / "supernode.log", time.monotonic() + 60
        while time.monotonic() < until and not (log.exists() and "ertificate" in log.read_text()):
            time.sleep(0.2)
    assert "ertificate" in log.read_text()


@pytest.mark.parametrize(
    "path",
    ["/v1/control/start-run", "/v1/control/list-runs", "/v1/runtime/acquire-task", "/v1/fleetless", "/", "/docs"],
)
def test_from_outside_nothing_but_the_nodes_path_is_there(opened: Opened, path: str) -> None:
    trusted = ssl.create_default_context(cafile=str(opened.certificates.ca))
    assert httpx.post(f"https://{opened.address}{path}", verify=trusted, content=b"").status_code == 403


def test_the_nodes_path_wants_a_signature(opened: Opened) -> None:
    trusted = ssl.create_default_context(cafile=str(opened.certificates.ca))
    answer = httpx.post(f"https://{opened.address}/v1/fleet/pull-messages", verify=trusted, content=b"")
    assert 400 <= answer.status_code < 500
    assert httpx.get(f"https://{opened.address}/v1/fleet/pull-messages", verify=trusted).status_code == 403


def test_a_stranger_cannot_submit_a_run(opened: Opened) -> None:
    from dataclasses import replace

    outside = replace(opened.link.door, port=int(opened.address.rpartition(":")[2]))
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        replace(opened.link, door=outside)._start_run()


def test_on_the_machine_itself_a_task_is_only_for_who_knows_the_secret(opened: Opened) -> None:
    from flwr.proto.runtime_pb2 import AcquireTaskRequest

    client = opened.link.door.client("SuperExec")
    with pytest.raises(httpx.HTTPStatusError, match=r"401|403"):
        client.AcquireTask(AcquireTaskRequest(supported_task_types=["flwr-serverapp"]))
    client.close()


def test_plain_http_is_not_spoken(opened: Opened) -> None:
    assert httpx.post(f"http://{opened.address}/v1/fleet/pull-messages", content=b"").status_code == 400


def few_files() -> None:
    """As most machines have it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_nginx_takes_the_config_without_a_warning(opened: Opened) -> None:
    found = nginx()
    assert found is not None
    said = subprocess.run(
        [found, "-t", "-p", str(opened.folder / "proxy"), "-c", str(opened.folder / "proxy" / "nginx.conf")],
        capture_output=True,
        text=True,
        preexec_fn=few_files,
    )
    assert (said.returncode, "warn" in said.stderr) == (0, False), said.stderr


def test_other_people_of_the_machine_cannot_look_at_what_sites_sent(opened: Opened) -> None:
    assert (opened.folder / "server").stat().st_mode & 0o077 == 0


def online(link: Link) -> list[str]:
    from flwr.proto.control_pb2 import ListNodesRequest

    control = link._control()
    try:
        return [node.name for node in control.ListNodes(ListNodesRequest()).nodes_info if node.status == "online"]
    finally:
        control.close()


def test_a_stolen_key_is_turned_away_as_long_as_its_owner_is_there(opened: Opened, tmp_path: Path) -> None:
    stolen = shutil.copy(opened.folder / "known" / "ash", tmp_path / "ash")
    mine = ServerAddress(opened.address, opened.certificates.ca, opened.folder / "known" / "ash")
    with supernode(tmp_path / "owner", mine, print) as owner:
        until = time.monotonic() + 60
        while "ash" not in online(opened.link) and time.monotonic() < until:
            time.sleep(0.2)
        before = owner.pid
        said = ends(ServerAddress(opened.address, opened.certificates.ca, Path(stolen)), tmp_path / "thief")
        assert "turned ash away" in said
        assert online(opened.link) == ["ash"]
        assert owner.pid == before, "its owner was not sent away"
