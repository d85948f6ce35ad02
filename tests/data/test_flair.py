"""FLAIR's published folder, on a tiny one that is made here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.data import sets
from understudy.data.assemble import build_federation, load_dataset
from understudy.data.dataset import Dataset
from understudy.data.flair import COARSE, FlairSettings, read_flair
from understudy.data.settings import DataSettings
from understudy.errors import UserError

pytest.importorskip("PIL")


def entry(image: str, user: str, partition: str, *labels: str, fine: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "user_id": user,
        "image_id": image,
        "fine_grained_labels": list(fine or labels),
        "labels": list(labels),
        "partition": partition,
    }


ENTRIES = [
    entry("11", "b@N00", "train", "food", "plant", fine=("bread", "grass", "plant")),
    entry("12", "a@N01", "train", "animal", fine=("cat",)),
    entry("13", "b@N00", "train", "food", fine=("waffle",)),
    entry("14", "c@N02", "val", "music"),
    entry("15", "d@N03", "test", "religion", "structure", fine=("church",)),
    entry("16", "d@N03", "test", "food", fine=("bread",)),
]


def write_flair(folder: Path, entries: object = ENTRIES, *, without: tuple[str, ...] = (), side: int = 8) -> Path:
    """An image is all of one colour, red 10 times its number; JPEG keeps it to within a shade or two."""
    from PIL import Image

    (folder / "small_images").mkdir(parents=True)
    (folder / "labels_and_metadata.json").write_text(json.dumps(entries))
    for one in ENTRIES:
        if one["image_id"] not in without:
            colour = np.zeros((side, side, 3), np.uint8)
            colour[..., 0] = 10 * int(one["image_id"])
            Image.fromarray(colour).save(folder / "small_images" / f"{one['image_id']}.jpg", quality=95)
    return folder


def read(folder: Path, **options: Any) -> Dataset:
    return read_flair(folder, FlairSettings(**{"size": 4, **options}))


def reds(x: torch.Tensor) -> list[float]:
    return (x[:, 0].double().mean((1, 2)) / 10).round().tolist()


def test_images_labels_and_users_stand_side_by_side(tmp_path: Path) -> None:
    data = read(write_flair(tmp_path))
    assert data.test is not None
    assert data.users is not None
    assert data.problem.shape == (3, 4, 4)
    assert data.problem.multilabel
    assert data.label_names == COARSE == tuple(sorted(COARSE))
    assert len(COARSE) == data.problem.classes == 17
    assert reds(data.train.x) == [11, 12, 13]
    assert reds(data.test.x) == [15, 16]
    assert named(data, data.train.y) == [["food", "plant"], ["animal"], ["food"]]
    assert named(data, data.test.y) == [["religion", "structure"], ["food"]]
    assert data.users.tolist() == [1, 0, 1]  # a@N01 comes before b@N00


def named(data: Dataset, y: torch.Tensor) -> list[list[str]]:
    return [[data.label_names[at] for at in row.nonzero().flatten().tolist()] for row in y]


def test_fine_labels_are_numbered_over_all_partitions_in_alphabetical_order(tmp_path: Path) -> None:
    data = read(write_flair(tmp_path), labels="fine")
    assert data.label_names == ("bread", "cat", "church", "grass", "music", "plant", "waffle")
    assert named(data, data.train.y) == [["bread", "grass", "plant"], ["cat"], ["waffle"]]


def test_scores_may_be_on_the_validation_partition(tmp_path: Path) -> None:
    data = read(write_flair(tmp_path), score_on="val")
    assert data.test is not None
    assert named(data, data.test.y) == [["music"]]


def test_the_users_with_most_images_are_kept(tmp_path: Path) -> None:
    data = read(write_flair(tmp_path), users=1)
    assert data.users is not None
    assert data.users.tolist() == [0, 0]
    assert reds(data.train.x) == [11, 13]


def test_images_are_averaged_down(tmp_path: Path) -> None:
    from PIL import Image

    write_flair(tmp_path, side=16)
    halves = np.zeros((16, 16, 3), np.uint8)
    halves[:, 8:] = 200
    Image.fromarray(halves).save(tmp_path / "small_images" / "11.jpg", quality=95)
    grey = read(tmp_path, size=1).train.x[0].flatten().tolist()
    assert grey == pytest.approx([100, 100, 100], abs=3)
    left, right = read(tmp_path, size=2).train.x[0, 0, 0].tolist()
    assert (left, right) == (pytest.approx(0, abs=3), pytest.approx(200, abs=3))


def test_grey_photographs_get_three_channels_alike(tmp_path: Path) -> None:
    from PIL import Image

    write_flair(tmp_path)
    for image in ("11", "12", "13"):
        Image.fromarray(np.full((8, 8), 77, np.uint8)).save(tmp_path / "small_images" / f"{image}.jpg")
    x = read(tmp_path).train.x
    assert x.shape == (3, 3, 4, 4)
    assert set(x.flatten().tolist()) == {77}


def test_a_config_gives_each_user_a_client(tmp_path: Path) -> None:
    write_flair(tmp_path / "flair")
    words = {"name": "flair", "folder": str(tmp_path), "size": 2, "flair": {"labels": "fine"}}
    data = build_federation(DataSettings.model_validate(words), seed=0)
    assert {name: len(holding.own) for name, holding in data.sites.items()} == {"user-0": 1, "user-1": 2}
    assert data.problem.shape == (3, 2, 2)
    assert data.problem.classes == 7


def test_it_is_listed_as_here_once_the_folder_is(tmp_path: Path) -> None:
    def listed() -> sets.Listed:
        return {one.name: one for one in sets.names(tmp_path)}["flair"]

    assert not listed().here
    with pytest.raises(UserError, match=r"fetch it with its authors' script .* into .*flair"):
        sets.get("flair", tmp_path)
    write_flair(tmp_path / "flair")
    assert listed().here
    assert sets.get("flair", tmp_path) == tmp_path / "flair"


def test_without_the_folder_the_sentence_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(UserError) as wrong:
        load_dataset(DataSettings(name="flair", folder=str(tmp_path)), seed=0)
    assert "labels_and_metadata.json and small_images/" in str(wrong.value)
    assert str(tmp_path / "flair") in str(wrong.value)


@pytest.mark.parametrize("field", ["image_id", "user_id", "partition", "labels"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    entries = [dict(one) for one in ENTRIES]
    del entries[2][field]
    with pytest.raises(UserError, match=f"entry 2 has no '{field}'"):
        read(write_flair(tmp_path, entries))


def test_fine_labels_are_only_needed_where_they_are_asked_for(tmp_path: Path) -> None:
    entries = [{key: value for key, value in one.items() if key != "fine_grained_labels"} for one in ENTRIES]
    write_flair(tmp_path, entries)
    assert len(read(tmp_path).train) == 3
    with pytest.raises(UserError, match="entry 0 has no 'fine_grained_labels'"):
        read(tmp_path, labels="fine")


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"images": []}, "is not a list of images"),
        ([], "is not a list of images"),
        (["11"], "entry 0 has no 'image_id'"),
        ([{**ENTRIES[0], "labels": "food"}], "'labels' of image 11 is not a list of words"),
        ([{**ENTRIES[0], "labels": ["foods"]}], "'foods' is not one of the 17 coarse labels"),
        ([{**ENTRIES[0], "partition": "dev"}], "image 11 is in the partition 'dev'; the partitions are train"),
        (ENTRIES[:3], "no image in the partition 'test'"),
        (ENTRIES[3:], "no image in the partition 'train'"),
    ],
)
def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path, entries: object, says: str) -> None:
    with pytest.raises(UserError) as wrong:
        read(write_flair(tmp_path, entries))
    assert says in str(wrong.value)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (write_flair(tmp_path) / "labels_and_metadata.json").write_text('[{"image_id": ')
    with pytest.raises(UserError, match="is damaged; restore it from a copy"):
        read(tmp_path)


def test_an_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"small_images.13\.jpg, which is not there"):
        read(write_flair(tmp_path, without=("13",)))


def test_images_only_shrink(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="images of flair are 8 wide and can only shrink, not grow to 9"):
        read(write_flair(tmp_path), size=9)
