"""The pages of methods and settings say what these are, and their commands are real."""

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from understudy.config.build import build_data, build_method
from understudy.config.describe import describe_methods
from understudy.config.read import pairs, read
from understudy.config.resolve import resolve
from understudy.papers.printed import PRINTED
from understudy.papers.reproduce import STUDIES
from understudy.papers.stored import write_table
from understudy.papers.study import Findings, StudyLine

DOCS = Path(__file__).parents[2] / "docs"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_pages", DOCS / "make_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_page_is_what_its_method_gives() -> None:
    for name, text in maker().pages().items():
        page = DOCS / "methods" / f"{name}.md"
        assert page.exists(), f"{name} has no page; run python docs/make_pages.py"
        assert page.read_text() == text, f"{page.name} is out of date; run python docs/make_pages.py"


def test_the_pages_about_all_of_them_are_as_well() -> None:
    make = maker()
    written = {
        DOCS / "methods" / "README.md": make.index(),
        DOCS / "settings.md": make.settings_page(),
        DOCS.parent / "README.md": make.readme(),
        DOCS / "data-kinds.md": make.kinds_page(),
    }
    for page, text in written.items():
        assert page.read_text() == text, f"{page.name} is out of date; run python docs/make_pages.py"


SPRING: dict[str, Any] = {
    "name": "spring",
    "role": "method",
    "about": "A spring.",
    "command": "run method=spring",
    "family": "averaging",
    "reference": [],
    "presets": {},
    "sends": {"Averaging.train": {"change": "weights"}},
    "sends_in_words": "its change",
    "joins": [],
    "takes": {"image": "", "vector": "dsa=false"},
}
ADDED = {**SPRING, "role": "add-on", "command": "run with=spring", "sends": {}, "sends_in_words": "nothing more"}


def test_a_name_that_is_a_method_and_an_add_on_has_one_page_for_both() -> None:
    text = maker().page([SPRING, ADDED])
    assert "```\nrun method=spring\nrun with=spring\n```" in text
    assert text.count("A spring.") == 1
    assert text.index("### As a method") < text.index("### As an add-on")
    assert "### As" not in maker().page([SPRING])


def test_settings_are_marked_in_sentences_and_not_in_formulas() -> None:
    text = maker().page([{**SPRING, "about": "A spring of ``mu``:\n\n    ``mu``·(w − w_t)\n\nIt pulls."}])
    assert "A spring of ``mu``:\n\n    mu·(w − w_t)\n\nIt pulls." in text


def test_a_list_is_shown_as_it_is_written_in_a_config() -> None:
    lists = [
        {"setting": "kinds", "default": ("flip", "crop"), "meaning": "to draw from"},
        {"setting": "shares", "default": [0.25, None], "meaning": "of it"},
        {"setting": "none", "default": (), "meaning": "at first"},
    ]
    text = maker().page([{**SPRING, "reference": lists}])
    assert "| `kinds` | [flip, crop] | to draw from |" in text
    assert "| `shares` | [0.25, null] | of it |" in text
    assert "| `none` | [] | at first |" in text


def test_who_made_a_table_is_said_in_a_sentence() -> None:
    said = maker().maker_in_words("carried over from docs/studies/skew, commit d99b1d8; understudy 0.2.0, commit abc")
    assert said == "an earlier study, docs/studies/skew as of commit d99b1d8; understudy 0.2.0, commit abc"


def test_the_table_of_kinds_has_a_tick_a_setting_or_nothing() -> None:
    assert maker().kinds_taken({"spring": [SPRING]}).splitlines() == [
        "| method | images | vectors | sequences | tokens |",
        "|---|:-:|:-:|:-:|:-:|",
        "| `spring` | ✓ | `dsa=false` |  |  |",
    ]
    assert "Kinds of record ([what they are](../data-kinds.md)): image, vector (with dsa=false)." in maker().page(
        [SPRING]
    )


def test_the_table_of_families_names_everybody_once_and_what_differs() -> None:
    control = {**SPRING, "name": "control", "sends_in_words": "its change twice"}
    other = {**SPRING, "name": "other"}
    mask = {**ADDED, "name": "mask", "family": "of its own"}
    found = {"spring": [SPRING, ADDED], "control": [control], "mask": [mask], "other": [other]}
    assert maker().family_table(found).splitlines()[2:] == [
        "| averaging | `spring`, `control`, `other` | its change; `control`: its change twice |",
        "| of its own (add-on) | `mask` | nothing more |",
    ]


def test_a_printed_number_belongs_to_a_method_of_the_house() -> None:
    known = {about["name"] for about in describe_methods()}
    assert {name for one in PRINTED for name in one.figures} <= known


def test_our_numbers_are_those_of_a_tables_lines(tmp_path: Path) -> None:
    lines = [StudyLine("a", [0.5, 0.7], rate=0.1), StudyLine("b", [0.255])]
    table = write_table(tmp_path / "table.json", "some", "desk", Findings("about", lines))
    # The mean of 50 and 70 is 60, their deviation √(100 + 100).
    rows = [(row.label, row.rate, row.figure) for row in maker().read_rows(table)]
    assert rows == [("a", 0.1, "60.0 ± 14.1"), ("b", None, "25.5")]


def test_every_study_with_our_numbers_is_a_command() -> None:
    for study in STUDIES.values():
        assert study.shown is None or study.shown.scale in study.scales


@pytest.mark.parametrize("about", describe_methods(), ids=lambda about: about["name"])
def test_the_command_of_a_page_can_be_built(about: dict[str, Any]) -> None:
    command, source, *changes = shlex.split(about["command"])[1:]
    assert command == "run"
    config = resolve(read(source), pairs(changes))
    build_method(config, build_data(config), "eager")


@pytest.mark.parametrize("folder", maker().study_folders(), ids=lambda folder: folder.name)
def test_what_a_studys_page_says_in_numbers_follows_from_its_table(folder: Path) -> None:
    assert (folder / "README.md").read_text() == maker().study_page(folder), "run python docs/make_pages.py"


def test_computed_sentences_take_the_place_between_the_marks(tmp_path: Path) -> None:
    study_page = maker().study_page
    (tmp_path / "table.json").write_text(json.dumps({"notes": ["ζ² falls to 0.22.", "Others stay."]}))
    marked = "By hand.\n\n<!-- notes: ζ² -->\n- ζ² halves.\n<!-- end -->\n"
    (tmp_path / "README.md").write_text(marked)
    assert study_page(tmp_path) == "By hand.\n\n<!-- notes: ζ² -->\n- ζ² falls to 0.22.\n<!-- end -->\n"
    (tmp_path / "README.md").write_text("<!-- notes -->\n<!-- end -->")
    assert study_page(tmp_path) == "<!-- notes -->\n- ζ² falls to 0.22.\n- Others stay.\n<!-- end -->"
    (tmp_path / "README.md").write_text("<!-- notes: σ² -->\n<!-- end -->")
    with pytest.raises(ValueError, match="no note that begins with 'σ²'"):
        study_page(tmp_path)
