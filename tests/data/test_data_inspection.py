"""`understudy data check`: what it sees, and what it warns of."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from in_a_fork import understudy
from understudy.data.assemble import build_federation
from understudy.data.inspection import inspect
from understudy.data.settings import DataSettings
from understudy.errors import UserError

FLOATS = np.arange(12.0).reshape(6, 2)


def sites(**parts: Any) -> dict[str, Any]:
    return {name: (x, np.arange(len(x)) % 2) for name, x in parts.items()}


def test_sound_records_are_told_of_without_a_warning() -> None:
    found = inspect(us.Federation.from_arrays(sites(a=FLOATS[:4], b=FLOATS[4:]), held_out=0.5))
    assert found.kind == "floats, vectors of 2"
    assert found.records == {"a": 4, "b": 2}  # with those held out
    assert found.classes == {"0": 3, "1": 3}
    assert found.warnings == ()


def test_copies_within_and_across_sites_and_leaks_into_the_test_set_are_counted() -> None:
    a, b = FLOATS[[0, 1, 1, 1]], FLOATS[[1, 2, 3]]
    found = inspect(us.Federation.from_arrays(sites(a=a, b=b), test=(FLOATS[[0, 2, 5]], [0, 1, 0])))
    assert found.records == {"a": 4, "b": 3, "test": 3}
    assert [warning.split(" record")[0] for warning in found.warnings] == ["2", "1", "2 of the test"]


def test_a_first_class_without_records_may_mean_that_labels_begin_at_1() -> None:
    x = np.zeros((2, 1, 4, 4), np.uint8) + 9 * np.arange(2, dtype=np.uint8).reshape(2, 1, 1, 1)
    first = inspect(us.Federation.from_arrays({"a": (x, [1, 2])}, classes=3))
    assert first.kind == "pixels, images of 1 × 4 × 4"
    assert "are labels counted from 1?" in first.warnings[0]
    last = inspect(us.Federation.from_arrays({"a": (x, [0, 1])}, classes=3))
    assert last.warnings == ("No site has a record of class 2.",)


def test_the_scale_is_told_and_what_looks_wrong_about_it() -> None:
    floats = inspect(us.Federation.from_arrays(sites(a=np.array([[0.0, 7, 1], [6, 7, 2]]), b=np.array([[3.0, 7, 6]]))))
    assert floats.scale == f"standard deviations of features from 0 to {6**0.5:.3g}"  # of 0, 6 and 3
    assert floats.warnings == ("1 of 3 features never change.",)
    pixels = np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2)
    assert inspect(us.Federation.from_arrays(sites(a=pixels * 20))).scale == "values from 0 to 140"
    faint = inspect(us.Federation.from_arrays(sites(a=pixels // 4)))
    assert "No pixel is above 1" in faint.warnings[-1]


def test_one_copy_is_told_of_in_the_singular() -> None:
    found = inspect(us.Federation.from_arrays(sites(a=FLOATS[[0, 1, 1]], b=FLOATS[[0, 2]])))
    assert found.warnings == (
        "1 record is a copy of another at the same site; held-out records may be among them.",
        "1 record is at more than one site.",
    )


def test_features_far_from_0_are_told_of_until_there_is_a_scale() -> None:
    # Means 9 and 0, spreads 1: nine times as much; with 7 less it is twice.
    far = np.array([[8.0, -1], [10, 1]])
    (warning,) = inspect(us.Federation.from_arrays(sites(a=far))).warnings
    assert warning.startswith("The mean of some features is 9 times their spread, so many networks hardly learn: write")
    assert inspect(us.Federation.from_arrays(sites(a=far - [7, 0]))).warnings == ()
    assert inspect(us.Federation.from_arrays(sites(a=far), scale="federated")).warnings == ()


def test_large_features_are_told_of_though_they_are_alike() -> None:
    # Both with mean 30 and standard deviation 10, which is neither far from 0 nor unlike: √(900 + 100) = 31.6.
    large = np.array([[20.0, 40], [40, 20], [20, 40], [40, 20]])
    found = inspect(us.Federation.from_arrays(sites(a=large[:2], b=large[2:])))
    assert "Values of some features are about 32, so many networks hardly learn: write data.scale" in found.warnings[-1]
    assert not any("hardly learn" in said for said in inspect(us.Federation.from_arrays(sites(a=large / 2))).warnings)


def test_features_of_different_size_and_records_elsewhere() -> None:
    found = inspect(us.Federation.from_arrays(sites(a=FLOATS * [1, 1000])))
    assert found.times_apart == pytest.approx(1000)
    assert "data.scale: site" in found.warnings[0]
    remote = {"sites": {"a": None}, "shape": [2], "classes": 2}
    with pytest.raises(UserError, match="stay at their sites"):
        inspect(build_federation(DataSettings.model_validate(remote), seed=0))


def test_copies_are_found_though_each_source_fills_and_scales_its_own_way(tmp_path: Path) -> None:
    whole, lacking = "1,2,0", ",5,1"  # filled by 3 and 7 at the sites, and by 4 in the test set
    (tmp_path / "a.csv").write_text("\n".join(["age,bmi,y", whole, lacking, "5,9,0"]))
    (tmp_path / "b.csv").write_text("\n".join(["age,bmi,y", lacking, "7,8,1"]))
    (tmp_path / "t.csv").write_text("\n".join(["age,bmi,y", lacking, "4,7,1"]))
    words = {"sites": {name: str(tmp_path / f"{name}.csv") for name in "ab"}, "missing": "mean"}
    for more, leaks in (({"test": str(tmp_path / "t.csv"), "scale": "federated"}, 1), ({"scale": "site"}, 0)):
        settings = DataSettings.model_validate({**words, **more})
        found = inspect(build_federation(settings, seed=0), settings)
        assert "1 record is at more than one site." in found.warnings
        assert sum("1 of the test records is also at a site" in said for said in found.warnings) == leaks


def test_the_command_tells_how_many_rows_lack_a_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,bmi,id,y\n1,2,,0\n3,,b,1\n5,6,c,\n7,8,d,1\n9,9,e,0\n")
    (tmp_path / "b.csv").write_text("age,bmi,id,y\n2,2,a,0\n4,,b,1\n")
    config = "data: {sites: {n: a.csv, s: b.csv}, ignore: [id], missing: drop}\n"
    (tmp_path / "c.yaml").write_text(config)
    found = json.loads(understudy("data", "check", "c.yaml", "--json", cwd=tmp_path).stdout)
    assert found["records"] == {"n": 3, "s": 1}  # an ignored column may lack values
    assert found["warnings"][-1] == "3 of 7 rows lack a value and are left out; data.missing: mean fills in features."
    kept = json.loads(
        understudy("data", "check", "a.csv", "data.ignore=[id]", "data.missing=drop", "--json", cwd=tmp_path).stdout
    )
    assert kept["warnings"][-1].startswith("2 of 5 rows lack a value")


def test_the_command_takes_a_file_or_a_config(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=FLOATS, y=[0, 1] * 3, x_test=FLOATS[:1], y_test=[0])
    (tmp_path / "c.yaml").write_text(f"data: {{sites: {{n: {tmp_path}/a.npz, s: {tmp_path}/a.npz}}}}\nmodel: mlp\n")
    alone = understudy("data", "check", "a.npz", cwd=tmp_path).stdout
    assert "1 of the test records is also at a site" in " ".join(alone.split())
    both = json.loads(understudy("data", "check", "c.yaml", "--json", cwd=tmp_path).stdout)
    assert both["records"] == {"n": 6, "s": 6}
    assert both["warnings"] == ["6 records are at more than one site."]
