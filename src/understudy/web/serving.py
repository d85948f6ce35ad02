"""One port in a browser's reach: bound before anything else happens, guarded, and closed in good order."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from understudy.errors import UserError
from understudy.web.guard import LOOPBACK, Guard

EVERYWHERE = ("", "0.0.0.0", "::", "[::]", "*")


@dataclass
class Port:
    """Where pages are served. Bound when made, so that a port in use is noticed before any work begins."""

    number: int
    host: str = "127.0.0.1"
    option: str = "--port"  # how the user chose the number

    def __post_init__(self) -> None:
        if self.host in EVERYWHERE:
            raise UserError(
                "--host must be the one address at which browsers reach this machine, since a page answers to no "
                "other; leave it out to serve this machine only."
            )
        if ":" in self.host and not self.host.startswith("["):
            self.host = f"[{self.host}]"
        self._socket = _bound(self.host, self.number, self.option)
        self.number = self._socket.getsockname()[1]  # 0 asks for any port that is free

    def serve(self, app: ASGIApp, says: Callable[[str], None], *, closing: Callable[[], None] = lambda: None) -> None:
        """Until Ctrl-C or SIGTERM. ``closing`` is called then, and ends what would never end by itself."""
        self._server(app, says, closing).run(sockets=[self._socket])

    @contextmanager
    def serving(
        self, app: ASGIApp, says: Callable[[str], None], *, closing: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Beside other work, in a thread."""
        server = self._server(app, says, closing)
        thread = threading.Thread(target=server.run, args=([self._socket],), name="pages", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(timeout=5)

    def _server(self, app: ASGIApp, says: Callable[[str], None], closing: Callable[[], None]) -> uvicorn.Server:
        guard = Guard(app, self.number, self.host)
        guard.used = lambda: says(f"The page was opened. For another browser: {guard.link}")
        if self.host not in LOOPBACK:
            says(f"{self.host} is not this machine alone: what the page shows crosses the network unencrypted.")
        says(f"Open {guard.link}")
        return _Server(guard, closing)


class _Server(uvicorn.Server):
    """It logs nothing: a request's address may hold a token."""

    def __init__(self, app: ASGIApp, closing: Callable[[], None]):
        super().__init__(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                log_level="critical",
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=2,
            )
        )
        self._closing = closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing()
        await super().shutdown(sockets)


def _bound(host: str, port: int, option: str) -> socket.socket:
    inside = host.strip("[]")
    found = socket.socket(socket.AF_INET6 if ":" in inside else socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((inside, port))
        found.listen(128)
    except (OSError, OverflowError) as error:
        with suppress(OSError):
            found.close()
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{option} {port} of {host} cannot be used ({why}); choose another {option}.") from None
    return found
