"""Charts of a page in a real browser: hover, keys, legend, table, CSV."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import serious_violations, visit
from understudy.papers.study import Panel, Trace
from understudy.view.html.assets import inlined
from understudy.view.html.charts import CellTable, Chart, cell_chart, line_chart
from understudy.view.html.page import environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&"
PAGE = """{% extends "base.html" %}{% from "parts.html" import charts %}
{% block title %}Charts{% endblock %}{% block content %}<h1>Charts</h1><h2>All</h2>{{ charts(some) }}{% endblock %}"""


@pytest.fixture
def address(tmp_path: Path) -> str:
    traces = [
        Trace("fedavg", [0, 1, 2, 3], [10, 50, 60, 61.23456], 0, low=[9, 48, 59, 60], high=[11, 52, 61, 62]),
        Trace(HOSTILE, [0, 2], [10, 80], 1),
    ]
    cells = CellTable(("client", ["north", HOSTILE]), ("class", ["0", "1", "2"]), [[1, 2, 3], [400, 0, None]])
    some: list[Chart] = [
        line_chart("accuracy", Panel("Accuracy", "round", "accuracy (%)", traces, ylim=(0, 100), from_zero=True)),
        cell_chart("split", "Who held what", cells),
    ]
    file = tmp_path / "page.html"
    file.write_text(environment().from_string(PAGE).render(some=some, assets=inlined()))
    return file.as_uri()


def test_charts_draw_without_a_complaint_or_a_request(browser: "Browser", address: str) -> None:
    with visit(browser, address, offline=True) as seen:
        assert seen.page.locator("figure.chart canvas").count() == 2
        assert seen.page.locator(".legend").first.inner_text().splitlines() == ["fedavg", HOSTILE]
        assert seen.page.locator("img").count() == 0
        assert (seen.complaints, seen.requests) == ([], [])
        assert serious_violations(seen.page) == []


def test_hover_and_keys_give_the_values_of_every_line(browser: "Browser", address: str) -> None:
    with visit(browser, address) as seen:
        plot = seen.page.locator("#chart-accuracy .plot")
        box = seen.page.locator("#chart-accuracy .u-over").bounding_box()
        assert box is not None
        seen.page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + 40)
        tip = plot.locator(".tip")
        assert tip.locator("strong").inner_text() == "round 3"
        assert tip.locator(".value").all_inner_texts() == ["80 at 2", "61.23 (60 to 62)"]
        plot.focus()
        plot.press("Home")
        assert tip.locator("strong").inner_text() == "round 0"
        plot.press("ArrowRight")
        assert "round 1 fedavg 50 (48 to 52)" in plot.locator("[aria-live]").inner_text()
        cells = seen.page.locator("#chart-split .plot")
        cells.press("ArrowRight")
        cells.press("ArrowDown")
        assert cells.locator("[aria-live]").text_content() == f"{HOSTILE} · class 0 400"


def test_a_line_can_be_switched_off(browser: "Browser", address: str) -> None:
    with visit(browser, address) as seen:
        label = seen.page.locator("#chart-accuracy .legend button").first
        label.click()
        assert seen.page.locator("#chart-accuracy .legend button").first.get_attribute("aria-pressed") == "false"
        seen.page.locator("#chart-accuracy .plot").press("End")
        assert seen.page.locator("#chart-accuracy .tip li").count() == 1


def test_every_chart_is_also_a_table_and_a_file(browser: "Browser", address: str) -> None:
    with visit(browser, address) as seen:
        for button in seen.page.locator(".tools button", has_text="Table").all():
            button.click()
        rows = seen.page.locator("#chart-accuracy .data-table tr").all_inner_texts()
        assert rows[0].split("\t") == ["round", "fedavg", "fedavg lowest", "fedavg highest", HOSTILE]
        assert rows[-1].split("\t") == ["3", "61.23", "60", "62", "–"]
        assert serious_violations(seen.page) == []
        with seen.page.expect_download() as given:
            seen.page.locator("#chart-split .tools button", has_text="CSV").click()
        assert given.value.suggested_filename == "split.csv"
        text = Path(given.value.path()).read_text()
        quoted = HOSTILE.replace('"', '""')
        assert text.splitlines() == ["client,0,1,2", "north,1,2,3", f'"{quoted}",400,0,']
