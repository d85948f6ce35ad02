"""Listings kept between commands: working them out imports torch and builds every method, which takes seconds.

They depend on nothing but the package's own files, so they are kept under a digest of those: a changed or added file
gives another digest, and a listing that is out of date is never found.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import understudy
from understudy.files import write_whole

MOST = 64  # listings of older versions that stay


def kept(what: str, make: Callable[[], Any]) -> Any:
    """What ``make`` gives, as plain values: from the user's cache, or made and put there."""
    place = _cache() / f"{what}-{_digest()}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(place.read_text())
    found = make()
    with contextlib.suppress(OSError):  # without a cache it only takes longer
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps(found).encode(), durable=False)
        _clear_out(place.parent)
    return json.loads(json.dumps(found))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy" / "listings"


def _digest() -> str:
    """Of the version, of Python's, and of every file of the package by name, size and time of its last change."""
    home = Path(understudy.__file__).parent
    told = hashlib.sha256(f"{understudy.__version__} {sys.version} {home}".encode())
    for name, size, changed in sorted(_files(str(home))):
        told.update(f"\n{name} {size} {changed}".encode())
    return told.hexdigest()[:32]


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        elif entry.name.endswith((".py", ".yaml", ".toml")):
            there = entry.stat()
            yield entry.path, there.st_size, there.st_mtime_ns


def _clear_out(folder: Path) -> None:
    oldest_last = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in oldest_last[MOST:]:
        path.unlink(missing_ok=True)
