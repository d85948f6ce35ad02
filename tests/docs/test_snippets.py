"""What README and the pages show can be typed.

The blocks of a page run one after the other in a folder and a process of their own: commands in small sizes, Python
(later blocks go on with the names of earlier ones), and files that a comment above the block names
(``<!-- file: cautious.py -->``). Configs and policies in YAML are read. A block under ``<!-- checked: why -->`` takes
too long: its commands, options and settings are looked up. One under ``<!-- not run: why -->`` is left alone.
"""

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

from in_a_fork import in_a_fork
from shown_commands import check, check_in_passing, commands, run_small
from understudy.config.resolve import resolve
from understudy.privacy.policy import read_policy
from written_pages import ROOT, Block, blocks, code_in_passing, pages, written_by_hand

PAGES = [page for page in pages() if page.suffix == ".md"]
SHOWING = [page for page in PAGES if written_by_hand(page) and any(block.language for block in blocks(page))]


def shown_works(block: Block, folder: Path, names: dict[str, Any]) -> None:
    if block.mark == "not run":
        return
    if block.mark == "file":
        (folder / block.said).write_text(block.text)
    if block.language == "python":
        _python(block, names)
    elif block.language == "yaml":
        _settings(block, folder)
    elif block.language == "sh":
        for words in commands(block.text):
            check(words)
            if block.mark != "checked":
                run_small(words, folder)


def _python(block: Block, names: dict[str, Any]) -> None:
    program = compile(block.text, str(block), "exec")
    if not block.mark:
        exec(program, names)
    elif block.mark == "checked":
        for line in ast.parse(block.text).body:
            if isinstance(line, ast.Import | ast.ImportFrom):
                exec(ast.unparse(line), {})


def _settings(block: Block, folder: Path) -> None:
    words = yaml.safe_load(block.text)
    if "method" in words or "data" in words:
        resolve(words, {})
    else:
        (folder / "policy-as-shown.yaml").write_text(block.text)
        read_policy(folder / "policy-as-shown.yaml")


def page_works(page: Path, folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        try:
            shown_works(block, folder, names)
        except BaseException as wrong:
            wrong.add_note(f"in the block at {block}")
            raise


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_works(page: Path, tmp_path: Path) -> None:
    done = in_a_fork(lambda: page_works(page, tmp_path), tmp_path, seconds=1200)
    assert done.returncode == 0, done.stderr


def test_a_block_of_python_goes_on_where_the_one_before_it_ended(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\na = 1\n```\n\nWords.\n\n```python\nassert a == 1\n```\n")
    page_works(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_passing_are_commands(page: Path) -> None:
    for text in code_in_passing(page):
        if text.startswith("understudy "):
            check_in_passing(text)


def test_what_cannot_be_typed_is_found(tmp_path: Path) -> None:
    for wrong in (
        "understudy rnu digits-skewed",
        "understudy run digits-skewed --outt runs/a",
        "understudy run digits-skewed method.lcoal.lr=1",
        "make tset",
        "pip install '.[imagse]'",
        "rm -rf /",
    ):
        with pytest.raises(BaseException, match=r"."):
            shown_works(Block(tmp_path, 1, "sh", wrong, "checked", "slow"), tmp_path, {})
    for wrong in ("understudy rnu FILE", "understudy report runs/* --outt FILE"):
        with pytest.raises(AssertionError):
            check_in_passing(wrong)
    check_in_passing("understudy … --anything")
    with pytest.raises(AttributeError, match="rnu"):
        shown_works(Block(tmp_path, 1, "python", "import understudy as us; us.rnu()", "", ""), tmp_path, {})
    with pytest.raises(Exception, match="lcoal"):
        shown_works(Block(tmp_path, 1, "yaml", "method: {lcoal: 1}", "", ""), tmp_path, {})


def test_every_block_of_commands_or_python_says_what_it_is() -> None:
    """A fence without a language is not looked at: it holds what a command prints, or a drawing."""
    for page in PAGES:
        for block in blocks(page):
            if not block.language and written_by_hand(page):
                assert not block.text.startswith(("understudy ", "make ", "pip ", "import ")), str(block)
