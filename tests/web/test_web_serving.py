"""A port for pages: taken before any work begins, guarded, and let go in the end."""

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from understudy.errors import UserError
from understudy.web.serving import Port


async def page(_: Request) -> Response:
    return PlainTextResponse("inside")


def test_the_page_is_reached_with_the_link_that_was_told_and_no_longer_when_the_work_is_done() -> None:
    told: list[str] = []
    port = Port(0)
    with port.serving(Starlette(routes=[Route("/", page)]), told.append):
        at = f"http://127.0.0.1:{port.number}"
        assert told[0].startswith(f"Open {at}/enter?token=")
        with httpx.Client() as browser:
            assert browser.get(at).status_code == 401
            assert browser.get(told[0].removeprefix("Open ")).status_code == 200
            answer = browser.get(at)
        assert answer.text == "inside"
        assert "server" not in answer.headers
        assert told[1].startswith(f"The page was opened. For another browser: {at}/enter?token=")
    with pytest.raises(httpx.ConnectError):
        httpx.get(at)


def test_what_never_ends_by_itself_is_told_when_to() -> None:
    """Otherwise a browser that listens would hold the command up."""
    ended = asyncio.Event()

    async def endless(_: Request) -> Response:
        async def words() -> AsyncIterator[str]:
            yield "begun\n"
            await ended.wait()
            yield "ended\n"

        return StreamingResponse(words())

    told: list[str] = []
    port = Port(0)
    with httpx.Client() as browser:
        with port.serving(Starlette(routes=[Route("/", endless)]), told.append, closing=ended.set):
            browser.get(told[0].removeprefix("Open "))
            stream = browser.stream("GET", f"http://127.0.0.1:{port.number}/")
            lines = stream.__enter__().iter_lines()
            assert next(lines) == "begun"
        assert next(lines) == "ended"
        stream.__exit__(None, None, None)


def test_a_port_in_use_is_named_before_anything_begins() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(UserError) as told:
            Port(taken, option="--view")
    assert str(told.value) == (
        f"--view {taken} of 127.0.0.1 cannot be used (Address already in use); choose another --view."
    )


def test_a_port_that_does_not_exist_gets_a_sentence() -> None:
    with pytest.raises(UserError, match=r"^--port 70000 of 127\.0\.0\.1 cannot be used"):
        Port(70000)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_every_address_at_once_is_refused(host: str) -> None:
    with pytest.raises(UserError, match="--host must be the one address"):
        Port(0, host)


def test_an_address_of_the_sixth_version_is_written_in_brackets() -> None:
    told: list[str] = []
    with Port(0, "::1").serving(Starlette(routes=[Route("/", page)]), told.append):
        assert told[0].startswith("Open http://[::1]:")
        assert httpx.get(told[0].removeprefix("Open ")).status_code == 200


def test_the_network_is_warned_of() -> None:
    told: list[str] = []
    with Port(0, "127.0.0.2").serving(Starlette(routes=[Route("/", page)]), told.append):
        pass
    assert told[0] == "127.0.0.2 is not this machine alone: what the page shows crosses the network unencrypted."
