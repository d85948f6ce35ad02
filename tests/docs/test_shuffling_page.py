"""What the page on shuffling shows works as it stands there."""

import re
from pathlib import Path

import pytest

import understudy as us
from understudy.errors import UserError
from understudy.synthesis.generator import entry

PAGE = Path(__file__).parents[2] / "docs" / "shuffling.md"


def written(folder: Path) -> Path:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (folder / "mine.py").write_text(code)
    return folder / "mine.py"


def test_a_generator_of_ones_own_runs_by_its_file(tmp_path: Path) -> None:
    own = {"name": f"{written(tmp_path)}:Blends", "least": 0.4}
    changes = {
        "with": [{"name": "fedssyn", "generator": own, "images": 20}],
        "data": {"name": "digits", "limit": 120, "clients": 2, "split": {"kind": "iid"}},
    }
    result = us.run("digits-skewed", out=tmp_path / "run", rounds=1, changes=changes)
    assert len(list((tmp_path / "run" / "synthetic").iterdir())) == 2
    assert result.metrics[0]["failures"] == []
    again = us.run("digits-skewed", out=tmp_path / "again", rounds=1, changes={**changes, "engine": {"name": "inline"}})
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        again.folder / "model.safetensors"
    ).read_bytes()  # in workers, which read the file themselves, and in one process


def test_what_is_no_generator_is_named(tmp_path: Path) -> None:
    file = written(tmp_path)
    with pytest.raises(UserError, match=r"mine\.py:BlendsSettings is not a generator; write @generator"):
        entry(f"{file}:BlendsSettings")
    with pytest.raises(UserError, match="has no 'Missing'; it has"):
        entry(f"{file}:Missing")
    with pytest.raises(UserError, match="There is no file"):
        entry(f"{tmp_path / 'nowhere.py'}:Blends")
