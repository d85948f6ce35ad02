"""Messages on disk: whole or not at all, and equal parts stored once.

Checkpoints and client memories are tensor stores. A large part that does not change (a pool of images) is written
once, however many entries name it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.files import sync, write_whole

Notes = dict[str, Any]  # plain JSON values stored with the tensors


class TensorStore:
    def __init__(self, folder: Path):
        self.folder = folder
        self._known: dict[str, tuple[Tensor, int, str]] = {}  # of the last entry: tensors, their writes, their files
        self._unsynced: set[str] = set()  # files of parts that a power cut could take

    def put(self, entry: str, parts: Mapping[str, Tensor], *, durable: bool = True, **notes: Any) -> None:
        """All new parts are on disk before the entry's name appears. An entry that is not ``durable`` survives a kill,
        but not always a power cut, after which it may be damaged."""
        (self.folder / "parts").mkdir(parents=True, exist_ok=True)
        files = {name: self._file_of(name, tensor, durable) for name, tensor in parts.items()}
        self._known = {name: (parts[name], parts[name]._version, file) for name, file in files.items()}
        if durable and self._unsynced:
            for file in self._unsynced & set(files.values()):
                sync(self.folder / "parts" / file)
            self._unsynced = set()
            sync(self.folder / "parts")
        content = json.dumps({"parts": files, "notes": notes}).encode()
        write_whole(self.folder / f"{entry}.json", content, durable=durable)

    def get(self, entry: str) -> tuple[Message, Notes]:
        with self._damage_said(entry):
            listing = json.loads((self.folder / f"{entry}.json").read_text())
            parts = {name: self._read(file) for name, file in listing["parts"].items()}
            return Message(parts), dict(listing["notes"])

    def notes(self, entry: str) -> Notes:
        """Without its tensors."""
        with self._damage_said(entry):
            return dict(json.loads((self.folder / f"{entry}.json").read_text())["notes"])

    @contextmanager
    def _damage_said(self, entry: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, KeyError, TypeError, UserError) as broken:
            raise UserError(
                f"{self.folder / entry}.json or a file that it names is missing or damaged ({broken}); "
                f"restore it from a copy, or delete the folder {self.folder} to start over."
            ) from None

    def newest_notes(self) -> Notes:
        """Notes of the last entry that can be read, without its tensors; empty if there is none."""
        while entries := self.entries():
            damaged: list[Path] = []
            for path in (self.folder / f"{entry}.json" for entry in reversed(entries)):
                try:
                    notes: Notes = json.loads(path.read_text())["notes"]
                    return notes
                except FileNotFoundError:
                    break  # a running run has replaced it with a newer one
                except (OSError, ValueError, KeyError, TypeError):
                    damaged.append(path)
            else:
                raise UserError(f"{damaged[0]} is damaged; restore it from a copy.")
        return {}

    def entries(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json")) if self.folder.is_dir() else []

    def keep_only(self, entries: Iterable[str]) -> None:
        """Deletes other entries, and parts that only they named."""
        wanted, there = set(entries), set(self.entries())
        if there <= wanted:
            return
        for entry in there - wanted:
            (self.folder / f"{entry}.json").unlink(missing_ok=True)
        listings = [json.loads((self.folder / f"{entry}.json").read_text()) for entry in there & wanted]
        named = {file for listing in listings for file in listing["parts"].values()}
        for path in (self.folder / "parts").iterdir():
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _file_of(self, name: str, tensor: Tensor, durable: bool) -> str:
        known = self._known.get(name)
        if known is not None and known[0] is tensor and known[1] == tensor._version:
            return known[2]
        data = Message(it=tensor).to_bytes()
        file = hashlib.sha256(data).hexdigest()[:32]
        if not (self.folder / "parts" / file).exists():
            write_whole(self.folder / "parts" / file, data, durable=durable)
            if not durable:
                self._unsynced.add(file)
        return file

    def _read(self, file: str) -> Tensor:
        data = (self.folder / "parts" / file).read_bytes()
        if hashlib.sha256(data).hexdigest()[:32] != file:
            raise UserError(f"parts/{file} is not what was written")
        return Message.from_bytes(data)["it"]
