"""Memory that a worker process and the run share, for the replies of a group.

A pipe copies a reply several times, and holds the worker up after every 200 kB until the run has read them. Here the
worker writes all replies of a group and goes on; only their lengths go through the pipe, after them, so whoever is
killed while writing has said nothing yet.
"""

import mmap
from collections.abc import Sequence

SIZE = 2**25  # bytes; pages that nobody writes take no memory


class Outbox:
    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE)

    def put(self, parts: Sequence[bytes]) -> bool:
        """False if they do not fit; then nothing is written."""
        if sum(map(len, parts)) > SIZE:
            return False
        at = 0
        for part in parts:
            self._memory[at : at + len(part)] = part
            at += len(part)
        return True

    def take(self, lengths: Sequence[int]) -> list[bytes]:
        """Copies, which stay when the next group is written."""
        found, at = list[bytes](), 0
        for length in lengths:
            found.append(self._memory[at : at + length])
            at += length
        return found

    def close(self) -> None:
        self._memory.close()
