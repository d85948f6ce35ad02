"""The report in a real browser: a small run, several runs, a hostile folder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hostile_run import MARK, write_hostile_run

import understudy as us
from browser import serious_violations, visit
from understudy.api.reporting import report
from understudy.runs.folder import RunFolder
from written_runs import change_config, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

QUICK = {
    "data.clients": 3, "model.fast": "eager", "engine": "inline", "method.steps": 2, "method.ipc": 2,
    "method.real_batch": 16, "method.server": {"epochs": 2}, "transcript": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "feddm"
    return us.run("digits-skewed", method="feddm", rounds=2, changes=QUICK, out=out).folder


@pytest.fixture(scope="module")
def page(browser: "Browser", run: Path) -> Iterator["Page"]:
    """The report of one run, opened with the network cut."""
    file = report(run, run.parent / "one.html", quality=False)
    with visit(browser, file.as_uri(), offline=True) as seen:
        yield seen.page
        assert (seen.complaints, seen.requests) == ([], [])


def sections(page: "Page") -> list[str]:
    return page.locator("h2").all_inner_texts()


def test_a_run_is_told_from_its_result_to_its_command(page: "Page", run: Path) -> None:
    assert page.title() == "feddm on digits – Understudy"
    result = us.load(run)
    assert (
        f"reached {100 * (result.accuracy or 0):.1f} % accuracy on the test records"
        in page.locator(".lede").inner_text()
    )
    assert sections(page) == [
        "How it learnt", "Who held what", "Who took part", "What left each client, and what it cost",
        "The synthetic sets", "What else was measured", "To repeat it",
    ]  # fmt: skip
    assert "not audited" in page.locator("#synthetic").inner_text()
    assert f"understudy run {run / 'config.yaml'}" in page.locator("#repeat pre").first.inner_text()
    assert page.locator("#repeat pre").last.text_content() == (run / "config.yaml").read_text()


def test_hover_shows_the_value_in_metrics(page: "Page", run: Path) -> None:
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    plot = page.locator("#chart-accuracy .plot")
    plot.scroll_into_view_if_needed()
    box = page.locator("#chart-accuracy .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 30)
    assert plot.locator(".tip strong").inner_text() == "round 2"
    assert float(plot.locator(".tip .value").inner_text()) == pytest.approx(100 * last["accuracy"], rel=1e-3)


def test_pictures_are_whole_and_keep_their_pixels(page: "Page", run: Path) -> None:
    pictures = page.locator("#synthetic img")
    sets = RunFolder(run).synthetic()
    assert pictures.count() == sum(len(set(some.y.tolist())) for some in sets.values())
    drawn = pictures.evaluate_all("all => all.map(one => one.complete && one.naturalWidth > 0)")
    assert all(drawn)
    assert pictures.first.evaluate("one => getComputedStyle(one).imageRendering") == "pixelated"


def test_axe_finds_nothing_serious_in_light_dark_and_narrow(browser: "Browser", page: "Page") -> None:
    assert serious_violations(page) == []
    address = page.url
    with visit(browser, address, dark=True, width=390) as seen:
        seen.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert serious_violations(seen.page) == []
        wide, screen = seen.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= screen, "a phone would scroll the page sideways"


def test_runs_that_differ_in_their_seed_are_one_line_and_the_target_moves(browser: "Browser", tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / "a0", (0.1, 0.5, 0.7)),
        write_run(tmp_path / "a1", (0.1, 0.7, 0.9)),
        write_run(tmp_path / "b0", (0.2, 0.3, 0.4), method="fedprox"),
    ]
    for seed, folder in enumerate(folders):
        change_config(folder, seed=seed % 2)
    file = report(folders, tmp_path / "several.html")
    with visit(browser, file.as_uri(), offline=True) as seen:
        page = seen.page
        assert page.locator("#chart-accuracy .legend li").all_inner_texts() == ["fedavg, 2 seeds", "fedprox", "target"]
        page.locator("#chart-accuracy .plot").press("End")
        assert page.locator("#chart-accuracy .tip .value").all_inner_texts() == ["80 (70 to 90)", "40"]
        rounds, sent = (page.locator(f"td[id^={what}-]") for what in ("rounds", "megabytes"))
        assert rounds.all_inner_texts() == ["–", "2", "–"]  # 90 % of the best: 81 %
        page.locator("#target").fill("60")
        assert rounds.all_inner_texts() == ["2", "1", "–"]
        assert sent.all_inner_texts() == ["4", "2", "–"]
        page.get_by_role("button", name="last accuracy").click()
        names = page.locator("table.sortable tbody th")
        assert names.all_inner_texts() == ["fedprox", "fedavg (a0)", "fedavg (a1)"]
        page.get_by_role("button", name="last accuracy").click()
        assert names.all_inner_texts() == ["fedavg (a1)", "fedavg (a0)", "fedprox"]
        names.first.locator("a").click()
        assert page.locator("#run-1").get_attribute("open") is not None
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert serious_violations(page) == []
        assert (seen.complaints, seen.requests) == ([], [])


def test_whatever_a_folder_says_is_shown_as_text(browser: "Browser", tmp_path: Path) -> None:
    folder = write_hostile_run(tmp_path)
    for folders in ([folder], [folder, write_run(tmp_path / "other")]):
        file = report(folders, tmp_path / "hostile.html")
        with visit(browser, file.as_uri(), offline=True) as seen:
            page = seen.page
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            for button in page.locator(".tools button", has_text="Table").all():
                button.click()
            for plot in page.locator("figure.chart .plot").all():
                plot.press("ArrowRight")
            assert page.evaluate("window.hurt") is None
            assert page.locator("img:not(.record)").count() == 0
            shown = page.locator("main").inner_text()
            assert "window.hurt=1" in shown
            assert "{{7*7}}" in shown
            assert (
                page.locator("#chart-attendance .data-table, #chart-run-0-attendance .data-table")
                .inner_text()
                .count(MARK[:20])
            )
            assert (seen.complaints, seen.requests) == ([], [])


def test_print_is_light_even_from_a_dark_screen(browser: "Browser", page: "Page") -> None:
    with visit(browser, page.url, dark=True) as seen:
        background = "() => getComputedStyle(document.body).backgroundColor"
        assert seen.page.evaluate(background) == "rgb(18, 24, 29)"
        seen.page.emulate_media(media="print")
        assert seen.page.evaluate(background) == "rgb(255, 255, 255)"
        assert seen.page.locator(".tools").first.is_hidden()
