"""What the page on the architecture names is there: files, and the functions and classes in them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "understudy"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
NAMED = re.findall(r"`([\w/]+\.py)`\s`(\w[\w.]*)`", PAGE)  # `file` `name`
FILES = set(re.findall(r"`([\w/]+\.py)`", PAGE))
FOLDERS = set(re.findall(r"`([\w/]+/)`", PAGE))
HOPS = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
CLASSES = set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE))


def defined_in(file: str) -> set[str]:
    """Functions and classes, and what is in the classes as Class.name."""
    found = set()
    for node in ast.parse((HOUSE / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("file", sorted(FILES))
def test_a_file_of_the_page_is_there(file: str) -> None:
    assert (HOUSE / file).is_file()


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED)))
def test_a_name_of_the_page_is_in_its_file(file: str, name: str) -> None:
    assert name in defined_in(file)


def test_classes_named_in_passing_are_classes_of_the_house() -> None:
    texts = [file.read_text() for file in HOUSE.rglob("*.py")]
    every = {name for text in texts for name in re.findall(r"^class (\w+)", text, re.MULTILINE)}
    assert CLASSES - every == {"SplitSettings"}  # a union


def test_every_room_has_its_line() -> None:
    rooms = {f"{path.parent.name}/" for path in HOUSE.glob("*/__init__.py")}
    assert rooms <= FOLDERS
    assert all((HOUSE / folder).is_dir() for folder in FOLDERS - {"src/understudy/"})


def test_the_run_is_followed_in_at_most_25_hops() -> None:
    assert [int(hop) for hop in HOPS] == list(range(1, len(HOPS) + 1))
    assert 20 <= len(HOPS) <= 25


def test_the_glossary_is_short() -> None:
    words = re.findall(r"^\*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert 10 <= len(words) <= 20
    assert words == sorted(words, key=str.lower)
