"""The page on the live page: its states and sentences are those of the code."""

import re
from pathlib import Path
from typing import get_args

import pytest

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


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_of_the_page_is_in_the_code(sentence: str) -> None:
    """Word for word, but for what is filled in."""
    assert sentence.replace("There is no folder nothing", "There is no folder {folder}") in SOURCES


def test_six_sentences_are_shown() -> None:
    assert len(SENTENCES) == 6
