"""The memories of a simulation's clients: in RAM up to a limit, and in two files at every checkpoint.

A site on its own machine keeps each version of its memory in files of its own (`Site.memory`). A simulation with
thousands of clients would spend its time on such files, and needs none before the round counts: what a killed round
remembered is made again. So versions of the current round stay in RAM; when the round is about to count, the new parts
of all clients are appended to one file. Once more than half of that file belongs to versions that no longer count, it
is written anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from understudy.federation.exchange import NOTHING
from understudy.federation.message import Message
from understudy.federation.parcels_on_disk import Owned, ParcelsOnDisk, Spans, bytes_of
from understudy.federation.tensor_store import TensorStore

LIMIT = 2**30  # bytes in RAM, unless the config says otherwise
DEAD_BYTES, DEAD_LINES = 64 * 2**20, 100_000  # that may be in the files, however little is alive


@dataclass
class _Version:
    """One client's memory at one point: its parts, in RAM or on disk or both."""

    parts: dict[str, Tensor] | None  # None: not in RAM
    places: Spans  # of the parts that are on disk
    unchanged: tuple[str, ...] = ()  # parts that it shares with the version it was made from

    @property
    def size(self) -> int:
        return sum(tensor.nbytes for tensor in (self.parts or {}).values())


class Memories:
    def __init__(self, folder: Path, limit: int = LIMIT):
        self._folder, self._limit = folder, limit
        self._disk = ParcelsOnDisk(folder, "memories")
        self._versions: dict[str, dict[str, _Version]] = {}  # by client
        self._unwritten: dict[Owned, None] = {}
        self._recent: dict[Owned, None] = {}  # in RAM, the longest unused first
        self._in_ram = self._alive = 0  # bytes in RAM, and of the data file
        self._unsynced = False  # whether a power cut could take what was written
        for (client, version), places in self._disk.read_list():
            self._drop(client, version)
            self._versions.setdefault(client, {})[version] = _Version(None, places)
            self._alive += bytes_of(places.values())

    # ---- what clients do

    def get(self, client: str, version: str) -> Message | None:
        """A copy, which a task may write to; None if this version is not here."""
        found = self._versions.get(client, {}).get(version)
        if found is None:
            return None
        parts = self._loaded(client, version, found)
        copies = Message({name: tensor.clone() for name, tensor in parts.items()})
        self._make_room()
        return copies

    def put(
        self,
        client: str,
        version: str,
        parts: Mapping[str, Tensor],
        start: str = NOTHING,
        unchanged: Sequence[str] = (),
    ) -> None:
        """A new version; what is ``unchanged`` since the version ``start`` is shared with it, in RAM and on disk, and
        need not be among ``parts``."""
        before = self._versions.get(client, {}).get(start)
        shared = {} if before is None or not unchanged else self._loaded(client, start, before)
        same = {name: shared[name] for name in unchanged if name in shared}
        places = {name: before.places[name] for name in same if before is not None and name in before.places}
        self._drop(client, version)
        made = _Version({**parts, **same}, places, tuple(same))
        self._versions.setdefault(client, {})[version] = made
        self._unwritten[client, version] = None
        self._recent[client, version] = None
        self._in_ram += made.size
        self._make_room()

    # ---- what a run does

    def save(self, versions: Mapping[str, str], *, durable: bool = True) -> None:
        """Before a checkpoint that names ``versions``: they are on disk when this returns; if not ``durable``, a power
        cut may still take them."""
        new = [one for one in self._unwritten if versions.get(one[0]) == one[1]]
        if new:
            self._write(new)
        if durable and self._unsynced:
            self._disk.sync()
            self._unsynced = False

    def settle(self, versions: Mapping[str, str], *, tidy: bool = True) -> None:
        """These versions count from now on: of these clients, no other will be asked for. Unless the files are to be
        made ``tidy``, those before are still in them."""
        for client, counts in versions.items():
            for version in [one for one in self._versions.get(client, {}) if one != counts]:
                self._drop(client, version)
        if not tidy:
            return
        alive = sum(map(len, self._versions.values())) if self._disk.lines > DEAD_LINES else self._disk.lines
        if self._disk.size - self._alive > max(DEAD_BYTES, self._alive) or self._disk.lines > 2 * alive + DEAD_LINES:
            self._write_anew()

    def hand_over(self, clients: Path, run: str, versions: Mapping[str, str]) -> None:
        """To clients that look for their memories in folders of their own, as on Flower."""
        for client, version in versions.items():
            found = self.get(client, version)
            if found is not None:
                TensorStore(clients / client / run / "memory").put(version, found)

    def close(self) -> None:
        self._disk.close()

    # ---- what a worker process does, which gets a client's memory with the request and hands it back

    def empty(self) -> None:
        """Without touching the files, which are the run's."""
        self._versions, self._unwritten, self._recent = {}, {}, {}
        self._in_ram = self._alive = 0
        self._limit = 2**62  # so that nothing is written here

    def changes(self, client: str, version: str) -> tuple[Message, tuple[str, ...]] | None:
        """What is new in a version, and the names of the parts that are not; None if it is not here."""
        found = self._versions.get(client, {}).get(version)
        if found is None:
            return None
        new = {name: tensor for name, tensor in (found.parts or {}).items() if name not in found.unchanged}
        return Message(new), found.unchanged

    # ---- RAM

    def newest(self, client: str) -> str | None:
        return next(reversed(self._versions.get(client, {})), None)

    def _loaded(self, client: str, version: str, found: _Version) -> dict[str, Tensor]:
        if found.parts is None:
            found.parts = self._disk.read(found.places)
            self._in_ram += found.size
        self._recent.pop((client, version), None)
        self._recent[client, version] = None
        return found.parts

    def _make_room(self) -> None:
        if self._in_ram <= self._limit:
            return
        if self._unwritten:
            self._write(list(self._unwritten))
        for entry in list(self._recent):
            if self._in_ram <= self._limit:
                return
            self._out_of_ram(entry)

    def _out_of_ram(self, entry: Owned) -> None:
        found = self._versions[entry[0]][entry[1]]
        self._in_ram -= found.size
        found.parts = None
        self._recent.pop(entry, None)

    def _drop(self, client: str, version: str) -> None:
        mine = self._versions.get(client, {})
        if version not in mine:
            return
        self._out_of_ram((client, version))
        self._unwritten.pop((client, version), None)
        dropped = set(mine.pop(version).places.values())
        self._alive -= bytes_of(dropped - {place for other in mine.values() for place in other.places.values()})
        if not mine:
            del self._versions[client]

    # ---- disk

    def _write(self, entries: Sequence[Owned]) -> None:
        self._unsynced = True
        found = {entry: self._versions[entry[0]][entry[1]] for entry in entries}
        new = {
            entry: (one.places, {name: t for name, t in (one.parts or {}).items() if name not in one.places})
            for entry, one in found.items()
        }
        for entry, places in self._disk.add(new).items():
            self._alive += bytes_of(set(places.values()) - set(found[entry].places.values()))
            found[entry].places = places
            self._unwritten.pop(entry, None)

    def _write_anew(self) -> None:
        if self._unwritten:
            self._write(list(self._unwritten))
        written = {(who, version): one for who, mine in self._versions.items() for version, one in mine.items()}
        for entry, places in self._disk.keep_only({entry: one.places for entry, one in written.items()}).items():
            written[entry].places = places
        self._alive = self._disk.size


def memory_of(folder: Path, run: str, client: str, version: str | None = None) -> Message | None:
    """What a client of the run in ``folder`` remembers, wherever it is kept: this version, or the newest there is."""
    memories = Memories(folder)
    wanted = memories.newest(client) if version is None else version
    found = None if wanted is None else memories.get(client, wanted)
    if found is not None:
        return found
    store = TensorStore(folder / "clients" / client / run / "memory")
    entries = [entry for entry in store.entries() if version in (None, entry)]
    return store.get(entries[-1])[0] if entries else None
