"""Parquet as own data: what its columns become, and what is said where they make no sense."""

import io
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as checks
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays

pa = pytest.importorskip("pyarrow")
from PIL import Image  # noqa: E402
from pyarrow import parquet as pq  # noqa: E402

from understudy.data import sets  # noqa: E402
from understudy.data.assemble import build_federation  # noqa: E402
from understudy.data.own import is_path, read_sites, read_source  # noqa: E402
from understudy.data.settings import DataSettings  # noqa: E402
from understudy.data.tables import read_table, read_users  # noqa: E402
from understudy.errors import UserError  # noqa: E402


def written(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def png(shade: int, size: tuple[int, int] = (4, 2), mode: str = "L", kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, shade if mode == "L" else (shade, 0, 9)).save(file, kind)
    return file.getvalue()


@checks(max_examples=20, deadline=None)
@given(
    x=some.integers(1, 5).flatmap(lambda n: arrays(np.uint8, (n, 3, 2))),
    rows=some.integers(1, 4),
)
def test_nested_lists_of_uint8_come_back_as_the_same_pixels(
    tmp_path_factory: pytest.TempPathFactory, x: Any, rows: int
) -> None:
    path = tmp_path_factory.mktemp("nested") / "a.parquet"
    table = pa.table({"x": pa.array(x.tolist(), pa.list_(pa.list_(pa.uint8()))), "y": list(range(len(x)))})
    pq.write_table(table, path, row_group_size=rows)
    read = read_table(path, ())
    assert read.x.dtype == torch.uint8
    assert read.x.tolist() == x[:, None].tolist()
    assert read.y.tolist() == list(range(len(x)))


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float32(), 2), pa.large_list(pa.int16())])
def test_flat_lists_of_other_numbers_are_rows_of_floats(tmp_path: Path, kind: Any) -> None:
    read = read_source(written(tmp_path / "a.parquet", pixels=pa.array([[0, 1], [1, 1]], kind), label=[1, 0]), ())
    assert read.x.dtype == torch.float32
    assert read.x.tolist() == [[0, 1], [1, 1]]
    assert read.y.tolist() == [1, 0]


