"""What left of a table, as rows: FedDM without steps sends records, so what is read back is known."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
import understudy as us
from understudy.audits.nearest_pairs import nearest_pairs
from understudy.audits.scene import scene_of
from understudy.view.rows import is_of_rows, write_pairs, write_sheet

RECORDS = {"name": "feddm", "steps": 0, "ipc": 3, "min_class_records": 1, "server": {"epochs": 1}}
HEADER = ["weight", "sex", "age", "f10", "f2", "ill"]
# An audit wants 50 records held out. No number is near 0, which rounding would move by more than a share of it.
PEOPLE = [
    [50 + 0.5 * at, "fm"[at % 2], 20 + 0.25 * at, 1000 * (at + 1), 0.001 * (at + 1), "yes" if at % 3 else "no"]
    for at in range(220)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("rows")
    for site, rows in (("north", PEOPLE[:110]), ("south", PEOPLE[110:])):
        with (where / f"{site}.csv").open("w", newline="") as out:
            csv.writer(out).writerows([HEADER, *rows])
    sites = {site: str(where / f"{site}.csv") for site in ("north", "south")}
    data = {"sites": sites, "label": "ill", "scale": "federated", "held_out": 0.25}
    us.run({"data": data, "model": "softmax", "method": RECORDS, "engine": "inline"}, rounds=1, out=where / "run")
    return where / "run"


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def as_written(row: dict[str, Any]) -> tuple[Any, ...]:
    return (float(row["weight"]), row["sex"], float(row["age"]), float(row["f10"]), float(row["f2"]), row["class"])


def test_rows_have_the_tables_own_columns_units_and_words(folder: Path, tmp_path: Path) -> None:
    assert is_of_rows(folder)
    rows = read(write_sheet(folder, tmp_path / "rows.csv"))
    assert list(rows[0]) == ["client", "class", "age", "f2", "f10", "sex", "weight"]
    people = {tuple(one) for one in PEOPLE}
    assert len(rows) == 12  # three of two classes at two sites
    for one in map(as_written, rows):
        near = min(people, key=lambda person: abs(person[2] - one[2]))
        assert one[:1] + one[2:5] == pytest.approx((near[0], near[2], near[3], near[4]), rel=1e-4, abs=1e-6)
        assert (one[1], one[5]) == (near[1], near[5])


def test_so_many_of_each_client_and_class(folder: Path, tmp_path: Path) -> None:
    rows = read(write_sheet(folder, tmp_path / "rows.csv", per_class=2))
    assert sorted((row["client"], row["class"]) for row in rows) == sorted(
        [(site, label) for site in ("north", "south") for label in ("no", "yes")] * 2
    )


def test_a_row_stands_above_the_record_it_is_nearest_to(folder: Path, tmp_path: Path) -> None:
    file = write_pairs(folder, nearest_pairs(scene_of(folder), 3), tmp_path / "pairs.csv")
    assert file is not None
    rows = read(file)
    assert [(row["pair"], row["which"]) for row in rows] == [
        (str(pair), which) for pair in (1, 2, 3) for which in ("left", "record")
    ]
    for left, record in zip(rows[::2], rows[1::2], strict=True):
        assert left["near-copy"] == "true"
        assert as_written(left) == as_written(record)


def test_a_picture_of_rows_is_refused_with_what_to_write(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(us.UserError, match=r"sheet\.png: the records of this run are rows of a table.*-o sheet\.csv"):
        write_sheet(folder, tmp_path / "sheet.png")


def test_features_of_arrays_have_numbers(tmp_path: Path) -> None:
    x, y = np.arange(40, dtype=np.float32).reshape(20, 2), np.arange(20) % 2
    data = us.Federation.from_arrays({"north": (x, y)}, held_out=0.2, scale="none")
    run = us.run(
        data=data, model="softmax", method=RECORDS, rounds=1, out=tmp_path / "run", changes={"engine": "inline"}
    )
    rows = read(write_sheet(run.folder, tmp_path / "rows.csv"))
    assert list(rows[0]) == ["client", "class", "feature 0", "feature 1"]
    assert {(float(row["feature 0"]), float(row["feature 1"])) for row in rows} <= set(map(tuple, x.tolist()))
