"""The live page in a real browser: it follows a run through a kill and a resume, and shows what it finds as text."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from browser import Visit, serious_violations, visit
from understudy.config.resolve import resolve
from understudy.runs.folder import Line, RunFolder
from understudy.runs.play import play
from understudy.runs.status import FILE, Status
from understudy.runs.watching import Observer
from understudy.web.live import LivePages
from understudy.web.serving import Port

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{7*7}}"
CONFIG = {
    "seed": 1,
    "data": {"name": "digits", "limit": 60, "clients": 2},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 4, "local": {"epochs": 1, "lr": 0.1}},
    "engine": {"name": "inline"},
}


@contextmanager
def live(folder: Path) -> Iterator[tuple[str, str]]:
    """The link, and the page's address."""
    told: list[str] = []
    port, pages = Port(0), LivePages(folder)
    with port.serving(pages.app, told.append, closing=pages.close):
        yield told[0].removeprefix("Open "), f"http://127.0.0.1:{port.number}"


class Pauses(Observer):
    """Stands still after a round, until it is killed."""

    def __init__(self, after: int):
        self.after = after

    def scored(self, line: Line) -> None:
        if line["round"] == self.after:
            time.sleep(600)


@contextmanager
def running(folder: Path, pause_after: int, *, resume: bool = False) -> Iterator[Callable[[], None]]:
    """A run in a process of its own; what is yielded kills it."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException), Path(os.devnull).open("w") as nothing:
            sys.stdout = sys.stderr = nothing
            play(resolve(CONFIG), folder, observer=Pauses(pause_after), resume=resume)
        os._exit(0)
    ended = False

    def kill() -> None:
        nonlocal ended
        if not ended:
            ended = True
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    try:
        yield kill
    finally:
        kill()


def text(seen: Visit, where: str) -> str:
    return " ".join(seen.page.inner_text(where).split())


def wait_for(seen: Visit, where: str, words: str) -> None:
    seen.page.locator(where).filter(has_text=words).first.wait_for(timeout=60_000)


def drawn(seen: Visit) -> list[tuple[int, float]]:
    """Rounds and accuracies of the curve, from its table."""
    rows = seen.page.eval_on_selector_all(
        "#chart-accuracy .data-table tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return [(int(round), float(value)) for round, value in rows]


def measured(folder: Path) -> list[tuple[int, float]]:
    return [(line["round"], float(f"{100 * line['accuracy']:.4g}")) for line in RunFolder(folder).metrics()]


def test_the_page_follows_a_run_through_a_kill_and_a_resume(browser: "Browser", tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    with live(tmp_path) as (link, _), visit(browser, link) as seen:
        wait_for(seen, "#summary", "There are no runs here yet")
        with running(folder, pause_after=2) as kill:
            seen.page.get_by_role("link", name="my run").click(timeout=60_000)
            wait_for(seen, ".lede", "going on in round 2 of 4: saving and scoring")
            seen.page.evaluate("window.sameDocument = true")
            seen.page.get_by_role("button", name="Show as a table: Accuracy over rounds").click()
            wait_for(seen, "#chart-accuracy .data-table tbody", "2")
            assert drawn(seen) == measured(folder)
            assert [round for round, _ in drawn(seen)] == [0, 1, 2]
            assert not seen.page.is_visible("#commands")
            kill()
        wait_for(seen, ".lede", "stopped after round 2 of 4: its process was killed or the machine went down")
        assert text(seen, "#commands pre") == f"understudy run --resume --out '{folder}'"
        with running(folder, pause_after=99, resume=True):
            wait_for(seen, ".lede", "finished after 4 rounds")
            wait_for(seen, "#chart-accuracy .data-table tbody", "4")
            assert drawn(seen) == measured(folder)
            assert [round for round, _ in drawn(seen)] == [0, 1, 2, 3, 4]
        assert not seen.page.is_visible("#commands")
        assert seen.page.evaluate("window.sameDocument"), "and nobody pressed reload"
        seen.page.get_by_role("link", name="Report", exact=True).click()
        seen.page.locator("figure.chart canvas").first.wait_for()
        assert seen.complaints == []


def written(folder: Path, words: str, **said: Any) -> Path:
    """A run whose every text field has these words."""
    folder.mkdir(parents=True)
    config = {"method": {"name": words, "rounds": 3}, "data": {"name": words}, "with": [{"name": words}]}
    RunFolder(folder).write_config({"version": words, "seed": words, **config})
    for round in range(2):
        failures = [{"client": words, "why": words}]
        RunFolder(folder).add_line(
            {
                **dict.fromkeys(("bytes_up", "bytes_down", "failed"), 1),
                "round": round,
                "accuracy": 0.5 + round / 10,
                "epsilon": None,
                "seconds": 1.0,
                "failures": failures,
                "remarks": [words],
                words: words,
            }
        )
    if said:
        status = Status(label=words, data=words, version=words, rounds=3, **said)
        (folder / FILE).write_text(status.model_dump_json())
    return folder


def test_html_in_every_field_of_a_run_is_shown_as_text(browser: "Browser", tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "|")
    written(tmp_path / name, HOSTILE, how="failed", why=HOSTILE, said=[HOSTILE], command=HOSTILE)
    written(tmp_path / "plain config", HOSTILE)
    with live(tmp_path) as (link, address), visit(browser, link) as seen:
        seen.page.on("dialog", lambda dialog: seen.complaints.append(f"dialog {dialog.message}"))
        wait_for(seen, "#summary", "2 runs")
        assert name in text(seen, "#runs")
        assert text(seen, "#runs").count(HOSTILE) == 6, "method and data of both, an add-on, and why one failed"
        assert serious_violations(seen.page) == []
        for box in seen.page.get_by_role("checkbox").all():
            box.check()
        seen.page.get_by_role("button", name="Compare").click()
        wait_for(seen, "#comparison tbody", "img src")
        assert seen.page.locator("#comparison tbody tr").count() == 2
        assert serious_violations(seen.page) == []
        seen.page.goto(address)
        seen.page.get_by_role("link", name=name).click()
        wait_for(seen, "#failures tbody", "opening")
        wait_for(seen, "#said", HOSTILE)
        assert seen.page.inner_text("h1") == name
        assert text(seen, ".lede") == f"failed after round 1 of 3: {HOSTILE}"
        assert text(seen, "#commands pre") == HOSTILE
        assert text(seen, "#failures tbody tr") == f"1 {HOSTILE} {HOSTILE}"
        assert text(seen, "#said") == HOSTILE
        assert seen.page.locator("img").count() == 0
        assert serious_violations(seen.page) == []
        assert seen.complaints == []


def test_a_federation_shows_who_is_there_and_who_is_awaited_on_a_phone_too(browser: "Browser", tmp_path: Path) -> None:
    folder = written(
        tmp_path / "run",
        "fedavg",
        round=2,
        phase="Averaging.train",
        since=time.time() - 7,
        clients=["north", "south", "west", *(f"site-{number}" for number in range(997))],
        asked=["north", "south"],
        awaited=["south"],
        there=["north", "west"],
        seconds={"Averaging.train": 12.34, "waiting for sites": 5.0},
        last_round={"Averaging.train": 6.1},
    )
    lock = RunFolder(folder)
    (folder / ".lock").touch()
    with (
        lock.locked(wait=0, waiting=lambda _: None),
        live(folder) as (link, _),
        visit(browser, link, dark=True, width=390) as seen,
    ):
        wait_for(seen, ".lede", "going on in round 2 of 3: Averaging.train, waiting for south")
        wait_for(seen, "#sites-about", "online")
        assert text(seen, "#sites-about") == "2 of 1000 online, 1 reply awaited; 800 more are not listed."
        rows = [text(seen, f"#sites tbody tr:nth-child({number})") for number in (1, 2)]
        assert rows == ["south away reply awaited", "site-0 away not asked"]
        assert text(seen, "#phases tbody") == "Averaging.train 12.3 6.1 waiting for sites 5.0 –"
        assert re.fullmatch(r"Averaging.train: \d+ s so far, 1 of 2 replies\.", text(seen, "#phase"))
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than a phone"
        assert serious_violations(seen.page) == []
        assert seen.complaints == []
