"""Predictions for a file or folder of new records, read as the run read its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import understudy as us

HEADER = "weight,sex,age,ill\n"
PEOPLE = [(90.0, "f", 61), (51.5, "m", 20), (70.0, "f", 44), (82.0, "m", 37), (64.0, "f", 30), (77.0, "m", 52)]


def table(folder: Path, name: str, **settings: Any) -> dict[str, Any]:
    rows = "".join(f"{w},{s},{a},{'yes' if a > 40 else 'no'}\n" for w, s, a in PEOPLE * 4)
    (folder / name).write_text(HEADER + rows)
    data = {"sites": {"north": str(folder / name)}, "label": "ill", "held_out": 0.25, "scale": "federated", **settings}
    return {"data": data, "model": "softmax", "engine": "inline"}


def test_columns_may_stand_in_any_order_and_labels_be_missing(tmp_path: Path) -> None:
    result = us.run(table(tmp_path, "north.csv"), rounds=3, lr=0.5, out=tmp_path / "run")
    (tmp_path / "new.csv").write_text("age,weight,sex\n20,51.5,m\n61,90,f\n")
    # What training saw: features by name (age; sex as f, m; weight).
    seen = np.array([[20, 0, 1, 51.5], [61, 1, 0, 90]], dtype=np.float32)
    assert np.array_equal(result.probabilities(tmp_path / "new.csv"), result.probabilities(seen))
    assert [result.classes[label] for label in result.predict(str(tmp_path / "new.csv"))] == ["no", "yes"]
    (tmp_path / "labelled.csv").write_text("ill,age,weight,sex\nyes,20,51.5,m\nno,61,90,f\n")
    assert np.array_equal(result.predict(tmp_path / "labelled.csv"), result.predict(seen))
    assert np.array_equal(us.load(result.folder).predict(tmp_path / "new.csv"), result.predict(seen))


def test_a_row_is_never_dropped_from_what_is_predicted(tmp_path: Path) -> None:
    result = us.run(table(tmp_path, "north.csv", missing="drop"), rounds=1, out=tmp_path / "run")
    (tmp_path / "new.csv").write_text("age,weight,sex\n20,51.5,m\n,90,f\n")
    with pytest.raises(us.UserError, match=r"'age'.*missing"):
        result.predict(tmp_path / "new.csv")


def test_another_number_of_columns_is_told(tmp_path: Path) -> None:
    result = us.run(table(tmp_path, "north.csv"), rounds=1, out=tmp_path / "run")
    (tmp_path / "new.csv").write_text("age,weight\n20,51.5\n")
    with pytest.raises(
        us.UserError, match=r"new\.csv has no column 'sex', which training had\. It needs: age, sex, weigh"
    ):
        result.predict(tmp_path / "new.csv")


def test_a_column_of_another_name_is_not_taken_for_one_of_training(tmp_path: Path) -> None:
    """As many columns as there should be, so that a count alone would let it pass."""
    result = us.run(table(tmp_path, "north.csv"), rounds=1, out=tmp_path / "run")
    (tmp_path / "new.csv").write_text("age,wieght,sex\n20,51.5,m\n")
    with pytest.raises(
        us.UserError, match=r"no column 'weight', which training had\. Did you mean its column 'wieght'\?"
    ):
        result.predict(tmp_path / "new.csv")


def test_columns_that_training_did_not_know_are_left_out(tmp_path: Path) -> None:
    result = us.run(table(tmp_path, "north.csv"), rounds=1, out=tmp_path / "run")
    (tmp_path / "new.csv").write_text("age,weight,sex\n20,51.5,m\n")
    (tmp_path / "more.csv").write_text("note,age,weight,sex,zip\ntall,20,51.5,m,7\n")
    assert np.array_equal(result.probabilities(tmp_path / "more.csv"), result.probabilities(tmp_path / "new.csv"))


def pictures(folder: Path, count: int = 6) -> None:
    for label, shade in enumerate((40, 200)):
        (folder / f"class-{label}").mkdir(parents=True)
        for at in range(count):
            side = 10 + 3 * at
            Image.new("L", (side, side + 4), shade + at).save(folder / f"class-{label}" / f"{at}.png")


def test_images_are_brought_to_the_runs_size_and_mode(tmp_path: Path) -> None:
    pictures(tmp_path / "north")
    data = {"sites": {"north": str(tmp_path / "north")}, "size": 8, "held_out": 0.25}
    result = us.run({"data": data, "model": "softmax", "engine": "inline"}, rounds=3, lr=0.5, out=tmp_path / "run")
    (tmp_path / "new").mkdir()
    Image.new("RGB", (30, 50), (203, 203, 203)).save(tmp_path / "new" / "b.png")  # a run of grey images makes it grey
    Image.new("L", (21, 9), 42).save(tmp_path / "new" / "a.png")
    (tmp_path / "new" / "notes.txt").write_text("not an image")
    seen = torch.stack([torch.full((1, 8, 8), shade, dtype=torch.uint8) for shade in (42, 203)])
    assert np.array_equal(result.probabilities(tmp_path / "new"), result.probabilities(seen))
    assert np.array_equal(result.predict(tmp_path / "new" / "b.png"), result.predict(seen)[1:])


def test_arrays_are_read_from_npz(tmp_path: Path) -> None:
    result = us.run("digits-skewed", rounds=1, model="softmax", engine="inline", out=tmp_path / "run")
    x = np.random.default_rng(0).integers(0, 255, (3, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "new.npz", x=x)
    assert np.array_equal(result.predict(tmp_path / "new.npz"), result.predict(x))
    np.savez(tmp_path / "other.npz", z=x)
    with pytest.raises(us.UserError, match="no array 'x'; it has z"):
        result.predict(tmp_path / "other.npz")


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    x, y = np.zeros((20, 3)), np.arange(20) % 2
    federation = us.Federation.from_arrays({"north": (x, y)}, held_out=0.2)
    given = us.run(data=federation, model="softmax", rounds=1, engine="inline", out=tmp_path / "given")
    with pytest.raises(us.UserError, match="given its records in Python; pass new ones as an array"):
        given.predict("new.csv")
    named = us.run("digits-skewed", rounds=1, model="softmax", engine="inline", out=tmp_path / "named")
    with pytest.raises(us.UserError, match="there is no file or folder"):
        named.predict(tmp_path / "gone.csv")
    with pytest.raises(us.UserError, match="holds nothing to predict; pass a table"):
        named.predict(tmp_path / "named")
