"""The notebooks run from top to bottom, and are kept without what they print."""

import json
from pathlib import Path

import pytest

from written_pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_three() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["compare-methods", "hospital-table", "write-a-method"]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_outputs_are_not_kept(file: Path) -> None:
    for cell in json.loads(file.read_text())["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_to_its_end(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="`make docs` installs what runs notebooks")
    pytest.importorskip("ipykernel", reason="`make docs` installs what runs notebooks")
    import nbformat

    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(file, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert list((tmp_path / "runs").iterdir())
