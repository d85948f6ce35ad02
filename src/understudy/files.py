"""Files that are written whole or not at all, and files of lines likewise."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

MEGABYTE = 1e6  # bytes, wherever megabytes are printed


def make_private(folder: Path) -> None:
    """A folder that only its owner can read; an existing one keeps its permissions."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """The file has its old content or its new one, never a mix, even after a kill or a power cut.

    A file that is not ``durable`` may be lost in a power cut: for files that can be made again.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    with draft.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(draft, path)
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """A file's content, or the names in a folder, are on the disk itself when this returns."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def add_line(path: Path, line: Mapping[str, Any], *, durable: bool = True) -> None:
    """Appends one line of JSON to an append-only file. If a kill or a full disk left half a line at the end, that goes
    first: nobody could rely on it, and it would spoil this one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        _cut_half_a_line(file)
        file.write(json.dumps(line).encode() + b"\n")
        if durable:
            file.flush()
            os.fsync(file.fileno())


class LinesOnDisk:
    """An append-only file of JSON lines that stays open between them, for files that grow by many lines per second.
    Every line has reached the operating system when ``add`` returns, so a kill loses none."""

    def __init__(self, path: Path):
        self._path = path
        self._file: BinaryIO | None = None
        self.added = 0  # bytes

    def add(self, line: Mapping[str, Any], *, durable: bool = True) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab+", buffering=0)
            _cut_half_a_line(self._file)
        data = json.dumps(line).encode() + b"\n"
        self._file.write(data)
        self.added += len(data)
        if durable:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _cut_half_a_line(file: BinaryIO) -> None:
    if not file.tell():
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
