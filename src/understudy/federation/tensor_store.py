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
from understudy.files import write_whole

Notes = dict[str, Any]  # plain JSON values stored with the tensors


class TensorStore:
    def __init__(self, folder: Path):
        self.folder = folder
        self._known: dict[str, tuple[Tensor, int, str]] = {}  # of the last entry: tensors, their writes, their files

    def put(self, entry: str, parts: Mapping[str, Tensor], **notes: Any) -> None:
        """All new parts are on disk before the entry's name appears."""
        (self.folder / "parts").mkdir(parents=True, exist_ok=True)
        files = {name: self._file_of(name, tensor) for name, tensor in parts.items()}
        self._known = {name: (parts[name], parts[name]._version, file) for name, file in files.items()}
        write_whole(self.folder / f"{entry}.json", json.dumps({"parts": files, "notes": notes}).encode())

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
        """Notes of the last entry, without its tensors; empty if there is none."""
        while entries := self.entries():
            path = self.folder / f"{entries[-1]}.json"
            try:
                notes: Notes = json.loads(path.read_text())["notes"]
                return notes
            except FileNotFoundError:
                continue  # a running run has replaced it with a newer one
            except (OSError, ValueError, KeyError, TypeError):
                raise UserError(f"{path} is damaged; restore it from a copy.") from None
        return {}

    def entries(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json")) if self.folder.is_dir() else []

    def keep_only(self, entries: Iterable[str]) -> None:
        """Deletes other entries, and parts that only they named."""
        wanted = set(entries)
        if set(self.entries()) <= wanted:
            return
        for entry in set(self.entries()) - wanted:
            (self.folder / f"{entry}.json").unlink(missing_ok=True)
        listings = [json.loads((self.folder / f"{entry}.json").read_text()) for entry in self.entries()]
        named = {file for listing in listings for file in listing["parts"].values()}
        for path in (self.folder / "parts").iterdir():
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _file_of(self, name: str, tensor: Tensor) -> str:
        known = self._known.get(name)
        if known is not None and known[0] is tensor and known[1] == tensor._version:
            return known[2]
        data = Message(it=tensor).to_bytes()
        file = hashlib.sha256(data).hexdigest()[:32]
        if not (self.folder / "parts" / file).exists():
            write_whole(self.folder / "parts" / file, data)
        return file

    def _read(self, file: str) -> Tensor:
        data = (self.folder / "parts" / file).read_bytes()
        if hashlib.sha256(data).hexdigest()[:32] != file:
            raise UserError(f"parts/{file} is not what was written")
        return Message.from_bytes(data)["it"]
