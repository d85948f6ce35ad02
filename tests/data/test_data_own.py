"""Own data: .npz files, folders of images, one source a site."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy.data import sets
from understudy.data.own import Scaling, read_own, read_sites
from understudy.errors import UserError


def images(folder: Path, classes: dict[str, int], size: int = 4, mode: str = "L") -> Path:
    for shade, (name, number) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for at in range(number):
            Image.new(mode, (size, size), 50 * shade if mode == "L" else (50 * shade, 0, 9)).save(
                folder / name / f"{at}.png"
            )
    return folder


def npz(path: Path, **arrays: object) -> str:
    np.savez(path, allow_pickle=True, **{name: np.asarray(values) for name, values in arrays.items()})
    return str(path)


def test_an_npz_brings_records_test_set_and_users(tmp_path: Path) -> None:
    name = npz(
        tmp_path / "mine.npz",
        x=np.zeros((4, 6, 6), np.uint8),
        y=[0, 1, 2, 0],
        x_test=np.zeros((1, 6, 6), np.uint8),
        y_test=[3],
        users=[5, 5, 6, 6],
    )
    data = sets.load(name)
    assert data.problem.shape == (1, 6, 6)
    assert data.problem.classes == 4
    assert data.users is not None
    assert data.users.tolist() == [5, 5, 6, 6]
    assert data.test is not None
    assert sets.load(name, classes=9, mean=(0.5,), std=(0.5,)).problem.classes == 9


def test_zeros_and_ones_in_columns_are_several_labels(tmp_path: Path) -> None:
    data = sets.load(npz(tmp_path / "m.npz", x=np.zeros((2, 3)), y=[[1, 0, 1], [0, 0, 0]]))
    assert data.problem.multilabel
    assert data.problem.classes == 3


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": np.zeros((2, 3))}, "no array 'y'"),
        ({"x": np.zeros((2, 3)), "y": [0, 1, 1]}, "2 records came with 3 labels"),
        ({"x": np.zeros((2, 3)), "y": [0, -1]}, "labels run from -1 to 0"),
        ({"x": np.full((2, 3), np.nan), "y": [0, 1]}, "missing (NaN) or infinite"),
        ({"x": np.zeros((2, 3)), "y": [[0.5, 1], [0, 1]]}, "must be 0 or 1"),
        ({"x": np.zeros((2, 3)), "y": [0, 1], "users": [1]}, "'users' has shape (1,)"),
        ({"x": np.zeros((2, 3)), "y": [0, 1], "users": [0.5, 1]}, "whole numbers"),
        ({"x": np.zeros((2, 3)), "y": [0, 1], "x_test": np.zeros((1, 3))}, "no array 'y_test'"),
        ({"x": np.zeros((2, 3)), "y": [0, 1], "x_test": np.zeros((1, 4)), "y_test": [0]}, "shape (4,)"),
        ({"x": np.zeros((0, 3)), "y": []}, "no record"),
    ],
)
def test_an_npz_that_makes_no_sense_is_refused_by_name(tmp_path: Path, arrays: dict[str, object], says: str) -> None:
    name = npz(tmp_path / "mine.npz", **arrays)
    with pytest.raises(UserError) as wrong:
        sets.load(name)
    assert says in str(wrong.value)
    assert "mine.npz" in str(wrong.value)


def test_labels_beyond_the_classes_that_were_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="between 0 and 2"):
        sets.load(npz(tmp_path / "m.npz", x=np.zeros((1, 3)), y=[3]), classes=3)


def test_files_that_are_no_npz(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        sets.load(str(tmp_path / "none.npz"))
    whole = Path(npz(tmp_path / "cut.npz", x=np.zeros((50, 3)), y=[0] * 50))
    whole.write_bytes(whole.read_bytes()[:200])
    with pytest.raises(UserError, match=r"cut\.npz cannot be read"):
        sets.load(str(whole))
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(UserError, match=r"text\.npz cannot be read"):
        sets.load(str(tmp_path / "text.npz"))
    (tmp_path / "table.xls").write_text("1,2")
    with pytest.raises(UserError, match="neither a folder"):
        sets.load(str(tmp_path / "table.xls"))
    np.savez(tmp_path / "o.npz", x=np.array([{}], dtype=object), y=[0])
    with pytest.raises(UserError, match=r"o\.npz cannot be read"):
        sets.load(str(tmp_path / "o.npz"))


def test_a_folder_of_images_by_class(tmp_path: Path) -> None:
    data = sets.load(str(images(tmp_path / "pets", {"cat": 3, "dog": 2, "eel": 0})))
    assert data.label_names == ("cat", "dog", "eel")
    assert data.problem.classes == 3
    assert data.train.x.shape == (5, 1, 4, 4)
    assert (data.train.x[:, 0, 0, 0] == 50 * data.train.y).all()
    assert data.test is None


def test_a_folder_with_train_and_test_inside(tmp_path: Path) -> None:
    images(tmp_path / "pets" / "train", {"cat": 3, "dog": 2})
    images(tmp_path / "pets" / "test", {"cat": 1, "dog": 1})
    data = sets.load(str(tmp_path / "pets"))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (5, 2)


def test_one_coloured_image_makes_all_three_channels(tmp_path: Path) -> None:
    images(tmp_path, {"a": 1})
    images(tmp_path, {"b": 1}, mode="RGB")
    data = sets.load(str(tmp_path))
    assert data.train.x.shape == (2, 3, 4, 4)
    assert data.train.x[data.train.y == 1][0, :, 0, 0].tolist() == [0, 0, 9]


def test_images_that_do_not_fit_are_named(tmp_path: Path) -> None:
    images(tmp_path / "one", {"a": 2})
    images(tmp_path / "one", {"b": 1}, size=5)
    with pytest.raises(UserError, match="one size"):
        sets.load(str(tmp_path / "one"))
    images(tmp_path / "two", {"a": 2})
    broken = tmp_path / "two" / "a" / "1.png"
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(UserError, match=r"1\.png cannot be read as an image"):
        sets.load(str(tmp_path / "two"))
    (tmp_path / "three" / "a").mkdir(parents=True)
    with pytest.raises(UserError, match="no PNG or JPEG image"):
        sets.load(str(tmp_path / "three"))


def test_a_folder_of_sites_in_place_of_one_site_is_told_which_folders_were_meant(tmp_path: Path) -> None:
    images(tmp_path / "north", {"a": 1, "b": 1})
    images(tmp_path / "south", {"a": 1})
    (tmp_path / "notes").mkdir()
    with pytest.raises(UserError) as told:
        sets.load(str(tmp_path))
    assert "but north and south inside it do; name one of them" in str(told.value)
    assert f"data: {{sites: {{north: {tmp_path}/north, south: {tmp_path}/south}}}}" in str(told.value)
    images(tmp_path / "test", {"a": 1})
    with pytest.raises(UserError) as told:
        sets.load(str(tmp_path))
    assert "but north, south and test inside it do" in str(told.value)
    assert f"south: {tmp_path}/south}}, test: {tmp_path}/test}}" in str(told.value)


def test_without_pillow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images(tmp_path, {"a": 1, "b": 1})
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match="pip install pillow"):
        read_own(str(tmp_path), Scaling())


def test_sites_share_the_class_names_of_all(tmp_path: Path) -> None:
    sites = {"here": images(tmp_path / "h", {"cat": 1}), "there": images(tmp_path / "t", {"ant": 2, "cat": 1})}
    brought = read_sites({name: str(path) for name, path in sites.items()}, None)
    assert brought.label_names == ("ant", "cat")
    assert brought.sites["here"].y.tolist() == [1]
    assert sorted(brought.sites["there"].y.tolist()) == [0, 0, 1]


def test_a_site_without_a_source_and_mixed_kinds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.sites\.a: there is no file"):
        read_sites({"a": str(tmp_path / "none.npz")}, None)
    own = npz(tmp_path / "a.npz", x=np.zeros((1, 1)), y=[0])
    with pytest.raises(UserError, match="folders of images for every site"):
        read_sites({"a": own, "b": str(images(tmp_path / "b", {"cat": 1}))}, None)
