"""The README's config runs on files; tests/docs/test_snippets.py runs its commands and its Python."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import understudy as us

README = Path(__file__).parents[2].joinpath("README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


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
