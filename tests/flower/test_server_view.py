"""`understudy server --view`: the page follows a federation of real processes from the first wait to the last round."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from federation_of_processes import FAULTY, Federation

from understudy.engines.flower.processes import free_port
from understudy.engines.flower.proxy import nginx
from understudy.federation.failures import sentence

pytestmark = [pytest.mark.slow, pytest.mark.skipif(nginx() is None, reason="nginx is not installed")]


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path, ("client-0", "client-1"))
    made.write_config(
        data={"name": "digits", "clients": 2, "limit": 60},
        model={"name": "softmax"},
        method={"name": f"{FAULTY}:Faulty", "rounds": 2},
        engine={"name": "flower", "timeout": 300},
    )
    yield made
    made.stop()


def opened(federation: Federation, browser: httpx.Client) -> str:
    """The address of the run's page, once it is there."""
    federation.wait_until(lambda: "/enter?token=" in federation.log("server"), 120)
    link = re.findall(r"Open (http://\S+)", federation.log("server"))[0]
    assert browser.get(link).status_code == 200
    at = link.partition("/enter")[0]
    federation.wait_until(lambda: browser.get(at).status_code == 307, 120)
    return f"{at}{browser.get(at).headers['location']}"


class Told:
    """What the page is sent, until something is so."""

    def __init__(self, lines: Iterator[str]):
        self.lines, self.failures = lines, dict[int, list[dict[str, str]]]()

    def until(self, so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        name = ""
        for text in self.lines:
            name = text.removeprefix("event: ") if text.startswith("event: ") else name
            if not text.startswith("data: "):
                continue
            said = json.loads(text.removeprefix("data: "))
            if name == "lines":
                self.failures |= {line["round"]: line["failures"] for line in said["lines"]}
            if name == "run" and so(said):
                return dict(said)
        raise AssertionError("the page was closed before")


def rows(said: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    return {row["name"]: (row["there"], row["reply"]) for row in (said["sites"] or {"rows": ()})["rows"]}


def test_the_page_tells_who_is_away_whose_reply_is_awaited_and_what_failed(federation: Federation) -> None:
    federation.fault(1, "client-1", "wait")
    federation.fault(2, "client-0", "raise")
    federation.start_site("client-0")
    federation.start_server("--view", str(free_port()))
    with httpx.Client(timeout=300) as browser:
        page = opened(federation, browser)
        events = page.replace("/runs/", "/events?run=")
        with browser.stream("GET", events) as stream:
            told = Told(stream.iter_lines())
            said = told.until(lambda said: rows(said).get("client-0", (False,))[0])
            assert (said["stands"], said["detail"]) == ("waiting for sites", "to come online: client-1")
            federation.start_site("client-1")
            said = told.until(lambda said: rows(said).get("client-0") == (True, "answered"))
            assert rows(said) == {"client-0": (True, "answered"), "client-1": (True, "reply awaited")}
            assert said["detail"] == "in round 1 of 2: Faulty.work, waiting for client-1"
            federation.release(1, "client-1")
            said = told.until(lambda said: said["stands"] == "finished")
    federation.finish(60)
    assert {name for name, *_ in said["phases"]} >= {"waiting for sites", "Faulty.work", "saving and scoring"}
    assert told.failures[1] == []
    assert told.failures[2] == [{"client": "client-0", "why": sentence("defect")}]
    assert "Waiting for client-1." in said["said"]
