"""Images decoded once and kept in the user's cache folder, for folders too large for memory.

An entry is named after the files' names, sizes and times of change and after what images become, so that it serves
nothing else. Its checksum is verified whenever it is opened; a damaged one is made again. An entry takes the place of
older ones of the same folder.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

from torch import Tensor

from understudy import patience
from understudy.data.framing import Framing
from understudy.data.room import AT_ONCE, Room, mapped
from understudy.files import write_whole

DAY = 24 * 3600.0  # seconds
VERSION = 2  # of how images are decoded
Decode = Callable[[Tensor], None]  # fills a tensor


def decoded(
    files: Sequence[Path], frame: Framing, shape: Sequence[int], room: Room, source: str, decode: Decode
) -> Tensor:
    """The images of ``files``, from the cache or decoded now; ``frame`` with its mode, ``shape`` of all of them."""
    folder = room.folder / "images"
    about = {"source": str(Path(source).absolute()), **asdict(frame), "shape": list(shape)}
    entry = folder / f"{_key(files, about)}.bytes"
    if _sound(entry, about):
        return mapped(entry, shape, shared=False)
    folder.mkdir(parents=True, exist_ok=True)
    draft = Room(0, folder).draft(prod(shape), source)
    try:
        decode(mapped(draft, shape, shared=True))
        _keep(draft, entry, about)
    except BaseException:  # Ctrl-C too: half a file must not stay behind
        draft.unlink(missing_ok=True)
        raise
    _forget_others(entry, about)
    return mapped(entry, shape, shared=False)


def _key(files: Sequence[Path], about: dict[str, Any]) -> str:
    total = hashlib.sha256(json.dumps([VERSION, about], sort_keys=True).encode())
    for file in files:
        known = file.stat()
        total.update(f"{file.absolute()}\0{known.st_size}\0{known.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return total.hexdigest()[:40]


def _sound(entry: Path, about: dict[str, Any]) -> bool:
    try:
        words = json.loads(_note(entry).read_text())
        there = words["about"] == about and entry.stat().st_size == prod(about["shape"])
        return bool(there and words["sha256"] == _checksum(entry))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _checksum(file: Path) -> str:
    total, done = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while part := opened.read(AT_ONCE):
            total.update(part)
            done += len(part)
            patience.doing("Verifying images decoded before", f"{done / 1e6:,.0f} MB")
    return total.hexdigest()


def _keep(draft: Path, entry: Path, about: dict[str, Any]) -> None:
    """The note comes last: without it an entry counts for nothing."""
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    words = {"about": about, "sha256": _checksum(draft)}
    _note(entry).unlink(missing_ok=True)
    os.replace(draft, entry)
    write_whole(_note(entry), json.dumps(words).encode())


def _forget_others(entry: Path, about: dict[str, Any]) -> None:
    """A run that has one mapped keeps it until it ends. Drafts of a day ago belong to nobody."""
    for draft in entry.parent.glob("*.draft"):
        with contextlib.suppress(OSError):
            if draft.stat().st_mtime < time.time() - DAY:
                draft.unlink()
    for note in entry.parent.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            other = json.loads(note.read_text())["about"]
            if note != _note(entry) and {**other, "shape": None} == {**about, "shape": None}:
                note.unlink()
                note.with_suffix(".bytes").unlink(missing_ok=True)


def _note(entry: Path) -> Path:
    return entry.with_suffix(".json")
