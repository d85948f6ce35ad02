"""`mnist` and `fashion-mnist` from their four original files (gzipped IDX), each checked by its MD5.

The two sets use the same file names, so only the checksum tells them apart.
"""

import gzip
import struct
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from understudy.data.dataset import Dataset, Source
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.published import (
    PublishedFile,
    checked,
    data_folder,
    fetch,
    find,
    md5_of,
    missing,
    places,
)
from understudy.errors import UserError

UNSIGNED_BYTES = 0x08


def parse_idx(content: bytes, path: Path) -> Tensor:
    """The array in an IDX file of unsigned bytes: a magic number, big-endian lengths, then the values."""
    if len(content) < 4 or content[:2] != b"\x00\x00" or content[2] != UNSIGNED_BYTES:
        raise UserError(f"{path} is not an IDX file of unsigned bytes; put the published file there.")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise UserError(f"{path} ends within its header; put the published file there.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    expected = int(np.prod(shape, dtype=np.int64))
    if len(content) - start != expected:
        raise UserError(
            f"{path} says {' × '.join(map(str, shape))} bytes but holds {len(content) - start}; "
            "put the published file there."
        )
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=start).reshape(shape)


@dataclass(frozen=True)
class IdxSet:
    """A data set in MNIST's format: train images, train labels, test images, test labels."""

    name: str
    subfolders: tuple[str, ...]
    system: tuple[str, ...]
    files: tuple[PublishedFile, ...]
    problem: Problem
    label_names: tuple[str, ...]

    def folders(self, folder: Path | None) -> list[Path]:
        return places(self.subfolders, self.system, folder)

    def here(self, folder: Path | None) -> bool:
        return all(find([file.name], self.folders(folder)) for file in self.files)

    def get(self, folder: Path | None) -> Path:
        into = data_folder(folder) / self.subfolders[0]
        for file in self.files:
            fetch(file, into)
        return into

    def array(self, file: PublishedFile, folder: Path | None) -> Tensor:
        folders = self.folders(folder)
        path = find([file.name], folders)
        if path is None:
            raise missing(self.name, file.name, folders)
        try:
            packed = path.read_bytes()
            content = gzip.decompress(packed)
        except (OSError, EOFError, zlib.error) as broken:
            raise UserError(f"{path} is not the published {file.name}: {broken}; fetch it again.") from None
        if not file.content_md5 or md5_of(content) != file.content_md5:
            checked(packed, file, path)
        return parse_idx(content, path)

    def read(self, folder: Path | None = None) -> Dataset:
        x, y, test_x, test_y = (self.array(file, folder) for file in self.files)
        return Dataset(
            self.name,
            self.problem,
            train=Examples(x.unsqueeze(1), y.to(torch.int64)),
            test=Examples(test_x.unsqueeze(1), test_y.to(torch.int64)),
            label_names=self.label_names,
        )


NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def published(home: str, *md5: str, contents: tuple[str, ...] = ("",) * 4) -> tuple[PublishedFile, ...]:
    named = zip(NAMES, md5, contents, strict=True)
    return tuple(PublishedFile(name, packed, home + name, content) for name, packed, content in named)


MNIST = IdxSet(
    "mnist",
    ("mnist", "MNIST/raw"),
    (),
    published(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
        contents=(
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    Problem((1, 28, 28), 10, mean=(0.1307,), std=(0.3081,)),
    tuple(str(digit) for digit in range(10)),
)

FASHION_MNIST = IdxSet(
    "fashion-mnist",
    ("fashion-mnist", "FashionMNIST/raw"),
    ("datasets/fashion-mnist",),  # Debian's package dataset-fashion-mnist
    published(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
        contents=(
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    ),
    Problem((1, 28, 28), 10, mean=(0.5,), std=(0.5,)),  # as FedCOG scales it
    ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
)

_source = partial(Source, shape=(1, 28, 28), classes=10, records=(60000, 10000))
SOURCES = tuple(
    _source(name=one.name, origin=origin, read=one.read, here=one.here, get=one.get)
    for one, origin in (
        (MNIST, "the MNIST database, original files"),
        (FASHION_MNIST, "Zalando Research; Debian: dataset-fashion-mnist"),
    )
)
