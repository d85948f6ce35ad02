"""Sites whose records lie at home: what the server knows from the config, and what a site brings by itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import ValidationError

from understudy.data.assemble import at_site, build_federation
from understudy.data.federation import Holding, remote_federation
from understudy.data.problem import Problem
from understudy.data.settings import DataSettings
from understudy.errors import UserError

SITES = {"north": None, "south": None}
SMALL: dict[str, Any] = {"sites": SITES, "shape": [1, 4, 4], "classes": 3}


def said(**words: Any) -> DataSettings:
    return DataSettings.model_validate({**SMALL, **words})


def npz(path: Path, n: int = 6, shape: tuple[int, ...] = (4, 4), kind: type = np.uint8, **arrays: object) -> Path:
    # The record's number stands in all of its pixels, so that records can be told apart.
    x: NDArray[Any] = np.zeros((n, *shape), kind) + np.arange(n, dtype=kind).reshape(n, *[1] * len(shape))
    whole = {"x": x, "y": np.arange(n) % 3, **arrays}
    np.savez(path, allow_pickle=True, **{name: np.asarray(values) for name, values in whole.items()})
    return path


def folder(path: Path, size: int = 4, mode: str = "L", **shades: int) -> Path:
    for name, shade in shades.items():
        (path / name).mkdir(parents=True)
        Image.new(mode, (size, size), shade if mode == "L" else (shade,) * 3).save(path / name / "1.png")
    return path


def brought(settings: DataSettings, source: Path, name: str = "north", seed: int = 0) -> Holding:
    return at_site(settings, name, source, build_federation(settings, seed=seed).problem, seed)


def test_the_server_knows_names_and_the_problem_but_no_record() -> None:
    made = build_federation(said(mean=[0.5], std=[0.25]), seed=0)
    assert made.remote
    assert made.problem == Problem((1, 4, 4), 3, False, (0.5,), (0.25,))
    assert list(made.sites) == ["north", "south"]
    for holding in made.sites.values():
        assert holding.own.x.shape == (0, 1, 4, 4)
        assert holding.own.x.dtype == torch.uint8
        assert holding.own.y.dtype == torch.int64
        assert len(holding.held_out) == 0
    assert made.test is None


def test_several_labels_a_record_and_rows_of_features() -> None:
    made = build_federation(said(shape=[5], multilabel=True), seed=0)
    assert made.problem == Problem((5,), 3, True, floats=True)
    empty = made.sites["south"].own
    assert empty.multilabel
    assert empty.y.shape == (0, 3)
    assert empty.x.dtype == torch.float32


def test_names_of_the_classes_say_how_many_there_are() -> None:
    made = build_federation(said(classes=None, labels=["cat", "ant"]), seed=0)
    assert made.problem.classes == 2
    assert made.label_names == ("cat", "ant")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"shape": None}, "give data.shape, such as [1, 28, 28], and data.classes"),
        ({"classes": None}, "give data.shape, such as [1, 28, 28], and data.classes"),
        ({"sites": {"north": "north.npz", "south": None}}, "not a mixture"),
        ({"sites": {"no/rth": None}}, "'no/rth' cannot name a site"),
        ({"mean": [0.5, 0.5], "std": [1, 1]}, "'mean' has 2 numbers for 1 channels"),
        ({"mean": [0.5]}, "give both 'mean' and 'std'"),
        ({"validation": 0.1}, "data.validation: with data.sites, sites keep all their records"),
        ({"limit": 5}, "data.limit: with data.sites, sites keep all their records"),
        ({"size": 5}, "data.size: only square images shrink; data.shape [1, 4, 4]"),
        ({"shape": [1, 4, 6], "size": 2}, "data.size: only square images shrink; data.shape [1, 4, 6]"),
        ({"shape": [9], "size": 2}, "data.size: only square images shrink; data.shape [9]"),
    ],
)
def test_a_config_that_leaves_the_server_in_the_dark_is_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as wrong:
        build_federation(said(**words), seed=0)
    assert says in str(wrong.value)


@pytest.mark.parametrize(
    "words",
    [
        {"shape": []},
        {"shape": [1, 0, 4]},
        {"classes": 1},
        {"labels": ["cat", "ant"]},  # classes says 3
        {"labels": ["cat", "ant", "cat"]},
        {"labels": ["cat"], "classes": None},
    ],
)
def test_words_that_contradict_each_other_are_refused_at_once(words: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        said(**words)


@pytest.mark.parametrize("word", ["labels", "shape", "pixels", "multilabel"])
def test_words_for_own_data_are_refused_beside_a_data_set_that_brings_them_along(word: str) -> None:
    value = {"labels": ["a", "b"], "shape": [1, 8, 8], "pixels": True, "multilabel": True}[word]
    with pytest.raises(UserError, match=rf"data\.{word}: this is for your own data"):
        build_federation(DataSettings.model_validate({"name": "digits", word: value}), seed=0)


def test_the_server_may_hold_a_test_set_that_must_fit(tmp_path: Path) -> None:
    made = build_federation(said(test=str(npz(tmp_path / "test.npz"))), seed=0)
    assert made.test is not None
    assert len(made.test) == 6
    with pytest.raises(UserError, match=r"test: records have shape \(1, 5, 5\), but data\.shape is \(1, 4, 4\)"):
        build_federation(said(test=str(npz(tmp_path / "five.npz", shape=(5, 5)))), seed=0)
    with pytest.raises(UserError, match="test: labels run from 0 to 2"):
        build_federation(said(test=str(tmp_path / "test.npz"), classes=2), seed=0)


def test_a_problem_refuses_a_test_set_that_does_not_fit() -> None:
    other = build_federation(said(), seed=0).sites["north"].own
    with pytest.raises(UserError, match="test: records have shape"):
        remote_federation(Problem((1, 5, 5), 3), ["north"], other)


def test_a_site_brings_just_what_it_would_have_in_a_simulation(tmp_path: Path) -> None:
    sources = {name: str(npz(tmp_path / f"{name}.npz", n)) for name, n in (("north", 9), ("south", 12))}
    settings = said(held_out=0.34)
    simulated = build_federation(settings.model_copy(update={"sites": sources}), seed=5)
    for name, source in sources.items():
        here, there = brought(settings, Path(source), name, seed=5), simulated.sites[name]
        for mine, other in ((here.own, there.own), (here.held_out, there.held_out)):
            assert torch.equal(mine.x, other.x)
            assert torch.equal(mine.y, other.y)
    assert build_federation(settings, seed=5).problem == simulated.problem


def test_records_held_out_at_a_site_are_apart_and_depend_on_its_name(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", 30)
    one, again, other = (brought(said(held_out=0.2), source, name) for name in ("north", "north", "south"))
    kept = [holding.held_out.x[:, 0, 0, 0].tolist() for holding in (one, again, other)]
    assert [len(part) for part in kept] == [6, 6, 6]  # 0.2 · 30
    assert kept[0] == kept[1] != kept[2]
    assert sorted(kept[0] + one.own.x[:, 0, 0, 0].tolist()) == list(range(30))
    assert one.held_out.y.bincount().tolist() == [2, 2, 2]  # of ten a class


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"shape": (5, 5)}, "north: records have shape (1, 5, 5), but data.shape is (1, 4, 4)"),
        ({"shape": (3, 4, 4)}, "north: records have shape (3, 4, 4)"),
        ({"y": np.arange(6)}, "north: labels run from 0 to 5; with 3 classes they must lie between 0 and 2"),
        ({"y": np.full(6, -1)}, "north: labels run from -1 to -1"),
        ({"y": np.eye(6)[:, :3]}, "north: labels have shape (6, 3); give one label per record"),
        ({"kind": np.float32}, "north: records are floats, but all sites need uint8 pixels"),
        ({"n": 0}, "holds no records"),
    ],
)
def test_a_source_that_does_not_fit_is_refused_in_a_sentence(tmp_path: Path, source: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as wrong:
        brought(said(), npz(tmp_path / "a.npz", **source))
    assert says in str(wrong.value)


def test_a_config_may_say_that_images_are_floats_or_rows_are_pixels(tmp_path: Path) -> None:
    floats, pixels = npz(tmp_path / "f.npz", kind=np.float64), npz(tmp_path / "p.npz", shape=(7,))
    assert brought(said(pixels=False), floats).own.x.dtype == torch.float32
    assert brought(said(shape=[7], pixels=True), pixels).own.x.dtype == torch.uint8
    assert build_federation(said(pixels=False), seed=0).sites["north"].own.x.dtype == torch.float32
    with pytest.raises(UserError, match=r"north: records are uint8 pixels, but all sites need floats"):
        brought(said(shape=[7]), pixels)


def test_several_labels_must_be_what_the_config_says(tmp_path: Path) -> None:
    several = said(multilabel=True)
    assert brought(several, npz(tmp_path / "a.npz", y=np.eye(6)[:, :3])).own.y.shape == (6, 3)
    with pytest.raises(UserError, match=r"north: there is one label per record, but data\.multilabel"):
        brought(several, npz(tmp_path / "b.npz"))
    with pytest.raises(UserError, match="north: labels have 2 columns, but the problem has 3 classes"):
        brought(several, npz(tmp_path / "c.npz", y=np.eye(6)[:, :2]))


def test_a_site_that_lacks_a_class_gives_the_others_the_same_numbers(tmp_path: Path) -> None:
    settings = said(labels=["cat", "ant", "dog"])
    whole = brought(settings, folder(tmp_path / "n", ant=10, cat=20, dog=30)).own
    part = brought(settings, folder(tmp_path / "s", dog=30), "south").own
    shade = {0: 20, 1: 10, 2: 30}
    assert {int(y): int(x[0, 0, 0]) for x, y in zip(whole.x, whole.y, strict=True)} == shade
    assert part.y.tolist() == [2]


def test_folders_of_images_need_the_names_of_all_classes(tmp_path: Path) -> None:
    source = folder(tmp_path / "n", ant=10, dog=30)
    with pytest.raises(UserError, match=r"name all classes, in the same order everywhere, with data\.labels"):
        brought(said(), source)
    with pytest.raises(UserError, match="a folder 'dog', which is not one of the classes: cat, ant, cow"):
        brought(said(labels=["cat", "ant", "cow"]), source)
    with pytest.raises(UserError, match=r"north: records have shape \(3, 4, 4\)"):
        brought(said(labels=["cat", "ant", "dog"]), folder(tmp_path / "c", mode="RGB", cat=1))


def test_images_shrink_at_the_site_and_for_the_test_set(tmp_path: Path) -> None:
    # The shape is that of records as they lie: 4 × 4, averaged down to 2 × 2. Others may lie in another size.
    x = np.zeros((1, 4, 4), np.uint8)
    x[0, :2, :2] = [[0, 4], [8, 12]]  # its mean is 6
    source = npz(tmp_path / "a.npz", x=x, y=[0])
    settings = said(size=2, test=str(source))
    made = build_federation(settings, seed=0)
    assert made.problem.shape == (1, 2, 2)
    assert made.test is not None
    assert made.test.x.tolist() == [[[[6, 0], [0, 0]]]]
    assert brought(settings, source).own.x.tolist() == [[[[6, 0], [0, 0]]]]
    assert brought(settings, npz(tmp_path / "six.npz", shape=(6, 6))).own.x.shape == (6, 1, 2, 2)
    with pytest.raises(UserError, match=r"data\.size: images of north are 1 wide and can only shrink"):
        brought(settings, npz(tmp_path / "one.npz", shape=(1, 1)))


def test_flat_lists_in_parquet_take_the_shape_of_the_config(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    x = pa.array([list(range(16)), [0] * 16], pa.list_(pa.uint8()))
    pq.write_table(pa.table({"x": x, "label": ["ant", "cat"]}), tmp_path / "a.parquet")
    own = brought(said(labels=["cat", "ant", "dog"]), tmp_path / "a.parquet").own
    assert own.x[own.y == 1][0, 0].flatten().tolist() == list(range(16))
    assert own.x.shape == (2, 1, 4, 4)


@pytest.mark.parametrize(
    ("name", "says"), [("none", "There is no file or folder"), ("a.xls", "neither a folder of images by class nor")]
)
def test_a_source_that_is_not_there_or_of_no_known_kind(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "a.xls").write_text("1,2")
    with pytest.raises(UserError, match=says):
        brought(said(), tmp_path / name)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"shape": [1, 5, 5]}, r"north: records have shape \(1, 4, 4\), but data.shape is \(1, 5, 5\)"),
        ({"multilabel": True}, "north: there is one label per record"),
        ({"pixels": False}, "north: records are uint8 pixels, but all sites need floats"),
    ],
)
def test_what_the_config_says_also_holds_where_the_records_are_here(
    tmp_path: Path, words: dict[str, Any], says: str
) -> None:
    sources = {"north": str(npz(tmp_path / "a.npz"))}
    with pytest.raises(UserError, match=says):
        build_federation(DataSettings.model_validate({"sites": sources, **words}), seed=0)
