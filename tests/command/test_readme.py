"""Every example of the README does what it says."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

import understudy as us
from in_a_fork import in_a_fork, understudy

README = Path(__file__).parents[2].joinpath("README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
PROGRAMS = [text for language, text in BLOCKS if language == "python" and "us.run" in text]


@pytest.mark.parametrize("program", PROGRAMS, ids=["preset", "own-arrays"])
def test_python_examples_run(program: str, tmp_path: Path) -> None:
    done = in_a_fork(lambda: exec(program, {"__name__": "__main__"}), tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[0]) >= 0


def test_the_method_of_the_readme_runs_by_name(tmp_path: Path) -> None:
    (file,) = [text for language, text in BLOCKS if language == "python" and "class Cautious" in text]
    (tmp_path / "cautious.py").write_text(file)
    command = "run digits-skewed method=cautious.py:Cautious method.share=0.3"
    assert f"understudy {command}" in README
    understudy(*command.split(), "rounds=1", cwd=tmp_path)


def test_the_config_of_the_readme_runs_on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("north/cat", "north/dog", "south/cat", "south/dog"):
        folder = tmp_path / "pictures" / name
        folder.mkdir(parents=True)
        for i in range(6):
            Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(folder / f"{i}.png")
    (words,) = [yaml.safe_load(text) for language, text in BLOCKS if language == "yaml"]
    result = us.run(words, rounds=1, engine="inline", out=tmp_path / "run")
    assert result.metrics[-1]["scored_at"] == "clients"


def test_every_command_of_the_readme_is_one(tmp_path: Path) -> None:
    commands = re.findall(
        r"^understudy ((?:run digits|sweep|sheet|methods|generators|data|privacy epsilon).*?)(?:\s+#.*)?$",
        README,
        re.MULTILINE,
    )
    assert len(commands) == 10
    quick = ["rounds=1", "data.limit=100", "clients=3", "model=softmax"]
    for command in commands:
        words = shlex.split(command)
        if words[0] in ("run", "sweep"):
            words += quick
        if "method=feddm" in words:
            words += ["method.steps=2", "method.server.epochs=2"]
        if "with=fedssyn" in words:
            words += ["with.fedssyn.generator={name: vae, epochs: 2}", "with.fedssyn.sound_only=false"]
        understudy(*words, cwd=tmp_path)
