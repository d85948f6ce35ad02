"""The page on the live page: its states, commands and sentences are those of the code."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
import typer

from understudy.cli.app import app
from understudy.runs.standing import Stands

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "live-page.md").read_text()
SOURCES = "\n".join(
    path.read_text() for path in (ROOT / "src" / "understudy").rglob("*") if path.suffix in (".py", ".js", ".html")
)
SENTENCES = re.findall(r"^\| [a-z ]+ \| `+([A-Z].+?)`+ \|$", PAGE, re.MULTILINE)


def test_the_states_are_those_that_runs_have() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| ", PAGE.partition("| state | means |")[2].partition("A run that")[0], re.M)
    assert sorted(rows) == sorted(get_args(Stands))


@pytest.mark.parametrize("line", re.findall(r"^understudy .+?(?=\s+#|$)", PAGE, re.MULTILINE))
def test_a_command_of_the_page_is_one(line: str) -> None:
    _, name, *words = shlex.split(line)
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_of_the_page_is_in_the_code(sentence: str) -> None:
    """Word for word, but for what is filled in."""
    assert sentence.replace("There is no folder nothing", "There is no folder {folder}") in SOURCES


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)[)#]", PAGE):
        assert (ROOT / "docs" / target).exists(), target
    assert len(SENTENCES) == 6
