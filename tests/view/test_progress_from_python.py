"""A call from Python shows how far it is in a terminal and in a notebook, and nowhere else."""

import os
import pty
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import understudy as us
from in_a_fork import in_a_fork
from understudy.api.shown import shown
from understudy.runs.watching import Aloud, Observer
from understudy.view.progress import RichProgress

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "limit": 60, "clients": 2, "split": "iid"},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 1}},
    "engine": "inline",
}


class Page:
    """Stands in for IPython in a kernel: keeps what is displayed and each update of it."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> "Page":
        assert raw
        assert display_id
        self.shown.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    made, ipython, display = Page(), ModuleType("IPython"), ModuleType("IPython.display")
    shell = type("Shell", (), {"kernel": object()})()
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display.display = made.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return made


def test_a_notebook_shows_one_place_that_changes_with_every_round(page: Page, tmp_path: Path) -> None:
    result = us.run(SMALL, out=tmp_path / "run")
    texts = [one["text/plain"] for one in page.shown]
    assert texts[0] == "Starting …", "before anything else"
    assert any(text.startswith("opening") for text in texts)
    assert re.search(rf"round 2/2  {100 * (result.accuracy or 0):.1f} %", texts[-1])
    assert '<progress max="2" value="2"></progress>' in page.shown[-1]["text/html"]


def test_above_an_error_nothing_goes_on_starting(page: Page, tmp_path: Path) -> None:
    with pytest.raises(us.UserError):
        us.run(SMALL, lrr=1, out=tmp_path / "run")
    assert page.shown[0]["text/plain"] == "Starting …"
    assert page.shown[-1]["text/plain"] == ""


def test_what_a_client_says_is_no_html_in_a_notebook(page: Page) -> None:
    with shown(None, None) as watching:
        watching().says("<script>alert(1)</script>")
    assert "<script" not in page.shown[-1]["text/html"]
    assert "&lt;script&gt;" in page.shown[-1]["text/html"]


def test_in_ipython_in_a_terminal_there_is_no_page(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: object())
    with shown(None, None) as watching:
        assert isinstance(watching(), Aloud)
    assert page.shown == []


def test_elsewhere_it_is_quiet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    us.run(SMALL, out=tmp_path / "run")
    assert capfd.readouterr() == ("", "")
    us.run(SMALL, out=tmp_path / "again", progress=True)
    assert "round 2/2: accuracy" in capfd.readouterr().err


def test_an_observer_is_told_instead(page: Page) -> None:
    mine = Observer()
    with shown(mine, None) as watching:
        assert watching() is mine
    assert page.shown == []


def kinds_shown(progress: bool | None) -> Callable[[], None]:
    def work() -> None:
        _, slave = pty.openpty()
        sys.stderr = os.fdopen(slave, "w")
        with shown(None, progress) as watching:
            print(type(watching()).__name__)

    return work


def test_a_terminal_has_the_commands_progress_unless_it_is_not_wanted(tmp_path: Path) -> None:
    assert in_a_fork(kinds_shown(None), tmp_path).stdout.strip() == RichProgress.__name__
    assert in_a_fork(kinds_shown(False), tmp_path).stdout.strip() == Aloud.__name__


def test_a_notebook_is_told_within_two_seconds_what_it_waits_for(page: Page) -> None:
    began = time.monotonic()
    with shown(None, None):
        while len(page.shown) < 2 and time.monotonic() - began < 4:
            time.sleep(0.05)
    assert page.shown[1]["text/plain"].startswith("Loading torch … (")
