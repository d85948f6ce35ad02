"""The documentation as a site: where pages and links go, and that the built pages need nothing from outside."""

import re
import tomllib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import make_site
from browser import serious_violations, visit
from make_site import PLAN, entries, for_the_site, navigation, notebook_page, place, site_files, with_heading
from written_pages import ROOT, parsed

if TYPE_CHECKING:
    from playwright.sync_api import Browser

KNOWN = ["README.md", "docs/audit.md", "docs/a.png", "docs/methods/README.md", "docs/notebooks/one.ipynb"]


def test_pages_go_where_their_folder_goes() -> None:
    assert [place(file) for file in [*KNOWN, "CONTRIBUTING.md"]] == [
        "index.md",
        "audit.md",
        "a.png",
        "methods/index.md",
        "notebooks/one.md",
        "contributing.md",
    ]


def test_links_lead_to_where_pages_went() -> None:
    text = "[x](docs/audit.md#attacks) ![curve](docs/a.png) [`code`](src/a.py) [there](https://example.org) [up](#up)"
    shown = "[x](audit.md#attacks) ![curve](a.png) `code` [there](https://example.org) [up](#up)"
    assert for_the_site(text, "README.md", KNOWN) == shown
    assert for_the_site("[a](src/a.py)", "README.md", KNOWN, "https://h/o/n") == "[a](https://h/o/n/blob/main/src/a.py)"
    nested = "[start](../../README.md), [all](README.md#all), [nb](../notebooks/one.ipynb)"
    assert (
        for_the_site(nested, "docs/methods/feddm.md", KNOWN)
        == "[start](../index.md), [all](index.md#all), [nb](../notebooks/one.md)"
    )
    assert for_the_site("```\n[x](docs/audit.md)\n```", "README.md", KNOWN) == "```\n[x](docs/audit.md)\n```"


def test_a_bar_in_code_in_a_table_is_shown_as_on_github() -> None:
    row = r"| `a` | |x\| is a size | `int \| None` |"
    assert for_the_site(row, "README.md", KNOWN) == r"| `a` | |x\| is a size | `int | None` |"
    assert for_the_site("```\n`a \\| b`\n```", "README.md", KNOWN) == "```\n`a \\| b`\n```"


def test_pages_of_a_folder_are_sorted_by_name_behind_the_one_that_introduces_them() -> None:
    files = [f"docs/methods/{name}.md" for name in ("fedlap-dp", "fedlap", "README", "fig12", "fig2")]
    sorted_names = [Path(file).stem for file in sorted(files, key=make_site._introducing_first)]
    assert sorted_names == ["README", "fedlap", "fedlap-dp", "fig2", "fig12"]


def test_a_notebook_is_a_page_of_text_and_code() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Words."]},
        {"cell_type": "code", "source": ["a = 1\n", "a"]},
    ]
    page = notebook_page({"cells": cells}, "docs/notebooks/one.ipynb")
    assert page.startswith("# Title\n\nWords.\n\n*To run it: `docs/notebooks/one.ipynb`")
    assert page.endswith("```python\na = 1\na\n```\n")


def test_a_page_without_a_heading_is_named_for_its_folder() -> None:
    assert with_heading("| a |\n", "docs/studies/frontier/table.md") == "# frontier: table\n\n| a |\n"
    assert with_heading("# Own\n", "docs/studies/frontier/README.md") == "# Own\n"


def test_no_two_pages_of_a_section_have_the_same_title() -> None:
    files = site_files()
    for heading, names in tomllib.loads(PLAN.read_text())["navigation"].items():
        listed = [names] if isinstance(names, str) else names
        titles = Counter(title for name in listed for title, _ in entries(name, files))
        assert [title for title, times in titles.items() if times > 1] == [], heading


def test_every_page_is_in_the_navigation_once() -> None:
    files = site_files()
    plan = tomllib.loads(PLAN.read_text())["navigation"]
    listed = Counter(
        there
        for names in plan.values()
        for name in ([names] if isinstance(names, str) else names)
        for _, there in entries(name, files)
    )
    wanted = {place(file) for file in files if file.endswith((".md", ".ipynb"))}
    assert {there for there, times in listed.items() if times > 1} == set()
    assert wanted - listed.keys() == set(), "add it to docs/site.toml"
    assert tomllib.loads(navigation(plan, files))["nav"][0] == {"Start": "index.md"}