def test_a_flat_list_takes_the_shape_that_the_config_says_if_it_has_as_many_values(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", x=pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.uint8())), y=[0])
    assert read_table(path, (), (1, 3, 2)).x.tolist() == [[[[1, 2], [3, 4], [5, 6]]]]
    assert read_table(path, (), (1, 2, 2)).x.tolist() == [[1, 2, 3, 4, 5, 6]]


def test_tensors_with_a_shape_of_their_own_keep_it(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
    path = written(tmp_path / "a.parquet", x=pa.FixedShapeTensorArray.from_numpy_ndarray(x), y=[0, 1])
    assert read_table(path, ()).x.tolist() == x.tolist()


def test_images_are_decoded_from_bytes_and_from_the_struct_of_the_datasets_library(tmp_path: Path) -> None:
    cells = [png(10), png(200)]
    plain = read_table(written(tmp_path / "a.parquet", image=cells, label=[0, 1]), ())
    struct = [{"bytes": cell, "path": None} for cell in cells]
    boxed = read_table(written(tmp_path / "b.parquet", image=struct, label=[0, 1]), ())
    assert plain.x.shape == (2, 1, 2, 4)  # 4 wide and 2 high
    assert plain.x.dtype == torch.uint8
    assert plain.x[:, 0, 0, 0].tolist() == [10, 200]
    assert torch.equal(plain.x, boxed.x)


def test_one_coloured_image_in_any_file_makes_all_three_channels(tmp_path: Path) -> None:
    written(tmp_path / "t" / "0.parquet", image=[png(10)], label=[0])
    written(tmp_path / "t" / "1.parquet", image=[png(20, mode="RGB")], label=[1])
    read = read_source(tmp_path / "t", ())
    assert read.x[:, :, 0, 0].tolist() == [[10, 10, 10], [20, 0, 9]]


def test_jpeg_is_read_too(tmp_path: Path) -> None:
    read = read_table(written(tmp_path / "a.parquet", image=[png(128, kind="JPEG")], label=[0]), ())
    assert read.x.shape == (1, 1, 2, 4)
    assert (read.x.int() - 128).abs().max() <= 2


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_names_of_classes_get_the_numbers_of_the_config(tmp_path: Path, as_dictionary: bool) -> None:
    names = pa.array(["dog", "ant", "dog"])
    path = written(tmp_path / "a.parquet", x=[[0.0]] * 3, y=names.dictionary_encode() if as_dictionary else names)
    assert read_table(path, ("dog", "cat", "ant")).y.tolist() == [0, 2, 0]
    assert read_table(path, ("ant", "cat", "dog")).y.tolist() == [2, 0, 2]


def test_lists_of_zeros_and_ones_are_several_labels(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", x=[[0.0], [0.0]], label=[[1, 0, 1], [0, 0, 0]])
    data = sets.load(str(path))
    assert data.problem.multilabel
    assert data.train.y.tolist() == [[1, 0, 1], [0, 0, 0]]


def test_plain_columns_are_features_in_the_order_of_their_names(tmp_path: Path) -> None:
    # f2 goes before f10; an index that pandas wrote, the labels and the users are no features.
    features = {"f10": pa.array([1, 2], pa.uint8()), "f2": [0.5, 1.5], "age": [Decimal("3.25"), Decimal("4.00")]}
    extra = {"__index_level_0__": [7, 8], "users": [5, 6], "y": [0, 1], "flag": [True, False]}
    read = read_table(written(tmp_path / "a.parquet", **features, **extra), ())
    assert read.x.dtype == torch.float32
    assert read.x.tolist() == [[3.25, 0.5, 1.0, 1.0], [4.0, 1.5, 2.0, 0.0]]  # age, f2, f10, flag
    turned = dict(reversed({**features, **extra}.items()))
    assert torch.equal(read_table(written(tmp_path / "b.parquet", **turned), ()).x, read.x)


def test_a_folder_of_files_is_read_in_order_of_their_names_and_empty_ones_are_passed_over(tmp_path: Path) -> None:
    written(tmp_path / "t" / "b.parquet", x=[[3.0]], y=pa.array([2], pa.int8()))
    written(tmp_path / "t" / "a.parquet", x=[[1.0], [2.0]], y=[0, 1])
    written(tmp_path / "t" / "c.parquet", x=pa.array([], pa.list_(pa.float64())), y=pa.array([], pa.int64()))
    (tmp_path / "t" / ".hidden.parquet").write_bytes(b"")
    read = read_source(tmp_path / "t", ())
    assert read.x.tolist() == [[1], [2], [3]]
    assert read.y.tolist() == [0, 1, 2]


def test_one_file_is_split_by_users_and_scored_on_another(tmp_path: Path) -> None:
    own = written(tmp_path / "own.parquet", x=[[float(i)] for i in range(6)], y=[0, 1] * 3, users=[4, 4, 9, 9, 9, 4])
    test = written(tmp_path / "test.parquet", x=[[7.0]], y=[2])
    words = {"name": str(own), "test": str(test), "split": "users"}
    made = build_federation(DataSettings.model_validate(words), seed=0)
    assert [site.own.x[:, 0].tolist() for site in made.sites.values()] == [[0, 1, 5], [2, 3, 4]]
    assert made.test is not None
    assert made.problem.classes == 3
    assert read_users(test) is None


def test_folders_train_and_test_inside_a_folder(tmp_path: Path) -> None:
    written(tmp_path / "all" / "train" / "0.parquet", x=[[1.0], [2.0]], y=["a", "b"])
    written(tmp_path / "all" / "test" / "0.parquet", x=[[3.0]], y=["b"])
    data = sets.load(str(tmp_path / "all"), labels=["b", "a"])
    assert data.train.y.tolist() == [1, 0]
    assert data.test is not None
    assert data.test.y.tolist() == [0]
    assert data.label_names == ("b", "a")


def test_sites_may_bring_parquet_beside_other_kinds(tmp_path: Path) -> None:
    written(tmp_path / "a.parquet", image=[png(10, (2, 2))], label=["cat"])
    (tmp_path / "b" / "dog").mkdir(parents=True)
    (tmp_path / "b" / "dog" / "1.png").write_bytes(png(20, (2, 2)))
    np.savez(tmp_path / "c.npz", x=np.full((1, 2, 2), 30, np.uint8), y=[1])
    sites = {name: str(tmp_path / source) for name, source in {"a": "a.parquet", "b": "b", "c": "c.npz"}.items()}
    brought = read_sites(sites, None, labels=("dog", "cat"))
    assert {name: part.y.tolist() for name, part in brought.sites.items()} == {"a": [1], "b": [0], "c": [1]}
    assert {tuple(part.x.shape) for part in brought.sites.values()} == {(1, 1, 2, 2)}


def test_a_name_with_that_ending_is_a_path() -> None:
    assert is_path("mine.parquet")
    with pytest.raises(UserError, match=r"There is no file .*mine\.parquet"):
        sets.load("mine.parquet")


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet", x=[[0.0]], y=[0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"needs more packages.*'\.\[parquet\]'"):
        read_table(path, ())


FLOATS = pa.list_(pa.float32())


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"x": [[1.0], None], "y": [0, 1]}, "column 'x': some values are missing"),
        ({"x": [[1.0], [None]], "y": [0, 1]}, "column 'x': some values are missing"),
        ({"x": [[1.0], [2.0]], "y": [0, None]}, "column 'y': some values are missing"),
        ({"x": [[1.0], [2.0]], "y": ["a", None]}, "column 'y': some values are missing"),
        ({"x": [[1.0, 2.0], [3.0]], "y": [0, 1]}, "column 'x': its lists differ in length"),
        ({"x": [[[1.0, 2.0], [3.0]], [[1.0, 2.0], [3.0]]], "y": [0, 1]}, "column 'x': its lists differ in length"),
        ({"x": [[], []], "y": [0, 1]}, "column 'x': its lists are empty"),
        ({"x": [["a"], ["b"]], "y": [0, 1]}, "column 'x': its lists hold string, but must hold numbers"),
        ({"x": ["1", "2"], "y": [0, 1]}, "column 'x': it holds string; give lists of numbers, or images"),
        ({"x": [1.0, 2.0], "y": [0, 1]}, "column 'x': it holds double; give lists"),
        ({"x": [[1.0], [2.0]]}, "no column for labels ('x'); name one column 'label' or 'y'"),
        ({"x": [[1.0], [2.0]], "y": [0, 1], "label": [0, 1]}, "more than one column for labels ('label', 'y')"),
        ({"x": [[1.0], [2.0]], "pixels": [[1], [2]], "y": [0, 1]}, "more than one column for records"),
        ({"y": [0, 1]}, "has no records"),
        (
            {"age": [1, 2], "name": ["a", "b"], "y": [0, 1]},
            "column 'name': it holds texts; list its words in data.vocabulary",
        ),
        ({"age": [1, None], "y": [0, 1]}, "column 'age': some values are missing"),
        (
            {"age": [1, None], "bmi": [1.0, 2.0], "sex": [None, "f"], "y": [0, 1]},
            "values are missing in the columns age, sex; fill them, leave columns out with data.ignore, or write data",
        ),
        ({"x": [[1.0], [2.0]], "y": [0.5, 1.0]}, "labels are not whole numbers"),
        ({"x": [[1.0], [2.0]], "y": [b"a", b"b"]}, "column 'y': it holds binary, but must hold numbers"),
        ({"x": [[1.0], [2.0]], "y": [[0, 2], [1, 1]]}, "column 'y': lists of labels must hold a 0 or 1"),
        ({"x": [[1.0], [2.0]], "y": ["cat", "dog"]}, "column 'y': row 1 is labelled 'dog', which is not in"),
        ({"image": [png(1), None], "y": [0, 1]}, "column 'image': some values are missing"),
        ({"image": [png(1), b"no image"], "y": [0, 1]}, "column 'image', row 1 cannot be read as an image"),
        ({"image": [png(1), png(1)[:50]], "y": [0, 1]}, "column 'image', row 1 cannot be read as an image"),
        ({"image": [png(1), png(1, (2, 2))], "y": [0, 1]}, "column 'image', row 1 is 2 × 2 pixels"),
        ({"image": [{"bytes": None, "path": "1.png"}] * 2, "y": [0, 1]}, "column 'image': it holds struct"),
        ({"image": [{"bytes": png(1)}, {"bytes": None}], "y": [0, 1]}, "column 'image': some images have a path but"),
        ({"x": pa.array([], FLOATS), "y": pa.array([], pa.int64())}, "holds no records"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_by_file_and_column(
    tmp_path: Path, columns: dict[str, Any], says: str
) -> None:
    path = written(tmp_path / "mine.parquet", **columns)
    with pytest.raises(UserError) as wrong:
        read_table(path, ("cat", "cow"))
    assert says in str(wrong.value)
    assert "mine.parquet" in str(wrong.value)


def test_names_without_a_list_of_all_names(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", x=[[1.0], [2.0]], y=["a", "b"])
    assert sets.load(str(path)).label_names == ("a", "b")  # here all records can be seen
    with pytest.raises(UserError, match=r"list all classes in data\.labels"):
        read_table(path, ())


def test_users_must_be_whole_numbers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="column 'users': users must be whole numbers"):
        read_users(written(tmp_path / "a.parquet", users=[0.5]))


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"x": [[1.0, 2.0]], "y": [0]}, "b.parquet has lists of shape (2,), "),
        ({"x": pa.array([[1]], pa.list_(pa.uint8())), "y": [0]}, "hold uint8 pixels, others other numbers"),
        ({"x": [[1.0]], "y": [[0, 1]]}, "b.parquet has lists of shape (2,), "),
        ({"x": [[1.0]]}, "b.parquet has no column for labels"),
        ({"age": [1.0], "y": [1]}, "b.parquet has no column for records"),
    ],
)
def test_files_of_a_folder_must_agree(tmp_path: Path, second: dict[str, Any], says: str) -> None:
    written(tmp_path / "a.parquet", x=[[1.0]], y=[0])
    written(tmp_path / "b.parquet", **second)
    with pytest.raises(UserError) as wrong:
        read_source(tmp_path, ())
    assert says in str(wrong.value)


