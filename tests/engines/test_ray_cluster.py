"""Two real Ray nodes, in a network namespace with nothing but ``lo``: Ray insists on the machine's own address."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import understudy as us
from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.runs.folder import RunFolder
from understudy.runs.play import play

ALONE = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]


def can_be_alone() -> bool:
    tools = shutil.which("unshare") and shutil.which("ip")
    return bool(tools) and subprocess.run([*ALONE, "true"], capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (the extra `ray`)"),
    pytest.mark.skipif(not can_be_alone(), reason="no network namespace can be made here"),
]


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("inline") / "run"
    changes = {"method.name": "scaffold", "method.rounds": 3, "method.local.epochs": 1, "engine.name": "inline"}
    play(resolve(read("digits-skewed"), changes), folder)
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("what", ["nothing", "kill", "remove", "stop"])
def test_two_nodes_give_the_same_bits_whatever_happens_to_them(what: str, inline: bytes, tmp_path: Path) -> None:
    script = Path(__file__).parent / "two_ray_nodes.py"
    done = subprocess.run(
        [*ALONE, sys.executable, str(script), what, str(tmp_path / "run")], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == inline
    died = sum(line["workers_died"] for line in RunFolder(tmp_path / "run").metrics())
    assert died == (1 if what == "kill" else 0) or (what == "remove" and died <= 1)


def test_a_sweep_over_two_nodes_of_which_one_is_lost_finds_what_one_machine_finds(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = Path(__file__).parent / "two_ray_nodes.py"
    command = [*ALONE, sys.executable, str(script), "sweep", str(tmp_path / "there")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    here, there = (
        us.sweep("digits-skewed", {"lr": [0.05, 0.2]}, seeds=[0, 1], out=tmp_path / where, rounds=2, progress=True)
        for where in ("here", "there")
    )
    assert "4 runs, 4 of them done earlier; 0 to do." in capfd.readouterr().err
    assert [run.test for run in there.runs] == [run.test for run in here.runs]
