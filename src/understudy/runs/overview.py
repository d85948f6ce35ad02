"""All runs under a folder, kept up to date by looking again: a file that did not change is not opened twice."""

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from understudy.printable import printable
from understudy.runs.standing import ALIVE, Standing, standing_of
from understudy.runs.status import FILE as STATUS

MARKS = {"metrics.jsonl", "run-id", ".lock"}  # beside config.yaml, one of these makes a folder a run's
WATCHED = ("config.yaml", "metrics.jsonl", STATUS)
MOST_FOLDERS = 20_000  # looked into
DEEPEST = 8
PUBLISHED = 0.2  # seconds between partial results of a slow look

Stamp = tuple[tuple[int, int, int], ...]  # inode, size and time of the files that a standing depends on


@dataclass(frozen=True)
class ListedRun:
    """A run under the folder."""

    id: str  # for addresses; looked up, never made into a path
    name: str  # where it is under the folder, safe to show
    folder: Path
    standing: Standing
    stamp: Stamp
    alone: bool = False  # the folder that is looked at is this run's own


@dataclass(frozen=True)
class RunList:
    """What is known at one moment."""

    runs: dict[str, ListedRun]  # by id, the one that changed last first
    complete: bool = False  # False: the first look is not over
    remark: str = ""  # what could not be looked at


class Overview:
    """May be read by any thread while another looks."""

    def __init__(self, root: Path):
        self.root = root
        self.now = RunList({})
        self._looking = threading.Lock()

    def look(self) -> None:
        """Partial results are published on the way, so that a slow disk shows what it has."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        before, found, remark = self.now, dict[str, ListedRun](), ""
        published = time.monotonic()
        if not self.root.is_dir():
            self.now = RunList({}, True, f"There is no folder {printable(str(self.root))} yet.")
            return
        for count, folder in enumerate(self._folders(), start=1):
            if count > MOST_FOLDERS:
                remark = f"Only the first {MOST_FOLDERS:,} folders were looked into; name a folder further down."
                break
            if folder is None:
                continue
            seen = self._seen(folder, before)
            found[seen.id] = seen
            if not before.complete and time.monotonic() - published > PUBLISHED:
                self.now, published = RunList(_newest_first(found)), time.monotonic()
        self.now = RunList(_newest_first(found), True, remark)

    def _folders(self) -> Iterator[Path | None]:
        """Run folders; None stands for one that is none. Links are not followed, nor is anything inside a run."""
        ahead = [(self.root, 0)]
        while ahead:
            folder, depth = ahead.pop()
            inside: list[tuple[Path, int]] = []
            names = set()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        names.add(entry.name)
                        if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                            inside.append((Path(entry.path), depth + 1))
            except OSError:
                yield None
                continue
            if "config.yaml" in names and names & MARKS:
                yield folder
                continue
            if depth < DEEPEST:
                ahead += sorted(inside, reverse=True)
            yield None

    def _seen(self, folder: Path, before: RunList) -> ListedRun:
        where = os.fsencode(folder.relative_to(self.root))
        id = hashlib.sha256(where).hexdigest()[:16]
        stamp, known = _stamp(folder), before.runs.get(id)
        if known is not None and known.stamp == stamp and known.standing.stands not in ALIVE:
            return known  # whoever continues it writes its config first
        alone = folder == self.root
        name = printable(folder.resolve().name if alone else str(folder.relative_to(self.root)))
        standing = standing_of(folder)
        if known is not None and known.stamp == stamp and known.standing == standing:
            return known
        return ListedRun(id, name, folder, standing, stamp, alone)


def _stamp(folder: Path) -> Stamp:
    found = []
    for name in WATCHED:
        try:
            about = (folder / name).stat()
            found.append((about.st_ino, about.st_size, about.st_mtime_ns))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)


def _newest_first(found: dict[str, ListedRun]) -> dict[str, ListedRun]:
    return dict(sorted(found.items(), key=lambda item: (-item[1].standing.changed, item[1].name)))
