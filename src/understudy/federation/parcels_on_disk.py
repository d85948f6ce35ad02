"""Parcels of tensors appended to one file, with a list of what is where in another.

The list's first line names the data file; every other line is one entry: whose, which version, and the place of each of
its parts. Data is written before the line that names it, so a kill leaves dead space or half a line, never a line that
names nothing. A later line for the same entry takes the place of an earlier one.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.files import LinesOnDisk, sync, write_whole

Owned = tuple[str, str]  # a client and a version of its memory
Span = tuple[int, int]  # where a parcel of parts begins in the data file, and its length
Spans = dict[str, Span]  # by part


class ParcelsOnDisk:
    def __init__(self, folder: Path, name: str):
        self._folder, self._name = folder, name
        self._list = folder / f"{name}.jsonl"
        self._lines = LinesOnDisk(self._list)
        self._data = ""  # the data file's name
        self.size = 0  # of the data file, in bytes
        self.lines = 0  # of the list

    def read_list(self) -> Iterator[tuple[Owned, Spans]]:
        """What an earlier process wrote."""
        if not self._list.exists():
            return
        whole, _, _ = self._list.read_bytes().rpartition(b"\n")  # what follows was cut off by a kill
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                said = json.loads(line)
                if "data" in said:
                    self._data = str(said["data"])
                    self.size = (self._folder / self._data).stat().st_size
                    continue
                places = {str(part): (int(at), int(size)) for part, (at, size) in said["parts"].items()}
                entry = str(said["client"]), str(said["version"])
            except (ValueError, TypeError, AttributeError, KeyError, OSError):
                raise UserError(f"{self._list}, line {number}, cannot be read; restore it from a copy.") from None
            self.lines += 1
            yield entry, places

    def read(self, places: Spans) -> dict[str, Tensor]:
        file, found = self._folder / self._data, dict[str, Tensor]()
        if not places:
            return found
        try:
            with file.open("rb") as data:
                for at, size in set(places.values()):
                    data.seek(at)
                    parcel = Message.from_bytes(data.read(size))
                    found |= {part: parcel[part] for part, place in places.items() if place == (at, size)}
        except (OSError, UserError):
            raise UserError(f"{file} is missing or damaged; restore it from a copy.") from None
        return {part: found[part] for part in places}

    def add(self, entries: Mapping[Owned, tuple[Spans, Mapping[str, Tensor]]]) -> dict[Owned, Spans]:
        """Appends the tensors of each entry to those already in place; all its places. Not durable until `sync`."""
        if not self._data:
            self._begin(f"{self._name}-1.bin", {})
        listed: dict[Owned, Spans] = {}
        with (self._folder / self._data).open("ab") as data:
            self.size = data.seek(0, os.SEEK_END)
            for entry, (places, new) in entries.items():
                listed[entry] = dict(places)
                if new:
                    parcel = Message(new).to_bytes()
                    data.write(parcel)
                    listed[entry] |= dict.fromkeys(new, (self.size, len(parcel)))
                    self.size += len(parcel)
        for entry, places in listed.items():
            self._lines.add(_line(entry, places), durable=False)
        self.lines += len(listed)
        return listed

    def sync(self) -> None:
        for name in (self._data, self._list.name):
            sync(self._folder / name)

    def keep_only(self, entries: Mapping[Owned, Spans]) -> dict[Owned, Spans]:
        """Writes both files anew, without dead space; the new places. The list, which names the data file, is replaced
        last and at once."""
        before = self._folder / self._data
        number = int(self._data.removeprefix(f"{self._name}-").removesuffix(".bin")) + 1
        after = f"{self._name}-{number}.bin"
        moved: dict[Owned, Spans] = {}
        with (self._folder / after).open("wb") as data, before.open("rb") as old:
            for entry, places in entries.items():
                now = {place: _copied(old, data, place) for place in sorted(set(places.values()))}
                moved[entry] = {part: now[place] for part, place in places.items()}
            self.size = data.tell()
            data.flush()
            os.fsync(data.fileno())
        self._begin(after, moved)
        before.unlink(missing_ok=True)
        return moved

    def close(self) -> None:
        self._lines.close()

    def _begin(self, data: str, entries: Mapping[Owned, Spans]) -> None:
        self._lines.close()
        (self._folder / data).touch()
        lines = [{"data": data}, *(_line(entry, places) for entry, places in entries.items())]
        write_whole(self._list, "".join(json.dumps(line) + "\n" for line in lines).encode())
        self._data, self.lines = data, len(entries)


def _line(entry: Owned, places: Spans) -> dict[str, Any]:
    return {"client": entry[0], "version": entry[1], "parts": places}


def _copied(old: Any, data: Any, place: Span) -> Span:
    at, size = place
    old.seek(at)
    begins = data.tell()
    data.write(old.read(size))
    return begins, size


def bytes_of(places: Iterable[Span]) -> int:
    return sum(size for _, size in set(places))