class Reading(HTMLParser):
    """Of one page: what it loads, where it links to, its anchors, and how many of each element its text has."""

    def __init__(self, file: Path):
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.counts: Counter[str] = Counter()
        self._in_text = False
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attributes}
        self._in_text = tag == "article" or self._in_text
        if self._in_text:
            self.counts[tag] += 1
        self.anchors |= {has["id"]} if "id" in has else set()
        self.links += [has["href"]] if tag == "a" and "href" in has else []
        if tag != "a":
            self.loaded += [has[name] for name in ("src", "href", "srcset", "data") if name in has]

    def handle_endtag(self, tag: str) -> None:
        self._in_text = self._in_text and tag != "article"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="`make docs` installs what builds the site")
    home = tmp_path_factory.mktemp("site")
    make_site.main(home / "site", home / "workshop")
    return home / "site"


@pytest.mark.slow
def test_no_page_loads_anything_from_outside(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        assert [one for one in Reading(page).loaded if re.match(r"(\w+:)?//", one)] == [], page.name
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:\w+:)?//[^)\"']*", sheet.read_text("utf-8")) == [], sheet.name


@pytest.mark.slow
def test_every_link_of_the_built_site_leads_somewhere(site: Path) -> None:
    read = {page: Reading(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, found in read.items():
        for link in found.links:
            path, _, anchor = link.partition("#")
            if ":" in path:
                continue
            there = (page.parent / path).resolve() if path else page
            there = there / "index.html" if there.is_dir() else there
            assert there.is_file(), f"{page.name}: {link}"
            assert not anchor or there not in read or anchor in read[there].anchors | {"__skip"}, f"{page.name}: {link}"


@pytest.mark.slow
@pytest.mark.parametrize("element", ["li", "pre", "table", "h2"])
def test_pages_have_as_many_lists_and_blocks_as_on_github(site: Path, element: str) -> None:
    kinds = {"li": {"list_item_open"}, "pre": {"fence", "code_block"}, "table": {"table_open"}, "h2": {"heading_open"}}
    for file in site_files():
        if file.endswith(".md"):
            tokens = [token for token in parsed(ROOT / file) if token.type in kinds[element]]
            wanted = sum(token.tag == "h2" for token in tokens) if element == "h2" else len(tokens)
            built = Reading(site / place(file).replace(".md", ".html")).counts[element]
            assert built == wanted, f"{file}: {built} <{element}>, {wanted} on GitHub"


@pytest.mark.slow
def test_a_page_opened_as_a_file_can_be_searched(site: Path, browser: "Browser") -> None:
    with visit(browser, (site / "methods" / "feddm.html").as_uri()) as seen:
        seen.page.get_by_role("button", name="Search").first.click()
        seen.page.keyboard.type("ledger", delay=50)
        seen.page.get_by_text(re.compile(r"\d+ results")).wait_for()
        assert [one for one in seen.requests if not one.startswith("file:")] == []
        assert seen.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("page", ["index", "federation", "cluster"])
def test_no_command_is_cut_off_at_the_edge(site: Path, browser: "Browser", page: str, width: int) -> None:
    with visit(browser, (site / f"{page}.html").as_uri(), width=width) as seen:
        blocks = ".language-sh code, .language-yaml code, .language-text code"
        hidden = "all => all.map(one => [one.scrollWidth - one.clientWidth, one.textContent.slice(0, 60)])"
        found = seen.page.eval_on_selector_all(blocks, hidden)
        assert found
        assert [one for one in found if one[0] > 0] == []


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_from_what_is_behind_them(site: Path, browser: "Browser", dark: bool) -> None:
    with visit(browser, (site / "howto" / "own-table.html").as_uri(), dark=dark, width=1280) as seen:
        assert [one for one in serious_violations(seen.page) if one.startswith("color-contrast")] == []
