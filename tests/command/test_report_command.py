"""`understudy report` as a person types it: what it writes, how large it is, and what it refuses."""

import json
from pathlib import Path

import pytest
import torch

from in_a_fork import understudy
from understudy.api.reporting import report
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.runs.folder import RunFolder
from written_runs import change_config, keep, line, write_run

SIDE = Problem((3, 16, 16), 100)


def test_one_file_with_nothing_outside_of_it(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    told = understudy("report", "run", "-o", "pages/report.html", cwd=tmp_path).stdout
    assert told.startswith("Report: pages/report.html (")
    page = (tmp_path / "pages/report.html").read_text()
    assert "reached 50.0 % accuracy on the test records" in page
    assert "There is no privacy guarantee, and what left was not audited." in page
    assert "https://" not in page.replace("https://github.com/leeoniya/uPlot", "")


def test_what_is_not_a_report_is_refused_before_any_work(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    assert "give it the extension .html" in understudy("report", "run", "-o", "a.pdf", cwd=tmp_path, code=2).stderr
    (tmp_path / "empty").mkdir()
    assert "empty is not a run folder" in understudy("report", "empty", "-o", "a.html", cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "a.html").exists()


def test_a_run_that_only_began_has_a_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "metrics.jsonl").unlink()
    report(folder, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "none is scored yet" in page
    assert f"go on with: understudy run --resume --out {folder}" in page
    assert "No round has been written down yet" in page


def test_several_labels_are_told_by_f1(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", (0.9, 0.95), macro_f1=0.25, sample_f1=0.5)
    change_config(folder, problem={**vars(SIDE), "shape": [3, 16, 16], "multilabel": True, "mean": [], "std": []})
    report(folder, tmp_path / "a.html")
    assert "reached 25.0 % F1 over classes" in (tmp_path / "a.html").read_text()


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """100 rounds, 300 clients, 100 classes."""
    names = [f"client-{at}" for at in range(300)]
    folder = write_run(tmp_path / "run", [0.0] * 101, problem=SIDE)
    rng = torch.Generator().manual_seed(0)
    with (folder / "metrics.jsonl").open("w") as file:
        for round in range(101):
            recall = torch.rand(100, generator=rng).tolist()
            asked = dict.fromkeys(names, (10, 10))
            file.write(json.dumps(line(round, 0.009 * round, loss=1.0, recall=recall, bytes_by_client=asked)) + "\n")
    counts = {name: {"records": 100, "held_out": 0, "classes": {str(c): 1 for c in range(100)}} for name in names}
    content = {"classes": [f"class {c}" for c in range(100)], "clients": counts}
    RunFolder(folder).write_json("holdings.json", content)
    return folder


def test_a_large_run_gives_a_small_page(large: Path) -> None:
    report(large, large.parent / "a.html")
    assert (large.parent / "a.html").stat().st_size < 3_000_000
    rng = torch.Generator().manual_seed(0)
    noise = [torch.randint(0, 256, (400, 3, 16, 16), dtype=torch.uint8, generator=rng) for _ in range(30)]
    keep(large, {f"client-{at}": Examples(x, torch.arange(400) % 100) for at, x in enumerate(noise)})
    report(large, large.parent / "b.html", quality=False)
    page = (large.parent / "b.html").read_text()
    assert 3_000_000 < len(page) < 8_000_000
    assert "of 12,000 images" in page
    assert "Quality is not measured" in page
