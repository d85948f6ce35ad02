"""`cifar10` and `cifar100` from the python version of their published batches, plain or as .xz.

The batches are pickles. Each is compared with its published MD5 before it is opened, and even then only
arrays, numbers, text and containers are allowed.
"""

import io
import lzma
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from understudy.data.dataset import Dataset, Source
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.published import (
    Archive,
    PublishedFile,
    checked,
    data_folder,
    fetch_members,
    find,
    missing,
    places,
)
from understudy.errors import UserError

HOME = "https://www.cs.toronto.edu/~kriz/"
ARRAYS_ONLY = {  # numpy 1 and 2 name the first differently, so we ask numpy for it
    "_reconstruct": np.empty(0).__reduce__()[0],
    "ndarray": np.ndarray,
    "dtype": np.dtype,
}


class ArraysOnly(pickle.Unpickler):
    """Unpickles numpy arrays and plain values; anything else is refused."""

    def find_class(self, module: str, name: str) -> object:
        if module.split(".")[0] == "numpy" and name in ARRAYS_ONLY:
            return ARRAYS_ONLY[name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def unpickle(content: bytes, path: Path) -> Mapping[str, object]:
    try:
        batch = ArraysOnly(io.BytesIO(content), encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, TypeError) as broken:
        raise UserError(f"{path} is not a batch of arrays: {broken}.") from None
    if not isinstance(batch, dict):
        raise UserError(f"{path} is not a batch of arrays.")
    return batch


def plain_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return lzma.decompress(content) if path.suffix == ".xz" else content
    except (OSError, EOFError, lzma.LZMAError) as broken:
        raise UserError(f"{path} cannot be read: {broken}; fetch it again.") from None


@dataclass(frozen=True)
class CifarSet:
    name: str
    subfolder: str  # also its name inside the archive
    archive: PublishedFile
    train: tuple[PublishedFile, ...]
    test: PublishedFile
    meta: PublishedFile
    label_key: str
    names_key: str
    problem: Problem

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        return (*self.train, self.test, self.meta)

    def folders(self, folder: Path | None) -> list[Path]:
        spaced = self.name.replace("cifar", "cifar-")
        return places((f"{spaced}/{self.subfolder}", self.subfolder, spaced, self.name), (), folder)

    def path(self, file: PublishedFile, folder: Path | None) -> Path | None:
        return find([file.name, f"{file.name}.xz"], self.folders(folder))

    def here(self, folder: Path | None) -> bool:
        return all(self.path(file, folder) is not None for file in self.files)

    def get(self, folder: Path | None) -> Path:
        into = data_folder(folder) / self.subfolder
        fetch_members(Archive(self.archive, self.subfolder), self.files, into)
        return into

    def batch(self, file: PublishedFile, folder: Path | None) -> Mapping[str, object]:
        path = self.path(file, folder)
        if path is None:
            raise missing(self.name, f"{file.name} (or {file.name}.xz)", self.folders(folder))
        return unpickle(checked(plain_bytes(path), file, path), path)

    def examples(self, batch: Mapping[str, object], file: PublishedFile) -> Examples:
        pixels, labels = batch.get("data"), batch.get(self.label_key)
        flat = int(np.prod(self.problem.shape))
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (flat,):
            raise UserError(f"{self.name}: {file.name} does not hold rows of {flat} pixels.")
        x = torch.from_numpy(np.ascontiguousarray(pixels).reshape(-1, *self.problem.shape))
        if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
            raise UserError(f"{self.name}: {file.name} has no list of '{self.label_key}'.")
        return Examples(x, torch.tensor(labels, dtype=torch.int64))

    def read(self, folder: Path | None = None) -> Dataset:
        with ThreadPoolExecutor() as pool:  # decompressing releases the GIL, so threads help
            *batches, meta = pool.map(lambda file: self.batch(file, folder), self.files)
        parts = [self.examples(batch, file) for batch, file in zip(batches, (*self.train, self.test), strict=True)]
        names = meta.get(self.names_key)
        return Dataset(
            self.name,
            self.problem,
            train=Examples(torch.cat([p.x for p in parts[:-1]]), torch.cat([p.y for p in parts[:-1]])),
            test=parts[-1],
            label_names=tuple(map(str, names)) if isinstance(names, list) else (),
        )


CIFAR10 = CifarSet(
    "cifar10",
    "cifar-10-batches-py",
    PublishedFile("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", f"{HOME}cifar-10-python.tar.gz"),
    train=(
        PublishedFile("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        PublishedFile("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        PublishedFile("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        PublishedFile("data_batch_4", "634d18415352ddfa80567beed471001a"),
        PublishedFile("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    ),
    test=PublishedFile("test_batch", "40351d587109b95175f43aff81a1287e"),
    meta=PublishedFile("batches.meta", "5ff9c542aee3614f3951f8cda6e48888"),
    label_key="labels",
    names_key="label_names",
    problem=Problem((3, 32, 32), 10, mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)),
)

CIFAR100 = CifarSet(
    "cifar100",
    "cifar-100-python",
    PublishedFile("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", f"{HOME}cifar-100-python.tar.gz"),
    train=(PublishedFile("train", "16019d7e3df5f24257cddd939b257f8d"),),
    test=PublishedFile("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    meta=PublishedFile("meta", "7973b15100ade9c7d40fb424638fde48"),
    label_key="fine_labels",
    names_key="fine_label_names",
    problem=Problem((3, 32, 32), 100, mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762)),
)

ORIGIN = "Krizhevsky, University of Toronto, python version"
SOURCES = tuple(
    Source(one.name, one.problem.shape, one.problem.classes, (50000, 10000), ORIGIN, one.read, one.here, one.get)
    for one in (CIFAR10, CIFAR100)
)
