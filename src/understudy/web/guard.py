"""Who may see a page: whoever has the link from the terminal, in a browser that was not led here by another site.

The link holds a token that works once. It is exchanged for a cookie, which scripts cannot read (HttpOnly) and which
other sites' requests do not carry (SameSite=Strict). Cookies do not tell ports apart, so the name of the cookie does.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTRANCE = "/enter"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
READING = ("GET", "HEAD")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# A redirect would not do: if the link was clicked on a page of another site, the cookie would not go along with it.
WELCOME = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><title>Understudy</title>
<link rel="icon" href="data:,">
<p><a href="/">Go on to the page.</a></p></html>
"""


@dataclass
class Guard:
    """Stands in front of the pages of one port; ``host`` is the address it listens on, without the port."""

    app: ASGIApp
    port: int
    host: str = "127.0.0.1"
    used: Callable[[], None] = lambda: None  # called when the link was used, and a new one holds
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), init=False, repr=False)

    @property
    def link(self) -> str:
        """What a person opens; it works once."""
        return f"http://{self.host}:{self.port}{ENTRANCE}?token={self.token}"

    @property
    def cookie(self) -> str:
        return f"understudy-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no page here uses web sockets; one that is not accepted is closed
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(Request(scope))
        await (self.app if answer is None else answer)(scope, receive, guarded)

    def _answer(self, request: Request) -> Response | None:
        """None: the request may pass."""
        headers = request.headers
        if headers.get("host", "").lower() not in self._names():
            return _refused("This page answers only to the address printed on the terminal.")
        if not self._own(request.method, headers):
            return _refused("This request comes from another site, or from a page of another port.")
        if request.scope["path"] == ENTRANCE:
            return self._entered(request)
        if not self._knows(request):
            return _refused("Open this page with the link printed on the terminal; it works once, in one browser.", 401)
        return None

    def _entered(self, request: Request) -> Response:
        if request.method not in READING:
            return _refused("A link is opened, nothing is sent to it.", 405)
        if not _same(request.query_params.get("token", ""), self.token):
            if self._knows(request):  # the same browser opened its link again
                return HTMLResponse(WELCOME)
            return _refused("This link is wrong, or was used before: the newest one is on the terminal.", 401)
        response = HTMLResponse(WELCOME)
        if request.method == "GET":  # a program that only asks whether the link is good does not use it up
            self.token = secrets.token_urlsafe(24)
            response.set_cookie(self.cookie, self._session, httponly=True, samesite="strict", path="/")
            self.used()
        return response

    def _knows(self, request: Request) -> bool:
        return _same(request.cookies.get(self.cookie, ""), self._session)

    def _names(self) -> tuple[str, ...]:
        names = LOOPBACK if self.host in LOOPBACK else (self.host,)
        return tuple(f"{name}:{self.port}".lower() for name in names)

    def _own(self, method: str, headers: Headers) -> bool:
        """Whether one of our own pages asks, or a person."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if site not in (None, "none", "same-origin"):
            # A link on another page may lead here: without the cookie it shows nothing.
            return method in READING and headers.get("sec-fetch-mode") == "navigate" and origin is None
        if origin is None:
            return method in READING
        # With `no-referrer` a browser calls the origin of a form of our own "null", and tells by `Sec-Fetch-Site`.
        return origin == f"http://{headers['host']}".lower() or (origin == "null" and site == "same-origin")


def _same(given: str, wanted: str) -> bool:
    """In constant time."""
    return secrets.compare_digest(given.encode(), wanted.encode())


def _refused(sentence: str, status: int = 403) -> Response:
    return PlainTextResponse(sentence, status)
