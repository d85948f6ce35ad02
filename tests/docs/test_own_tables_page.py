"""The page on tables shows settings that exist and a snippet that runs."""

import re
from pathlib import Path

import pytest
import yaml

from understudy.config.resolve import resolve

PAGE = Path(__file__).parents[2] / "docs" / "own-tables.md"
TABLE = "patient,age,sex,smoker,bmi,glucose,insulin,pressure,diabetes\n"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def rows(start: int) -> str:
    made = [
        f"P{(start + at) // 2},{30 + at},{'fm'[at % 2]},{['never', 'former', 'current'][at % 3]},"
        f"{20 + at},{90 + at},{80 + at},120,{['no', 'yes'][at % 2]}"
        for at in range(12)
    ]
    return TABLE + "\n".join(made) + "\n"


def test_both_configs_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import understudy as us

    monkeypatch.chdir(tmp_path)
    for at, name in enumerate(("north", "east", "south", "west", "test")):
        (tmp_path / f"{name}.csv").write_text(rows(100 * at))
    plain, private = (yaml.safe_load(text) for text in blocks("yaml"))
    result = us.run({**plain, "engine": "inline"}, rounds=1, out="plain")
    assert result.summary["failed"] == 0
    both = {**plain, **private, "data": {**plain["data"], **private["data"], "labels": ["no", "yes"]}}
    resolve(both)
    result = us.run({**both, "engine": "inline"}, rounds=1, out="private")
    assert result.summary["epsilon"] == pytest.approx(3, abs=0.01)
    assert result.summary["records_per_person"] == 2


def test_the_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    exec(compile(code, str(PAGE), "exec"), {})
    assert (tmp_path / "runs").is_dir()
