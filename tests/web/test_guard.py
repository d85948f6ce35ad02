"""Who may see a page: the link from the terminal opens it once; other sites, names and ports do not get in."""

from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from without_a_browser import Visitor

from understudy.web.guard import Guard

PORT = 8123
HERE = f"http://127.0.0.1:{PORT}"


async def page(request: Request) -> Response:
    return PlainTextResponse(f"secret, {request.method}")


def guard(host: str = "127.0.0.1") -> Guard:
    return Guard(Starlette(routes=[Route("/", page, methods=["GET", "POST"])]), PORT, host)


def browser(behind: Guard, *, at: str = HERE) -> Visitor:
    return Visitor(behind, at)


def link_on(behind: Guard) -> str:
    """Without the host."""
    return behind.link.removeprefix(f"http://{behind.host}:{PORT}")


def inside(behind: Guard, *, at: str = HERE) -> Visitor:
    client = browser(behind, at=at)
    assert client.get(link_on(behind)).status_code == 200
    return client


def test_the_link_opens_the_page_and_works_once() -> None:
    behind = guard()
    link, first = behind.link, browser(behind)
    assert first.get("/").status_code == 401
    welcome = first.get(link)
    assert welcome.status_code == 200
    assert 'content="0; url=/"' in welcome.text
    assert first.get("/").text == "secret, GET"
    second = browser(behind)
    assert second.get(link).status_code == 401
    assert second.get("/").status_code == 401
    assert second.get(behind.link).status_code == 200, "the terminal shows a new link"
    assert first.get("/").text == "secret, GET", "which shuts nobody out"
    assert first.get(link).status_code == 200, "nor one who opens his link again"


def test_a_new_link_is_told_when_the_first_was_used() -> None:
    behind, told = guard(), []
    behind.used = lambda: told.append(behind.link)
    first = behind.link
    browser(behind).ask("HEAD", first)
    assert told == []
    browser(behind).get(first)
    assert told == [behind.link]
    assert told != [first]


def test_scripts_and_other_sites_do_not_get_the_cookie_and_other_ports_have_other_ones() -> None:
    behind = guard()
    said = browser(behind).get(behind.link).headers["set-cookie"]
    name, *flags = said.split("; ")
    assert name.startswith(f"understudy-{PORT}=")
    assert {flag.lower() for flag in flags} == {"httponly", "path=/", "samesite=strict"}
    token = parse_qs(urlsplit(behind.link).query)["token"][0]
    assert token not in said


@pytest.mark.parametrize("token", ["", "wrong", "ä€", "%00"])
def test_a_wrong_token_opens_nothing(token: str) -> None:
    behind = guard()
    client = browser(behind)
    before = behind.link
    answer = client.get("/enter", params={"token": token})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert behind.link == before


@pytest.mark.parametrize("value", ["", "x", '"', ";;;"])
def test_a_wrong_cookie_opens_nothing(value: str) -> None:
    client = browser(guard())
    assert client.get("/", headers={"cookie": f"understudy-{PORT}={value}"}).status_code == 401


def test_a_strange_cookie_of_another_program_on_this_machine_does_no_harm() -> None:
    behind = guard()
    client = inside(behind)
    own = client.cookies[behind.cookie]
    strange = f'a b="\\; {behind.cookie}={own}; [x]=,'
    assert browser(behind).get("/", headers={"cookie": strange}).text == "secret, GET"


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"0.0.0.0:{PORT}", ""]
)
def test_a_page_answers_to_no_other_name(host: str) -> None:
    """A name that an attacker lets point at this machine is no way in."""
    behind = guard()
    client = inside(behind)
    assert client.get("/", headers={"host": host}).status_code == 403
    assert browser(behind).get(behind.link, headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_this_machine_goes_by_its_names(host: str) -> None:
    at = f"http://{host}:{PORT}"
    assert inside(guard(), at=at).get("/").status_code == 200


def test_an_address_of_the_network_goes_by_that_name_only() -> None:
    behind = guard("10.0.0.7")
    assert inside(behind, at=f"http://10.0.0.7:{PORT}").get("/").status_code == 200
    assert browser(behind, at=HERE).get(link_on(behind)).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": f"http://localhost:{PORT}"},
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"origin": HERE, "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    ],
)
def test_requests_of_other_pages_are_refused_even_with_the_cookie(headers: dict[str, str]) -> None:
    client = inside(guard())
    assert client.get("/", headers=headers).status_code == 403
    assert client.post("/", headers=headers).status_code == 403


def test_a_post_says_where_it_comes_from() -> None:
    client = inside(guard())
    assert client.post("/").status_code == 403
    assert client.post("/", headers={"origin": HERE}).text == "secret, POST"
    own_form = {"origin": "null", "sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate"}
    assert client.post("/", headers=own_form).text == "secret, POST"
    led_here = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.post("/", headers=led_here).status_code == 403
    assert client.post("/enter", headers={"origin": HERE}).status_code == 405


def test_a_link_that_was_clicked_in_a_chat_works() -> None:
    behind = guard()
    clicked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert browser(behind).get(behind.link, headers=clicked).status_code == 200


@pytest.mark.parametrize("path", ["/", "/nothing", "/enter?token=wrong"])
@pytest.mark.parametrize("entered", [True, False])
def test_every_answer_comes_with_the_strict_headers(path: str, entered: bool) -> None:
    behind = guard()
    client = inside(behind) if entered else browser(behind)
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