def test_tables_of_features_in_a_folder_must_have_the_same_columns(tmp_path: Path) -> None:
    written(tmp_path / "a.parquet", age=[1.0], y=[0])
    written(tmp_path / "b.parquet", height=[1.0], y=[0])
    with pytest.raises(UserError, match=r"b\.parquet and .*a\.parquet have different columns"):
        read_source(tmp_path, ())


def test_test_files_are_not_learnt_from_by_mistake(tmp_path: Path) -> None:
    written(tmp_path / "train-00000-of-00001.parquet", x=[[1.0]], y=[0])
    written(tmp_path / "latest.parquet", x=[[1.0]], y=[1])
    assert len(read_source(tmp_path, ())) == 2
    written(tmp_path / "test-00000-of-00001.parquet", x=[[1.0]], y=[1])
    with pytest.raises(UserError, match="files to learn from with files to score on"):
        read_source(tmp_path, ())


@pytest.mark.parametrize("content", [b"", b"hello", b"PAR1" + bytes(50) + b"PAR1"])
def test_a_file_that_is_no_parquet(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.parquet cannot be read as Parquet"):
        read_table(tmp_path / "a.parquet", ())


def test_a_file_damaged_anywhere_is_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", x=[[1.0, 2.0]] * 20, y=["cat", "cow"] * 10)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        spoilt = bytearray(whole)
        spoilt[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(spoilt))
        try:
            read_table(path, ("cat", "cow"))
        except UserError:
            refused += 1
    assert refused > 0
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match="cannot be read as Parquet"):
            read_table(path, ())
