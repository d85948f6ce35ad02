"""What all pages share: the vendored library is the published one, and nothing can break out of a page."""

import hashlib
import json
import re

import pytest

from understudy.papers.study import Panel, Trace
from understudy.view.html.assets import SCRIPTS, STATIC, STYLES, inlined, linked
from understudy.view.html.charts import line_chart
from understudy.view.html.page import environment, json_block

UPLOT = {  # version 1.6.32, as its package on npm has them
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


@pytest.mark.parametrize("name", UPLOT)
def test_the_vendored_library_is_the_published_one(name: str) -> None:
    assert hashlib.sha256((STATIC / "uplot" / name).read_bytes()).hexdigest() == UPLOT[name]
    assert "Leon Sorokin" in (STATIC / "uplot" / "LICENSE").read_text()


def test_scripts_can_be_inlined_and_use_nothing_that_a_strict_policy_forbids() -> None:
    for name in SCRIPTS:
        text = (STATIC / name).read_text()
        assert "</script" not in text.lower(), name
        assert re.search(r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write|cssText", text) is None, (
            name
        )
    for name in STYLES:
        assert re.search(r"</style|url\(|@import", (STATIC / name).read_text()) is None, name


def test_values_cannot_end_their_block() -> None:
    value = {"</script>": "<!-- & \u2028 </SCRIPT >"}
    text = str(json_block(value))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


def test_numbers_that_json_lacks_are_gaps() -> None:
    chart = line_chart("loss", Panel("Loss", "round", "loss", [Trace("a", [0, 1], [float("nan"), float("inf")])]))
    assert chart.values["lines"][0]["y"] == [None, None]
    assert str(json_block(chart.values))


def test_a_page_that_stands_alone_allows_only_what_it_carries() -> None:
    page = environment().get_template("base.html").render(assets=inlined())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe" not in policy[1]
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page) == []


def test_a_served_page_loads_the_same_files_in_order() -> None:
    page = environment().get_template("base.html").render(assets=linked("/static", ["live.js"]))
    assert re.findall(r'<script src="([^"]+)"', page) == [f"/static/{name}" for name in (*SCRIPTS, "live.js")]
    assert "<style" not in page
    assert "Content-Security-Policy" not in page
