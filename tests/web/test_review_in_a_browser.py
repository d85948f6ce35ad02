"""The review in a real browser: two images are dropped, the rest approved, and exactly those bytes leave."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting_runs import stopped_run

import understudy as us
from browser import Visit, serious_violations, visit
from understudy.audits.own_records import OwnRecords
from understudy.federation.approval import queues_in
from understudy.runs.folder import RunFolder
from understudy.web.review import Desk, review_app
from understudy.web.serving import Port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def run(tmp_path: Path) -> Path:
    method = {"name": "feddm", "ipc": 2, "steps": 40, "min_class_records": 1, "rounds": 1, "server": {"epochs": 2}}
    data = {"name": "digits", "limit": 80, "clients": 1, "held_out": 0.2}
    return stopped_run(tmp_path / "run", data=data, method=method)


@contextmanager
def opened(browser: "Browser", run: Path) -> Iterator[Visit]:
    """The page of the only reply, as a person opens it from the terminal."""
    told: list[str] = []
    port = Port(0)
    with (
        port.serving(review_app(Desk(run, OwnRecords(run))), told.append),
        visit(browser, told[0].removeprefix("Open ")) as seen,
    ):
        seen.page.wait_for_url("**/")
        seen.page.click("tbody a")
        seen.page.wait_for_selector(".example img")
        yield seen
        assert seen.complaints == []
        assert all(url.startswith(f"http://127.0.0.1:{port.number}/") for url in seen.requests)


def tally(page: "Page") -> str:
    return page.inner_text("#count")


def dropped(page: "Page") -> list[str]:
    return sorted(page.eval_on_selector_all('input[name="drop"]:checked', "boxes => boxes.map(box => box.value)"))


def test_two_images_are_dropped_and_the_run_goes_on_with_exactly_the_others(browser: "Browser", run: Path) -> None:
    (queue,) = queues_in(run)
    (one,) = queue.held()
    many, ids = len(one.ids()), one.ids()
    with opened(browser, run) as seen:
        page = seen.page
        page.check(f'input[value="{ids[0]}"]')
        page.click(f'[id="tile-{ids[3]}"] img.own')
        assert dropped(page) == sorted([ids[0], ids[3]])
        assert tally(page) == f"{many - 2} of {many} leave, 2 dropped"
        page.fill('input[name="by"]', "Ada")
        page.fill('input[name="reason"]', "too near to a record")
        page.click(f'button:has-text("Approve the other {many - 2}")')
        page.wait_for_selector(".decided")
        assert f"Ada dropped 2 and approved the other {many - 2} of {many}" in page.inner_text(".decided")
        page.click('button:has-text("Undo this decision")')
        page.wait_for_selector("form#decision")
        assert queue.held()[0].decision is None
        page.check(f'input[value="{ids[0]}"]')
        page.check(f'input[value="{ids[3]}"]')
        page.click('button[value="yes"]')
        page.wait_for_selector(".decided")
        assert page.is_disabled(f'input[value="{ids[0]}"]')
    us.run(out=run, resume=True)
    kept = [row for row in range(many) if row not in (0, 3)]
    left = RunFolder(run).synthetic()["client-0"]
    assert left.x.numpy().tobytes() == one.reply["x"][kept].numpy().tobytes()
    assert left.y.tolist() == one.reply["y"][kept].tolist()
    said = [
        json.loads(line)["decision"] for line in (run / "clients/client-0/approvals.jsonl").read_text().splitlines()
    ]
    assert said == ["saw-records", "yes", "undo", "yes", "cut"]


def test_a_class_a_threshold_the_keyboard_and_taking_back(browser: "Browser", run: Path) -> None:
    (one,) = queues_in(run)[0].held()
    ids, many = one.ids(), len(one.ids())
    with opened(browser, run) as seen:
        page = seen.page
        name = ids[0].partition(".")[0]
        page.click(f'[data-drop-class="{name}"]')
        assert dropped(page) == [id for id in ids if id.partition(".")[0] == name]
        page.keyboard.press("Control+z")
        assert dropped(page) == []
        near = {id: float(page.get_attribute(f'input[value="{id}"]', "data-quantile") or "nan") for id in ids}
        page.eval_on_selector("#threshold", "slider => { slider.value = 1; slider.dispatchEvent(new Event('input')); }")
        page.click("#drop-near")
        assert dropped(page) == sorted(id for id in ids if near[id] == min(near.values()))
        page.click("#take-back")
        page.focus(f'input[value="{ids[0]}"]')
        at = page.eval_on_selector_all('input[name="drop"]', "boxes => boxes.map(box => box.value)").index(ids[0])
        shown = page.eval_on_selector_all('input[name="drop"]', "boxes => boxes.map(box => box.value)")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("d")
        assert dropped(page) == [shown[at + 1]]
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Space")
        assert dropped(page) == sorted([shown[at], shown[at + 1]])
        page.click("#keep-all")
        assert tally(page) == f"{many} of {many} leave, 0 dropped"
        for box in page.query_selector_all("[data-drop-class]"):
            box.click()
        assert page.is_disabled('button[value="yes"]'), "nothing would be left: decline instead"
        page.click("#keep-all")
        quantiles = [near[id] for id in shown if id.partition(".")[0] == name]
        assert quantiles == sorted(quantiles), "suspicious ones first"
        assert serious_violations(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out on a phone"
        page.emulate_media(color_scheme="dark")
        assert serious_violations(page) == []
