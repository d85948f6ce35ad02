"""The run's ledger on disk: one line per reply, added before the method sees it. ``ledger.json`` is made from it.

Nothing is rewound: a run stopped or killed in mid-round has sent more than its checkpoint knows, and these lines have
it. So that a long run can still be read at once, the lines are replaced now and then by a single one with their sum. In
a simulation the clients' own charge logs are available too, and count as well.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from understudy.errors import UserError
from understudy.federation.tensor_store import TensorStore
from understudy.files import LinesOnDisk, write_whole
from understudy.privacy.charges import ChargeLog
from understudy.privacy.ledger import Ledger, Release

SUM = "ledger"  # the key of a line that stands for all lines before it
AT_LEAST = 4 * 2**20  # bytes of single lines before they are summed up


class Releases:
    def __init__(self, folder: Path, checkpoints: TensorStore):
        self._folder, self._checkpoints = folder, checkpoints
        self._file = folder / "releases.jsonl"
        self._lines = LinesOnDisk(self._file)
        self._summed = 0  # bytes of the newest sum

    @property
    def there(self) -> bool:
        """Folders from before it existed have none."""
        return self._file.exists()

    def begin(self) -> Ledger:
        """Ready to be added to; the ledger so far. Earlier versions kept it in their checkpoints: then its sum becomes
        the first line."""
        ledger = self.ledger()
        if self._kept_by_checkpoint() and not self._begins_with_sum():
            self._sum_up(ledger)
        self._file.touch()
        return ledger

    def add(self, release: Release) -> None:
        self._lines.add(release.to_json(), durable=bool(release.charges))

    def settle(self, ledger: Ledger) -> None:
        """After a round that counts: sums up if single lines take more space than the sum."""
        if self._lines.added > max(AT_LEAST, self._summed):
            self._sum_up(ledger)

    def close(self) -> None:
        self._lines.close()

    def ledger(self) -> Ledger:
        """Everything that has left so far."""
        notes = self._checkpoints.newest_notes()  # first: a run that continues an older folder writes the sum next
        ledger, counted = Ledger(), -1
        if notes.get("ledger") and not self._begins_with_sum():
            ledger, counted = Ledger.from_json(notes["ledger"]), notes["round"]
        for line in self._read():
            if isinstance(line, Ledger):
                ledger = line
            elif line.heard > counted:
                ledger.record(line)
        return ledger

    def with_charge_logs(self, ledger: Ledger) -> Ledger:
        """The same, plus what only the charge logs of a simulation's clients record: work in progress at a stop, of
        this run or the one it branched from."""
        for path in sorted(self._folder.glob("clients/*/charges.jsonl")):
            ledger.spend(path.parent.name, ChargeLog(path).charges())
        return ledger

    def _kept_by_checkpoint(self) -> bool:
        return bool(self._checkpoints.newest_notes().get("ledger"))

    def _begins_with_sum(self) -> bool:
        if not self.there:
            return False
        with self._file.open("rb") as file:
            return file.read(len(SUM) + 4).startswith(b'{"%b"' % SUM.encode())

    def _sum_up(self, ledger: Ledger) -> None:
        line = json.dumps({SUM: ledger.to_json()}).encode() + b"\n"
        self._lines.close()
        write_whole(self._file, line)
        self._lines, self._summed = LinesOnDisk(self._file), len(line)

    def _read(self) -> Iterator[Release | Ledger]:
        if not self.there:
            return
        whole, _, _ = self._file.read_bytes().rpartition(b"\n")  # what follows was cut off by a kill
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                said = json.loads(line)
                yield Ledger.from_json(said[SUM]) if SUM in said else Release.of(said)
            except (ValueError, TypeError, KeyError, AttributeError, UserError):
                raise UserError(f"{self._file}, line {number}, cannot be read; restore it from a copy.") from None
