"""`flair`: photographs by Flickr users with several labels each, from the folder its authors publish.

"FLAIR: Federated Learning Annotated Image Repository" gives, once unpacked:

    labels_and_metadata.json    a list of {image_id, user_id, labels, fine_grained_labels, partition}
    small_images/<image_id>.jpg 256 × 256 pixels

``labels`` are 17 coarse ones, ``fine_grained_labels`` 1,628 fine ones; a partition is train, val or test, and no user
is in two. Images are averaged down as they are read: at full size the training part alone would fill 68 GB.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.data.dataset import Dataset, Source
from understudy.data.examples import Examples
from understudy.data.images import stack_images
from understudy.data.problem import Problem
from understudy.data.published import data_folder, find, places
from understudy.data.resize import shrunk
from understudy.errors import UserError
from understudy.reading import json_of, text_of

INDEX, IMAGES = "labels_and_metadata.json", "small_images"
PARTITIONS = ("train", "val", "test")
COARSE = (
    "animal",
    "art",
    "celebration",
    "equipment",
    "fire",
    "food",
    "games",
    "interior_room",
    "light",
    "liquid",
    "material",
    "music",
    "outdoor",
    "plant",
    "recreation",
    "religion",
    "structure",
)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, as in its authors' benchmark
AT_ONCE = 256  # images in memory at full size
HOME = "https://github.com/apple/ml-flair"

FlairEntry = dict[str, Any]


class FlairSettings(Settings):
    labels: Literal["coarse", "fine"] = "coarse"  # 17 coarse labels, or 1,628 fine ones
    size: int = Field(default=32, ge=1, le=256)  # images are averaged down to this side, in pixels
    users: int | None = Field(default=None, ge=1)  # only the training users with the most images, this many; None: all
    score_on: Literal["val", "test"] = "test"  # the test users, or val while choosing settings


def _field(settings: FlairSettings) -> str:
    return "labels" if settings.labels == "coarse" else "fine_grained_labels"


def find_index(folder: Path | None) -> Path | None:
    return find([INDEX], places(("flair",), (), folder))


def read_entries(path: Path) -> list[FlairEntry]:
    entries = json_of(text_of(path), str(path))
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path} is not a list of images; put the published file there.")
    return entries


def check_entries(entries: Sequence[FlairEntry], field: str, path: Path) -> None:
    """Only what is used: each entry's ids, its partition and the labels asked for."""
    for number, entry in enumerate(entries):
        for name in ("image_id", "user_id", "partition", field):
            if not isinstance(entry, dict) or name not in entry:
                raise UserError(f"{path}: entry {number} has no '{name}'; put the published file there.")
        labels = entry[field]
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise UserError(f"{path}: '{field}' of image {entry['image_id']} is not a list of words.")
        if entry["partition"] not in PARTITIONS:
            raise UserError(
                f"{path}: image {entry['image_id']} is in the partition '{entry['partition']}'; "
                f"the partitions are {', '.join(PARTITIONS)}."
            )


def label_names(entries: Sequence[FlairEntry], settings: FlairSettings, path: Path) -> tuple[str, ...]:
    """In alphabetical order; the fine ones are those that occur in any partition, as its authors number them."""
    used = {label for entry in entries for label in entry[_field(settings)]}
    if settings.labels == "fine":
        return tuple(sorted(used))
    if unknown := sorted(used.difference(COARSE)):
        raise UserError(f"{path}: '{unknown[0]}' is not one of the 17 coarse labels: {', '.join(COARSE)}.")
    return COARSE


def _of_largest_users(entries: list[FlairEntry], users: int | None) -> list[FlairEntry]:
    if users is None:
        return entries
    images = Counter(str(entry["user_id"]) for entry in entries)
    kept = set(sorted(images, key=lambda user: (-images[user], user))[:users])
    return [entry for entry in entries if str(entry["user_id"]) in kept]


def _examples(entries: Sequence[FlairEntry], names: Sequence[str], settings: FlairSettings, folder: Path) -> Examples:
    column = {name: at for at, name in enumerate(names)}
    x = torch.empty(len(entries), 3, settings.size, settings.size, dtype=torch.uint8)
    y = torch.zeros(len(entries), len(names))
    for number, entry in enumerate(entries):
        y[number, [column[label] for label in entry[_field(settings)]]] = 1
    for start in range(0, len(entries), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        x[part] = shrunk(Examples(_photographs(entries[part], folder), y[part]), settings.size, "flair").x
    return Examples(x, y)


def _photographs(entries: Sequence[FlairEntry], folder: Path) -> Tensor:
    files = [folder / IMAGES / f"{entry['image_id']}.jpg" for entry in entries]
    for file in files:
        if not file.is_file():
            raise UserError(f"flair: {INDEX} names the image {file}, which is not there; unpack the archives again.")
    return stack_images(files).expand(-1, 3, -1, -1)  # grey images have one channel


def read_flair(folder: Path | None = None, settings: FlairSettings | None = None) -> Dataset:
    """Users are numbered in order of their names, because the names themselves are not valid site names."""
    settings = settings or FlairSettings()
    path = find_index(folder)
    if path is None:
        searched = ", ".join(str(place) for place in places(("flair",), (), folder))
        raise UserError(
            f"flair needs its published folder ({INDEX} and {IMAGES}/), which is in none of {searched}; "
            f"fetch it with its authors' script from {HOME} and put it there."
        )
    entries = read_entries(path)
    check_entries(entries, _field(settings), path)
    names = label_names(entries, settings, path)
    train = _of_largest_users([entry for entry in entries if entry["partition"] == "train"], settings.users)
    test = [entry for entry in entries if entry["partition"] == settings.score_on]
    for part, partition in ((train, "train"), (test, settings.score_on)):
        if not part:
            raise UserError(f"{path} has no image in the partition '{partition}'; put the published file there.")
    number = {user: at for at, user in enumerate(sorted({str(entry["user_id"]) for entry in train}))}
    return Dataset(
        "flair",
        Problem((3, settings.size, settings.size), len(names), multilabel=True, mean=MEAN, std=STD),
        train=_examples(train, names, settings, path.parent),
        test=_examples(test, names, settings, path.parent),
        users=torch.tensor([number[str(entry["user_id"])] for entry in train]),
        label_names=names,
    )


def _get(folder: Path | None) -> Path:
    here = find_index(folder)
    if here is None:
        raise UserError(
            f"flair is 6 GB in 43 archives under its own licence; fetch it with its authors' script from {HOME} "
            f"into {data_folder(folder) / 'flair'}."
        )
    return here.parent


SOURCE = Source(
    "flair",
    (3, 32, 32),
    len(COARSE),
    (345879, 43960),
    "Apple's FLAIR, its published folder of small images",
    read=read_flair,
    here=lambda folder: find_index(folder) is not None,
    get=_get,
)
