"""The pages of the documentation, read as GitHub reads them: links, headings and blocks of code."""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
READER = MarkdownIt("commonmark").enable("table")
MARK = re.compile(r"<!-- (file|checked|not run): (.+?) -->")


def pages(root: Path = ROOT) -> list[Path]:
    """Notebooks too: their text has links."""
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "docs").rglob("*.ipynb")]
    return sorted(found)


def written_by_hand(page: Path) -> bool:
    """Commands of generated pages have tests of their own: tests/docs/test_method_pages.py, tests/papers."""
    return page.parent.name != "methods" and "papers" not in page.parts and page.name not in ("api.md", "settings.md")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the comment right above it: ``<!-- not run: why -->``."""

    page: Path
    line: int
    language: str
    text: str
    mark: str  # "", "file", "checked" or "not run"
    said: str  # in the mark, after the colon

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    before: Token | None = None
    for token in parsed(page):
        if token.type == "fence":
            mark = MARK.match(before.content) if before is not None and before.type == "html_block" else None
            line = (token.map or [0])[0] + 1
            yield Block(page, line, token.info, token.content, *(mark.groups() if mark else ("", "")))
        before = token


def links(page: Path) -> Iterator[str]:
    """Targets of links and pictures."""
    for token in _inline(page):
        target = token.attrGet("href" if token.type == "link_open" else "src")
        if token.type in ("link_open", "image") and target is not None:
            yield str(target)


def code_in_passing(page: Path) -> Iterator[str]:
    """`like this`, with line breaks as spaces."""
    for token in _inline(page):
        if token.type == "code_inline":
            yield token.content


@cache
def anchors(page: Path) -> frozenset[str]:
    """Of the headings, as GitHub makes them: a second one of the same name ends in -1."""
    found: dict[str, int] = {}
    tokens = parsed(page)
    for opened, heading in itertools.pairwise(tokens):
        if opened.type == "heading_open":
            text = "".join(part.content for part in heading.children or ())
            name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found[name] = found.get(name, 0) + 1
    return frozenset(name if not at else f"{name}-{at}" for name, times in found.items() for at in range(times))


def dead_links(page: Path, root: Path = ROOT) -> list[str]:
    """Targets that are not there; addresses elsewhere are not tried."""
    return [target for target in links(page) if "://" not in target and not _leads_somewhere(page, target, root)]


def _leads_somewhere(page: Path, target: str, root: Path) -> bool:
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.is_file() or not there.is_relative_to(root.resolve()):  # a folder has no page in the site
        return False
    return not anchor or (there.suffix == ".md" and anchor in anchors(there))


def _inline(page: Path) -> Iterator[Token]:
    for token in parsed(page):
        yield from token.children or ()


@cache
def parsed(page: Path) -> list[Token]:
    text = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return READER.parse(text)
