"""Under a privacy budget a config is told all that it must still say at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from understudy.config.build import build_data
from understudy.config.resolve import resolve
from understudy.errors import UserError

ROWS = ("age,sex,weight,ill", "40,m,80,yes", ",f,60,no", "30,f,,yes", "50,m,70,no")
COMPLETE: dict[str, Any] = {
    "missing": "drop",
    "vocabulary": {"sex": ["f", "m"]},
    "ranges": {"age": [0, 110], "weight": [20, 200]},
    "labels": ["no", "yes"],
}


def refusal(folder: Path, records: int | None = None, **data: Any) -> str:
    for site in ("a", "b"):
        (folder / f"{site}.csv").write_text("\n".join(ROWS) + "\n")
    sites = {site: str(folder / f"{site}.csv") for site in ("a", "b")}
    privacy = {"epsilon": 8, "delta": 1e-3, **({} if records is None else {"records": records})}
    words = {
        "data": {"sites": sites, "label": "ill", "scale": "federated", **data},
        "model": "mlp",
        "method": {"name": "dp-fedavg", "noise": None},
        "privacy": privacy,
    }
    try:
        build_data(resolve(words))
    except UserError as error:
        return str(error)
    return ""


def test_everything_that_is_missing_is_said_in_one_refusal(tmp_path: Path) -> None:
    said = refusal(tmp_path)
    assert said.startswith("Under a privacy budget 5 things are still to be written: (1) data.missing: ")
    assert "values are missing in age, weight" in said
    assert "(2) data.vocabulary: " in said
    assert "those of sex," in said
    assert "(3) data.ranges: " in said
    assert "of age, weight," in said
    assert "(4) data.labels: under a privacy budget it must not be the records that say which classes there are" in said
    assert "(5) privacy.records: " in said


@pytest.mark.parametrize(
    ("lacking", "says"),
    [
        ("missing", "data.missing: values are missing in age, weight; write drop"),
        ("vocabulary", "data.vocabulary: "),
        ("ranges", "data.ranges: "),
        ("labels", "data.labels: "),
    ],
)
def test_one_thing_that_is_missing_is_said_alone(tmp_path: Path, lacking: str, says: str) -> None:
    data = {key: value for key, value in COMPLETE.items() if key != lacking}
    assert refusal(tmp_path, 4, **data).startswith(says)


def test_a_range_for_some_columns_leaves_the_others_to_be_declared(tmp_path: Path) -> None:
    said = refusal(tmp_path, 4, **{**COMPLETE, "ranges": {"age": [0, 110]}})
    assert "possible value of weight," in said


def test_what_is_complete_is_read(tmp_path: Path) -> None:
    assert refusal(tmp_path, 4, **COMPLETE) == ""


def test_the_number_of_classes_will_do_where_labels_are_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((8, 3), dtype=np.float32), y=[0, 1] * 4)
    words: dict[str, Any] = {
        "data": {"name": str(tmp_path / "a.npz"), "clients": 1, "split": "iid"},
        "model": "mlp",
        "method": {"name": "dp-fedavg", "noise": None},
        "privacy": {"epsilon": 8, "delta": 1e-3, "records": 8},
    }
    with pytest.raises(UserError, match=r"or write how many there can be as data\.classes"):
        build_data(resolve(words))
    assert build_data(resolve(words, {"data.classes": 3})).problem.classes == 3


def test_a_mean_is_replaced_by_what_is_private(tmp_path: Path) -> None:
    said = refusal(tmp_path, 4, **{**COMPLETE, "missing": "mean"})
    assert said.startswith("data.missing: a mean is not private; under a privacy budget write drop")
