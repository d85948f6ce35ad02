"""Files that are whole or not there, and files of lines that are."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO


def make_private(folder: Path) -> None:
    """A folder that only its owner may look into; one that is there already stays as its owner made it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """The file has its old content or its new one, never half of it, come a kill or a power cut.

    What is not ``durable`` may be gone after a power cut: for files that can be made again.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    with draft.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(draft, path)
    if not durable:
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def add_line(path: Path, line: Mapping[str, Any], *, durable: bool = True) -> None:
    """At the end of a file that is only ever added to, as JSON. What a kill or a full disk left of an earlier line goes
    first: nobody could rely on it, and it would spoil this one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        _cut_half_a_line(file)
        file.write(json.dumps(line).encode() + b"\n")
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _cut_half_a_line(file: BinaryIO) -> None:
    if not file.tell():
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
