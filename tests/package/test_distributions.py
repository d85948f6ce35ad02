"""Wheel and source distribution, built from a copy of the clone, and the wheel in an environment of its own."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import understudy

ROOT = Path(__file__).parents[2]
NOT_COPIED = (".git", *(ROOT / ".gitignore").read_text().split())
IN_THE_DEMO = {"fedavg", "scaffold", "fedavg+fedcog", "feddm", "fedavg+fedssyn"}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """As a user would: without what this process has on its path."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=clean | env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def environment(folder: Path) -> Path:
    """The programs of an empty one."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def not_copied(folder: str, names: list[str]) -> set[str]:
    """As Git reads the patterns: with a slash in front, at the root alone."""
    here = [name.strip("/") for name in NOT_COPIED if not name.startswith("/") or Path(folder) == ROOT]
    return shutil.ignore_patterns(*here)(folder, names)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("built")
    clone = shutil.copytree(ROOT, home / "clone", ignore=not_copied)
    tools = environment(home / "tools")
    if subprocess.run([tools / "pip", "install", "-q", "build"], capture_output=True, check=False).returncode:
        pytest.skip("there is no package index to install `build` from")
    run(tools / "python", "-m", "build", "-o", home / "dist", cwd=clone, UNDERSTUDY_SOURCE="https://example.org/o/n")
    (wheel,), (sdist,) = (home / "dist").glob("*.whl"), (home / "dist").glob("*.tar.gz")
    return Built(wheel, sdist)


def files_in(folder: str) -> set[str]:
    return {
        str(file.relative_to(ROOT))
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and ".egg-info" not in str(file)
    }


def test_the_wheel_has_the_whole_package_and_nothing_else(built: Built) -> None:
    names = set(zipfile.ZipFile(built.wheel).namelist())
    package = {name for name in names if ".dist-info/" not in name}
    assert package == {name.removeprefix("src/") for name in files_in("src/understudy")}


def test_an_index_shows_the_readme_with_links_that_lead_somewhere(built: Built) -> None:
    wheel = zipfile.ZipFile(built.wheel)
    (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    text = wheel.read(metadata).decode()
    assert f"\nVersion: {understudy.__version__}\n" in text
    assert "\nDescription-Content-Type: text/markdown\n" in text
    assert "\nProject-URL: Source, https://example.org/o/n\n" in text
    assert f"(https://example.org/o/n/blob/v{understudy.__version__}/docs/audit.md)" in text
    assert not re.search(r"\]\(docs/", text)


def test_tests_run_from_the_source_distribution(built: Built, tmp_path: Path) -> None:
    run("tar", "xf", built.sdist, cwd=tmp_path)
    (there,) = tmp_path.iterdir()
    wanted = set.union(
        *(files_in(folder) for folder in ("src/understudy", "tests", "docs", "benchmarks", ".ci", ".github"))
    )
    assert {name for name in wanted if not (there / name).is_file()} == set()
    for name in ("Makefile", "constraints.txt", "pyproject.toml", "CHANGELOG.md"):
        assert (there / name).read_text() == (ROOT / name).read_text()
    quick = ("tests/test_names.py", "tests/test_randomness.py", "tests/docs/test_architecture_page.py")
    told = run(sys.executable, "-m", "pytest", "-q", *quick, cwd=there, PYTHONPATH=str(there / "src"))
    assert " passed" in told


def test_the_whole_demo_runs_in_an_empty_environment(built: Built, tmp_path: Path) -> None:
    programs = environment(tmp_path / "environment")
    run(programs / "pip", "install", "-q", "-c", ROOT / "constraints.txt", built.wheel, cwd=tmp_path)
    assert run(programs / "understudy", "--version", cwd=tmp_path) == f"understudy {understudy.__version__}\n"
    told = run(programs / "understudy", "demo", "--out", "demo", cwd=tmp_path)
    assert "One exchange of synthetic pictures" in told
    written = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"report.html", "curves.png", "synthetic.png", "split.png", "runs"} <= written
    assert {path.parent.name for path in (tmp_path / "demo" / "runs").glob("*/summary.json")} == IN_THE_DEMO
