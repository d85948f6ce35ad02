"""The pages of the methods say what the methods are, and their commands are real."""

import importlib.util
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from understudy.config.build import build_data, build_method, build_network
from understudy.config.read import pairs, read
from understudy.config.resolve import resolve
from understudy.studies.catalogue import describe_methods

DOCS = Path(__file__).parents[2] / "docs"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_pages", DOCS / "make_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_what_its_method_gives() -> None:
    for name, text in maker().pages().items():
        page = DOCS / "methods" / f"{name}.md"
        assert page.exists(), f"{name} has no page; run python docs/make_pages.py"
        assert page.read_text() == text, f"{page.name} is out of date; run python docs/make_pages.py"


@pytest.mark.parametrize("about", describe_methods(), ids=lambda about: about["name"])
def test_the_command_of_a_page_can_be_built(about: dict[str, Any]) -> None:
    command, source, *changes = shlex.split(maker()._command(about))[1:]
    assert command == "run"
    config = resolve(read(source), pairs(changes))
    build_method(config, build_network(config, build_data(config).problem, "eager"))
