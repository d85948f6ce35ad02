"""Follows the metrics of a run that may be going on, be killed, and be resumed, which rewrites the file."""

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.printable import printable
from understudy.runs.folder import Line
from understudy.runs.standing import LARGEST
from understudy.runs.tail import line_of

NAMED_FAILURES = 20  # of one round
LONG = 1000  # entries of a list that is passed on, such as recall by class: at most


@dataclass(frozen=True)
class News:
    """What came since the last look."""

    anew: bool  # the lines replace all earlier ones
    lines: list[Line]
    place: str  # how far this is: `Following(file, place)` goes on from here


@dataclass
class Following:
    """How far metrics.jsonl was read. What was read is told by its length and checksum, so that a page that lost its
    connection, or a server that was started again, goes on where it was, unless the file was cut and went elsewhere.
    """

    file: Path
    place: str = ""
    _read: int = field(default=0, init=False)
    _sum: int = field(default=0, init=False)
    _stat: tuple[int, int, int] = field(default=(0, 0, 0), init=False)

    def __post_init__(self) -> None:
        length, _, total = self.place.partition("-")
        if length.isdecimal() and total.isdecimal() and len(self.place) < 40:
            self._read, self._sum = int(length), int(total)

    def look(self) -> News | None:
        """None: nothing new."""
        try:
            about = self.file.stat()
            stat = (about.st_ino, about.st_size, about.st_mtime_ns)
            if stat == self._stat:
                return None
            with self.file.open("rb") as file:
                known, begun = self._read, b""
                grown = stat[0] == self._stat[0] and stat[1] >= known  # a run that is resumed writes another file
                if grown:
                    file.seek(known)
                else:
                    begun = file.read(known)
                anew = not grown and (len(begun) < known or zlib.crc32(begun) != self._sum)
                fresh = begun + file.read() if anew else file.read()
        except OSError:
            return None  # not yet begun, or just being replaced
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._stat = stat
        if not whole and not anew:
            return None
        self._sum = zlib.crc32(whole, 0 if anew else self._sum)
        self._read = len(whole) + (0 if anew else known)
        self.place = f"{self._read}-{self._sum}"
        lines = [plain(line) for text in whole.splitlines() if (line := line_of(text)) is not None]
        return News(anew or not known, lines, self.place)


def plain(line: Line) -> Line:
    """What a page shows of a line: not what each of a thousand clients sent, no infinities, and no words that could
    mislead."""
    kept: Line = {}
    for key, value in line.items():
        if not isinstance(key, str) or key in ("bytes_by_client", "failures", "lost"):
            continue
        if isinstance(value, bool) or value is None:
            kept[printable(key, 40)] = value
        elif isinstance(value, int | float):
            kept[printable(key, 40)] = value if -LARGEST < value < LARGEST else None
        elif isinstance(value, str):
            kept[printable(key, 40)] = printable(value)
        elif isinstance(value, list):
            kept[printable(key, 40)] = [_plain_item(item) for item in value[:LONG]]
    kept["failures"] = _failures(line.get("failures"))
    return kept


def _plain_item(item: Any) -> float | str | None:
    if isinstance(item, str):
        return printable(item)
    return item if isinstance(item, int | float) and -LARGEST < item < LARGEST else None


def _failures(found: Any) -> list[dict[str, str]]:
    if not isinstance(found, list):
        return []
    return [
        {"client": printable(str(one.get("client")), 100), "why": printable(str(one.get("why")))}
        for one in found[:NAMED_FAILURES]
        if isinstance(one, dict)
    ]
