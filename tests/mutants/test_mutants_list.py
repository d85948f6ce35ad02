"""The list of planted bugs cannot rot: each can still be planted, and its tests are there. `make mutants` runs them."""

from pathlib import Path

import pytest
from planted import ROOT, Mutant, Stale, load, named
from run_mutants import Copy

SIGN = Mutant("sign", "sums.py", "a + b", "a - b", ("test_sums.py::test_two_and_two",), "a sign")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Code of one function and its test."""
    (tmp_path / "src" / "understudy").mkdir(parents=True)
    (tmp_path / "src" / "understudy" / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sums.py").write_text("def test_two_and_two():\n    assert 2 + 2 == 4\n")
    return tmp_path


def test_every_bug_can_be_planted_and_its_tests_are_there() -> None:
    for mutant in load():
        mutant.planted()
        mutant.check_tests()


def test_every_method_and_every_room_has_some() -> None:
    files = {mutant.file for mutant in load()}
    helpers = {"__init__", "precompute"}  # no mathematics of their own
    methods = {path.stem for path in (ROOT / "src" / "understudy" / "methods").rglob("*.py")} - helpers
    assert methods <= {Path(file).stem for file in files if file.startswith("methods/")}
    rooms = {"data", "models", "learning", "privacy", "synthesis", "federation", "config", "runs", "papers", "view"}
    assert rooms <= {file.partition("/")[0] for file in files}


def test_a_bug_is_planted_where_its_old_text_stood(tiny: Path) -> None:
    assert SIGN.planted(tiny) == "def add(a, b):\n    return a - b\n"


@pytest.mark.parametrize(("old", "times"), [("a * b", 0), ("a", 3)])
def test_old_text_that_does_not_stand_there_once_is_an_error_that_names_the_bug(
    tiny: Path, old: str, times: int
) -> None:
    stale = Mutant("stale", "sums.py", old, "", ("test_sums.py",), "")
    with pytest.raises(Stale, match=rf"^stale: its old text stands {times} times in sums.py"):
        stale.planted(tiny)


@pytest.mark.parametrize("test", ["test_gone.py", "test_sums.py::test_gone", "test_sums.py::test_two"])
def test_a_test_that_is_gone_is_an_error_that_names_the_bug(tiny: Path, test: str) -> None:
    with pytest.raises(Stale, match=f"^sign: there is no test {test}"):
        Mutant("sign", "sums.py", "a + b", "a - b", (test,), "").check_tests(tiny)


def test_bugs_are_chosen_by_how_their_names_begin() -> None:
    others = [SIGN, Mutant("other", "", "", "", (), "")]
    assert named(others, []) == others
    assert named(others, ["si"]) == [SIGN]
    with pytest.raises(Stale, match="begins with 'x'"):
        named(others, ["si", "x"])


def test_a_bug_is_in_the_copy_only_and_only_for_its_turn(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = Copy(tmp_path_factory.mktemp("copies") / "one", tiny)
    here, there = (root / "src" / "understudy" / "sums.py" for root in (tiny, copy.folder))
    with copy.with_bug(SIGN):
        assert "a - b" in there.read_text()
        assert "a + b" in here.read_text()
    assert there.read_text() == here.read_text()


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [(0, "survived"), (1, "killed"), (None, "killed"), (2, "error"), (4, "error"), (5, "error")],
)
def test_only_a_test_that_fails_or_does_not_end_finds_a_bug(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returned: int | None, outcome: str
) -> None:
    copy = Copy(tmp_path / "copy", tiny)
    monkeypatch.setattr(copy, "run", lambda tests, seconds: (returned, ""))
    assert copy.judge(SIGN).outcome == outcome
