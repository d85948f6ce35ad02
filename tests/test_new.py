"""The skeleton of a method is a method: all it lacks is its mathematics and the numbers of its test."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.errors import UserError
from understudy.new import Skeleton, write

ROOT = Path(__file__).parents[1]
WHOLE, TERM = Skeleton("aa-new", term=False), Skeleton("zz-term", term=True)  # imported first and last


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the clone, with a skeleton of each shape."""
    root = tmp_path_factory.mktemp("clone")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for skeleton in (WHOLE, TERM):
        write(skeleton, root)
    return root


def run(clone: Path, *words: str) -> tuple[int, str]:
    """A program of Python on the copy's own code."""
    environment = {"PYTHONPATH": str(clone / "src"), "HOME": str(clone)}
    done = subprocess.run([sys.executable, "-m", *words], cwd=clone, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def written_files() -> list[str]:
    return [path for skeleton in (WHOLE, TERM) for path in skeleton.new_files()]


def test_it_is_written_as_the_house_writes(clone: Path) -> None:
    for check in (["check"], ["format", "--check"]):
        code, said = run(clone, "ruff", *check, *written_files())
        assert code == 0, said


@pytest.mark.slow
def test_its_types_are_right(clone: Path) -> None:
    code, said = run(clone, "mypy", *written_files())
    assert code == 0, said


def test_it_keeps_the_contract(clone: Path) -> None:
    checks = "inline or wherever or any_order or stopping or empty or dropped"
    chosen = f"({WHOLE.name} or {TERM.name}) and ({checks}) and not fed"
    code, said = run(clone, "pytest", "-q", "tests/contract/test_contract.py", "-k", chosen)
    assert code == 0, said
    assert "passed" in said


def test_its_own_test_fails_until_a_number_is_filled_in(clone: Path) -> None:
    code, said = run(clone, "pytest", "-q", *(f"tests/methods/test_{one.module}.py" for one in (WHOLE, TERM)))
    assert code == 1
    for skeleton in (WHOLE, TERM):
        assert f"{skeleton.name} has no number worked by hand yet: fill in BY_HAND" in said
    assert "2 failed, 1 passed" in said


def test_its_bugs_can_be_planted(clone: Path) -> None:
    code, said = run(clone, "pytest", "-q", "tests/mutants/test_mutants_list.py", "-k", "every")
    assert code == 0, said


@pytest.mark.parametrize("name", ["Fed", "fed_new", "2fed", "fed new", "class", "../fed", ""])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="cannot be a method's name; use lower-case letters"):
        write(Skeleton(name, term=False), ROOT)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("fedavg", "src/understudy/methods/fedavg.py"),
        ("dp-fedprox", "src/understudy/methods/dp_fedavg.py"),  # another file's second method
        ("fedssyn", "src/understudy/methods/fedssyn/fedssyn.py"),
        ("client", "src/understudy/federation/client.py"),  # its class would be a second Client
    ],
)
def test_a_name_that_is_taken_is_refused(name: str, where: str) -> None:
    with pytest.raises(UserError, match=f"^'{name}' is taken by {where}; choose another name.$"):
        write(Skeleton(name, term=False), ROOT)


def test_it_is_for_clones_only(clone: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "understudy.new", "method", "fednew"]
    done = subprocess.run(
        words, cwd=tmp_path, env={"PYTHONPATH": str(clone / "src")}, check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "This is not a clone of understudy; change to its folder, the one with the Makefile.\n"
