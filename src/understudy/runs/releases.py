"""What has left a run's clients since its last checkpoint, one line per reply, written before the method sees it.

The checkpoint holds the ledger up to its round. A run stopped or killed in mid-round has sent more than that: these
lines record what. In a simulation the clients' own charge logs are available too, and count as well.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from understudy.errors import UserError
from understudy.federation.tensor_store import TensorStore
from understudy.files import add_line, write_whole
from understudy.privacy.charges import ChargeLog
from understudy.privacy.ledger import Ledger, Release


class Releases:
    def __init__(self, folder: Path, checkpoints: TensorStore):
        self._folder, self._checkpoints = folder, checkpoints
        self._file = folder / "releases.jsonl"

    @property
    def there(self) -> bool:
        """Folders from before it existed have none."""
        return self._file.exists()

    def begin(self) -> None:
        self._file.touch()

    def add(self, release: Release) -> None:
        add_line(self._file, asdict(release), durable=bool(release.charges))

    def forget(self) -> None:
        """They are now in the checkpoint."""
        write_whole(self._file, b"")

    def ledger(self) -> Ledger:
        """The checkpoint's, plus what has left since. The lines are read first: a running run may empty them."""
        lines, notes = list(self._lines()), self._checkpoints.newest_notes()
        ledger = Ledger.from_json(notes["ledger"]) if notes else Ledger()
        for release in lines:
            if release.heard > notes.get("round", -1):
                ledger.record(release)
        return ledger

    def ledger_with_charge_logs(self) -> Ledger:
        """The same, plus what only the charge logs of a simulation's clients record: work in progress at a stop, of
        this run or the one it branched from."""
        ledger = self.ledger()
        for path in sorted(self._folder.glob("clients/*/charges.jsonl")):
            ledger.spend(path.parent.name, ChargeLog(path).charges())
        return ledger

    def _lines(self) -> Iterator[Release]:
        if not self.there:
            return
        whole, _, _ = self._file.read_bytes().rpartition(b"\n")  # what follows was cut off by a kill
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                yield Release.of(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError, UserError):
                raise UserError(f"{self._file}, line {number}, cannot be read; restore it from a copy.") from None
