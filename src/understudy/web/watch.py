"""Looks at a folder of runs again and again, in a thread, while somebody is interested."""

import threading
import time

from understudy.runs.overview import Overview, RunList

EVERY = 1.0  # seconds between looks
SHARE = 0.1  # of the time, at most, is spent looking: a slow disk is left in peace
INTEREST = 20.0  # seconds for which one request keeps it looking


class FolderWatch:
    """Its answers never wait for a disk: ``now`` is what the last look found, or has found so far."""

    def __init__(self, overview: Overview):
        self.overview = overview
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._asked = 0.0
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    @property
    def now(self) -> RunList:
        self._asked = time.monotonic()
        self._wanted.set()
        return self.overview.now

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()

    def _work(self) -> None:
        while not self._closed.is_set():
            began = time.monotonic()
            self.overview.look()
            took = time.monotonic() - began
            self._closed.wait(max(EVERY, took / SHARE))
            if time.monotonic() - self._asked > INTEREST:
                self._wanted.clear()
                self._wanted.wait()
