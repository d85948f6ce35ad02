"""table.json: one schema, read as it was written, and the stored tables of docs as they stand there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from understudy.cli.studies import reproduce
from understudy.errors import UserError
from understudy.papers.reproduce import STUDIES
from understudy.papers.stored import ran_by, read_table, write_table
from understudy.papers.study import Drawing, Findings, Panel, StudyLine, StudyTable, Trace
from understudy.papers.telling import told
from understudy.view.findings import table_pages

STORED = sorted((Path(__file__).parents[2] / "docs/studies").glob("*/table.json"))
LINE = StudyLine(
    "a", [0.5, 0.7], [0.6, 0.7], 0.1, {"0.1": 0.4, "1": None}, 2.0, 3.0, {"f1": 0.5}, [0, 1], [[0.1, 0.5]], [[0.0, 2.0]]
)
FOUND = Findings(
    "about it",
    [LINE],
    {"table": [StudyTable(["method", "rate"], [["a", "0.1"]], "heading")]},
    {"table": Drawing("t", [Panel("p", "x", "y", [Trace("a", [0, 1], [2.0, 3.0], 1, "dots")], level=("l", 2.0))])},
    notes=["It held."],
    numbers={"target": 0.8},
    config={"data": {"name": "digits"}},
    rates=[0.1, 1.0],
    values={("a", "x"): [50.0, 70.0]},
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    content = write_table(tmp_path / "deep/table.json", "some", "desk", FOUND)
    again = read_table(tmp_path / "deep/table.json")
    assert again.lines == FOUND.lines
    assert (again.tables, again.notes, again.numbers) == (FOUND.tables, FOUND.notes, FOUND.numbers)
    assert again.values == FOUND.values
    assert (again.about, again.config, again.rates) == (FOUND.about, FOUND.config, FOUND.rates)
    assert write_table(tmp_path / "again.json", "some", "desk", again) == content
    assert (content["schema"], content["name"], content["scale"]) == (2, "some", "desk")
    assert content["lines"][0]["mean"] == pytest.approx(0.6)
    assert content["pictures"]["table"]["panels"][0]["traces"][0]["style"] == "dots"


def test_a_table_is_made_by_those_who_ran_its_lines() -> None:
    lines = [replace(LINE, label=label, made_by=by) for label, by in (("a", "x; y"), ("b", "y"), ("c", ""))]
    assert ran_by(replace(FOUND, lines=lines), "z") == "x; y"
    assert ran_by(replace(FOUND, made_by="x"), "z") == "x"  # read from a file
    assert ran_by(FOUND, "z") == "z"


@pytest.mark.parametrize("schema", [3, None])
def test_another_schema_is_refused_in_one_sentence(schema: int | None, tmp_path: Path) -> None:
    content = write_table(tmp_path / "table.json", "some", "desk", FOUND)
    (tmp_path / "table.json").write_text(json.dumps({**content, "schema": schema}))
    with pytest.raises(UserError, match=rf"table.json has schema {schema}, but this version reads up to 2; run its"):
        read_table(tmp_path / "table.json")


def test_a_line_with_an_unknown_key_is_refused_too(tmp_path: Path) -> None:
    content = write_table(tmp_path / "table.json", "some", "desk", FOUND)
    (tmp_path / "table.json").write_text(json.dumps({**content, "lines": [{"label": "a", "accuracy": 0.5}]}))
    with pytest.raises(UserError, match=r"table\.json is damaged; restore it from a copy"):
        read_table(tmp_path / "table.json")


def test_the_schema_before_is_read_too(tmp_path: Path) -> None:
    content = write_table(tmp_path / "table.json", "some", "desk", FOUND)
    old = {key: value for key, value in content.items() if key not in ("values", "made_by")} | {"schema": 1}
    old["lines"] = [{key: each[key] for key in each if key not in ("epsilon", "made_by")} for each in content["lines"]]
    (tmp_path / "table.json").write_text(json.dumps(old))
    again = read_table(tmp_path / "table.json")
    assert (again.lines, again.values) == (FOUND.lines, {})


def test_the_command_writes_table_page_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reproduce("feddm-fig1", "smoke", tmp_path)
    folder = tmp_path / "feddm-fig1-smoke"
    said = capsys.readouterr().out
    assert (folder / "table.md").read_text() in said
    assert said.rstrip().endswith(str(folder / "table.png"))
    reproduce("feddm-fig1", "smoke", tmp_path, as_json=True)
    content = json.loads(capsys.readouterr().out)
    published = STUDIES["feddm-fig1"].published
    assert published is not None
    assert [one["claim"] for one in content.pop("verdicts")] == [claim.sentence for claim in published.claims]
    assert content == json.loads((folder / "table.json").read_text())
    found = told(STUDIES["feddm-fig1"], read_table(folder / "table.json"), "smoke")
    assert table_pages(found)["table"] == (folder / "table.md").read_text()


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.parent.name)
def test_every_stored_page_is_what_its_table_gives(file: Path) -> None:
    pages = table_pages(read_table(file))
    stored = {page.stem: page.read_text() for page in file.parent.glob("*.md") if page.stem != "README"}
    assert pages == stored
    content = json.loads(file.read_text())
    assert content["scale"] in STUDIES[content["name"]].scales
