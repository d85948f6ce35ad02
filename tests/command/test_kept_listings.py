"""Listings that are kept between commands: quick, and never out of date."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import understudy
from understudy.cli import kept_listings
from understudy.cli.kept_listings import kept
from understudy.config.describe import describe_methods


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "package"
    (home / "methods").mkdir(parents=True)
    for name in ("__init__.py", "methods/fedavg.py"):
        (home / name).write_text("1")
    monkeypatch.setattr(understudy, "__file__", str(home / "__init__.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return home


@pytest.mark.usefixtures("package")
def test_what_was_listed_once_is_not_worked_out_again() -> None:
    assert kept("methods", lambda: [("fedavg", 1)]) == [["fedavg", 1]]
    assert kept("methods", lambda: pytest.fail("worked out again")) == [["fedavg", 1]]
    assert kept("models", lambda: ["mlp"]) == ["mlp"], "another listing"


@pytest.mark.parametrize("change", ["a file is edited", "a file is added", "a file goes", "another version"])
def test_a_listing_of_other_files_is_never_shown(change: str, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept("methods", lambda: ["old"])
    if change == "a file is edited":
        (package / "methods/fedavg.py").write_text("2")
    elif change == "a file is added":
        (package / "methods/fednew.py").write_text("")
    elif change == "a file goes":
        (package / "methods/fedavg.py").unlink()
    else:
        monkeypatch.setattr(understudy, "__version__", "another")
    assert kept("methods", lambda: ["new"]) == ["new"]


@pytest.mark.usefixtures("package")
def test_a_damaged_listing_is_made_again_and_old_ones_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kept("methods", lambda: ["old"])
    monkeypatch.setattr(kept_listings, "MOST", 2)
    (file,) = kept_listings._cache().iterdir()
    file.write_text("[")
    assert kept("methods", lambda: ["new"]) == ["new"]
    for what in "abc":
        kept(what, list)
    assert len(list(kept_listings._cache().iterdir())) == 2


def test_the_command_prints_what_would_be_worked_out_and_needs_no_torch_for_it() -> None:
    def say(*words: str, without_torch: bool) -> subprocess.CompletedProcess[str]:
        hide = "import sys; sys.modules['torch'] = None; " if without_torch else ""
        code = f"{hide}import sys; sys.argv[1:] = {list(words)!r}; from understudy.cli import main; main()"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    first, second = (say("methods", without_torch=again).stdout for again in (False, True))
    assert first == second
    one = say("methods", "scaffold", "--json", without_torch=True).stdout
    told: Any = json.loads(one)
    assert told == json.loads(json.dumps(describe_methods("scaffold")))
