"""A whole federation on this machine, to try it out: server, proxy and one process per site, with TLS and keys."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from understudy.engines.choose import OpenEngine
from understudy.engines.flower.engine import Attends, Flower, ignore
from understudy.engines.flower.keys import Certificates, admit, make_node, make_server
from understudy.engines.flower.link import Link, superlink
from understudy.engines.flower.processes import free_port, last_line, start, stop
from understudy.engines.flower.proxy import nginx, proxy
from understudy.errors import UserError
from understudy.federation.exchange import Engine
from understudy.federation.method import Method
from understudy.federation.site import Site

MOST_SITES = 50


def loopback(
    folder: Path, names: Sequence[str], timeout: float, says: Callable[[str], None], attends: Attends = ignore
) -> OpenEngine:
    """``folder`` is the run's: sites read its config and keep their memory where every engine keeps it."""
    if len(names) > MOST_SITES:
        raise UserError(
            f"On this machine Flower runs three processes per site, so it takes at most {MOST_SITES} sites, "
            f"not {len(names)}; write engine=workers."
        )

    @contextmanager
    def opened(_: Mapping[str, Site], __: Method) -> Iterator[Engine]:
        home = folder / "federation"
        with ExitStack() as open_things:
            certificates = _keys(home, names)
            link = open_things.enter_context(superlink(home / "server", certificates))
            link.register(certificates.nodes())
            address = _front(open_things, home, certificates, link, says)
            started = {name: _site(open_things, folder, home, name, address) for name in names}
            grid = open_things.enter_context(link.run())
            engine = Flower(
                grid,
                home / "incoming",
                timeout,
                check=lambda: _check_running(link, started, home),
                attends=attends,
            )
            engine.wait_for(names, lambda missing: says(f"Waiting for {len(missing)} of {len(names)} sites."))
            yield engine

    return opened


def _check_running(link: Link, started: Mapping[str, "subprocess.Popen[bytes]"], home: Path) -> None:
    link.check()
    for name, process in started.items():
        if process.poll() is not None:
            log = home / name / "client.log"
            raise UserError(f"The process of {name} ended; {last_line(log)} (see {log}).")


def _keys(home: Path, names: Sequence[str]) -> Certificates:
    server = home / "server" / "keys"
    certificates = Certificates(server)
    if not certificates.ca.exists():
        certificates = make_server(server, [])
    for name in names:
        if not (home / name / name).exists():
            admit(server, make_node(home / name, name), name)
        (home / name / "ca.crt").write_bytes(certificates.ca.read_bytes())
    return certificates


def _front(
    open_things: ExitStack, home: Path, certificates: Certificates, link: Link, says: Callable[[str], None]
) -> str:
    """The address that sites dial: the proxy, as in a real federation, or the link itself if there is no nginx."""
    if nginx() is None:
        says("There is no nginx here, so sites connect to Flower's port directly; on loopback that is harmless.")
        return link.door.address
    listen = f"127.0.0.1:{free_port()}"
    open_things.enter_context(proxy(home / "proxy", listen, certificates, link.door))
    return listen


def _site(open_things: ExitStack, folder: Path, home: Path, name: str, address: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "understudy", "client", str(folder / "config.yaml"), "--name", name]
    command += ["--server", address, "--keys", str(home / name), "--folder", str(folder / "clients" / name)]
    process = start(command, log=home / name / "client.log")
    open_things.callback(stop, process)
    return process
