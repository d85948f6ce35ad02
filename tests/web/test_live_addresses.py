"""The addresses of the live page: what is looked up, what is refused, what never waits for a disk."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from without_a_browser import Visitor

from understudy.runs.folder import RunFolder
from understudy.runs.overview import Overview
from understudy.runs.standing import Standing, standing_of
from understudy.web.live import LivePages
from understudy.web.streams import places

CONFIG = {
    "version": "0.1.0",
    "seed": 4,
    "data": {"name": "digits"},
    "problem": {"multilabel": False},
    "method": {"name": "fedavg", "rounds": 1},
    "with": [],
}


def add(folder: Path, round: int, **others: Any) -> None:
    usual = {"accuracy": round / 10, "bytes_up": 1, "bytes_down": 1, "epsilon": None, "failed": 0, "seconds": 1.0}
    RunFolder(folder).add_line({"round": round, **usual, "undone": False, **others})


def written(folder: Path, rounds: int = 1) -> Path:
    folder.mkdir(parents=True)
    RunFolder(folder).write_config(CONFIG)
    for round in range(rounds + 1):
        add(folder, round)
    return folder


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[LivePages]:
    written(tmp_path / "one")
    written(tmp_path / "two")
    made = LivePages(tmp_path)
    yield made
    made.close()


def known(pages: LivePages) -> dict[str, str]:
    """Ids by name."""
    pages.watch.overview.look()
    return {run.name: run.id for run in pages.watch.now.runs.values()}


def visitor(pages: LivePages) -> Visitor:
    return Visitor(pages.app, "http://127.0.0.1:1")


def test_pages_are_found_by_id(pages: LivePages) -> None:
    ids, guest = known(pages), visitor(pages)
    assert set(ids) == {"one", "two"}
    assert "Reading the folder" in guest.get("/").text
    assert "<h1>one</h1>" in guest.get(f"/runs/{ids['one']}").text
    both = guest.get("/compare", params=[("run", ids["one"]), ("run", ids["two"]), ("run", ids["two"])])
    assert "<h1>2 runs compared</h1>" in both.text


@pytest.mark.parametrize(
    "path",
    [
        "/runs/one",
        "/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/runs//etc/passwd",
        "/runs/0000000000000000",
        "/runs/0000000000000000/../../x",
        "/static/../live_values.py",
        "/static/%2e%2e/live_values.py",
        "/static//etc/passwd",
        "/static/uplot",
        "/static/",
        "/compare?run=one&run=two",
        "/nothing",
    ],
)
def test_what_is_not_known_does_not_exist(pages: LivePages, path: str) -> None:
    known(pages)
    answer = visitor(pages).get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text
    assert "import" not in answer.text
    assert "<h1>Not here</h1>" in answer.text


def test_too_few_and_too_many_to_compare_get_a_sentence(pages: LivePages) -> None:
    ids, guest = known(pages), visitor(pages)
    few = guest.get("/compare", params=[("run", ids["one"])] * 2)
    assert few.status_code == 400
    assert "Pick at least two runs" in few.text
    many = guest.get("/compare", params=[("run", str(number)) for number in range(29)])
    assert "Pick at most 28 runs" in many.text


def test_it_only_reads(pages: LivePages) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert visitor(pages).ask(method, "/").status_code == 405


def test_scripts_and_styles_come_with_their_types(pages: LivePages) -> None:
    guest = visitor(pages)
    assert guest.get("/static/live.js").headers["content-type"].startswith("text/javascript")
    assert guest.get("/static/understudy.css").headers["content-type"].startswith("text/css")
    page = guest.get("/").text
    for address in ("/static/live.js", "/static/live.css", "/static/uplot/uPlot.iife.min.js"):
        assert address in page
        assert guest.get(address).status_code == 200
    assert "style=" not in page
    assert "onclick" not in page


def test_a_run_folder_shows_its_run_at_once(tmp_path: Path) -> None:
    pages = LivePages(written(tmp_path / "run"))
    id = known(pages)["run"]
    answer = visitor(pages).get("/")
    assert (answer.status_code, answer.headers["location"]) == (307, f"/runs/{id}")
    pages.close()


def test_a_disk_that_hangs_does_not_freeze_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "one")
    written(tmp_path / "two")
    free, stuck = threading.Event(), threading.Event()

    def hangs(folder: Path) -> Standing:
        if folder.name == "two":
            stuck.set()
            free.wait(60)
        return standing_of(folder)

    monkeypatch.setattr("understudy.runs.overview.standing_of", hangs)
    monkeypatch.setattr("understudy.runs.overview.PUBLISHED", -1.0)
    pages = LivePages(tmp_path)
    try:
        assert stuck.wait(30)
        assert visitor(pages).get("/").status_code == 200
        said = first_events(pages.streams.of_list(), 1)[0]
        assert [run["name"] for run in said["runs"]] == ["one"]
        assert not said["complete"]
        monkeypatch.setattr("understudy.web.live.FIRST_LOOK", 0.0)
        assert visitor(pages).get("/runs/unknown").status_code == 404
    finally:
        free.set()
        pages.close()


# ---- streams


def first_events(stream: AsyncIterator[str], count: int) -> list[Any]:
    """Their contents."""

    async def read() -> list[Any]:
        found = []
        async for text in stream:
            if "data: " in text:
                found.append(json.loads(text.partition("data: ")[2]))
            if len(found) == count:
                break
        return found

    return asyncio.run(asyncio.wait_for(read(), 30))


def test_a_list_tells_what_is_new_and_what_is_gone(pages: LivePages, tmp_path: Path) -> None:
    ids = known(pages)

    async def read() -> tuple[Any, Any]:
        stream = pages.streams.of_list()
        first = [json.loads((await anext(stream)).partition("data: ")[2]) for _ in range(1) if await anext(stream)]
        (tmp_path / "one").rename(tmp_path / "three")
        pages.watch.overview.look()
        return first[0], json.loads((await anext(stream)).partition("data: ")[2])

    first, second = asyncio.run(read())
    assert first["all"]
    assert {run["name"] for run in first["runs"]} == {"one", "two"}
    assert not second["all"]
    assert [run["name"] for run in second["runs"]] == ["three"]
    assert second["gone"] == [ids["one"]]


def test_lines_come_with_a_place_to_go_on_from(pages: LivePages, tmp_path: Path) -> None:
    ids = known(pages)
    asked = [ids["one"], ids["two"]]

    async def texts(place: str, count: int) -> list[str]:
        stream = pages.streams.of_runs(asked, place, compared=False)
        await anext(stream)
        return [await anext(stream) for _ in range(count)]

    first = asyncio.run(texts("", 4))
    assert [text.split("\n")[0] for text in first] == ["event: lines", "event: run"] * 2
    place = first[-1].split("\n")[1].removeprefix("id: ")
    assert len(place.split(",")) == 2
    add(tmp_path / "two", 2)
    again = asyncio.run(texts(place, 3))
    assert [text.split("\n")[0] for text in again] == ["event: run", "event: lines", "event: run"]
    said = json.loads(again[1].partition("data: ")[2])
    assert (said["run"], said["anew"], [line["round"] for line in said["lines"]]) == (ids["two"], False, [2])


def test_a_run_whose_folder_goes_away_is_told_once(pages: LivePages, tmp_path: Path) -> None:
    id = known(pages)["one"]

    async def read() -> list[str]:
        stream = pages.streams.of_runs([id], "", compared=False)
        found = [await anext(stream) for _ in range(3)]
        (tmp_path / "one").rename(tmp_path / ".one")
        pages.watch.overview.look()
        found.append(await anext(stream))
        (tmp_path / ".one").rename(tmp_path / "one")
        add(tmp_path / "one", 2)
        pages.watch.overview.look()
        return [*found, await anext(stream)]

    names = [text.split("\n")[0] for text in asyncio.run(read())]
    assert names == ["retry: 1000", "event: lines", "event: run", "event: gone", "event: lines"]


def test_a_place_for_other_runs_is_no_place() -> None:
    assert places("1-2,3-4", ["a", "b"]) == ["1-2", "3-4"]
    assert places("1-2", ["a", "b"]) == ["", ""]
    assert places("x" * 5000, ["a"]) == [""]


def test_a_comparison_of_a_damaged_run_is_a_sentence(pages: LivePages, tmp_path: Path) -> None:
    ids = known(pages)
    (tmp_path / "two/metrics.jsonl").write_text('{"round": 0}\n')
    said = first_events(pages.streams.of_runs(list(ids.values()), "", compared=True), 5)[-1]
    assert said == {"problem": f"{tmp_path / 'two/metrics.jsonl'}, line 1, has no 'bytes_up'; restore it."}


def test_streams_end_when_the_page_is_closed_with_the_last_word_on_the_run(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", 0)
    pages = LivePages(tmp_path)
    id = known(pages)["run"]
    add(folder, 1)
    pages.close()

    async def read() -> list[str]:
        return [text async for text in pages.streams.of_runs([id], "", compared=False)]

    said = [json.loads(text.partition("data: ")[2]) for text in asyncio.run(read()) if "data: " in text]
    assert [one.get("stands") for one in said] == [None, "finished"]


def test_everything_sent_is_json_that_browsers_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", 0)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 1, "accuracy": NaN, "loss": Infinity, "epsilon": -Infinity, "failed": 1e999}\n')
    overview = Overview(tmp_path)
    overview.look()
    pages = LivePages(tmp_path)
    id = known(pages)["run"]
    for said in first_events(pages.streams.of_runs([id], "", compared=False), 2):
        assert "NaN" not in json.dumps(said)
        assert "Infinity" not in json.dumps(said)
    pages.close()


# ---- reports


def test_the_report_of_any_run_is_a_page_here_or_a_file(pages: LivePages) -> None:
    ids, guest = known(pages), visitor(pages)
    here = guest.get("/report", params={"run": ids["one"]})
    assert here.status_code == 200
    assert "<h1>" in here.text
    assert '<script src="/static/' in here.text
    assert "<style>" not in here.text, "this server's policy forbids what is inlined"
    file = guest.get("/report", params={"run": ids["one"], "file": "1"})
    assert file.headers["content-disposition"] == 'attachment; filename="report.html"'
    assert "/static/" not in file.text
    both = guest.get("/report", params=[("run", ids["one"]), ("run", ids["two"])])
    assert "2 runs compared" in both.text


def test_a_report_on_a_damaged_run_is_a_sentence(pages: LivePages, tmp_path: Path) -> None:
    ids = known(pages)
    (tmp_path / "one/metrics.jsonl").write_text('{"round": 0, "failures": 7}\n')
    answer = visitor(pages).get("/report", params={"run": ids["one"]})
    assert answer.status_code == 422
    assert "restore it" in answer.text
    assert visitor(pages).get("/report").status_code == 400
    assert visitor(pages).get("/report", params={"run": "../one"}).status_code == 404
