"""What a page is sent while it is open, as server-sent events: the list of runs, or the lines of some of them.

A stream asks the disk only in threads, and looks at everything afresh, so that a run that is killed, resumed or deleted
meanwhile is what it shows next.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from understudy.errors import UserError
from understudy.runs.compare import compare
from understudy.runs.following import Following
from understudy.runs.overview import ListedRun, RunList
from understudy.runs.standing import standing_of
from understudy.runs.status import read_status
from understudy.view.html.live_values import comparison_values, listing_values, run_values
from understudy.web.watch import FolderWatch

POLL = 0.4  # seconds
QUIET = 15.0  # seconds without an event, after which a comment keeps the connection open
COMPARED = 2.0  # seconds between comparisons, at least
RETRY = 1000  # milliseconds after which a browser that lost the connection tries again

Answered = TypeVar("Answered")


def event(name: str, content: object, place: str = "") -> str:
    """``place`` comes back as Last-Event-ID if the connection breaks."""
    id = f"id: {place}\n" if place else ""
    return f"event: {name}\n{id}data: {json.dumps(content, allow_nan=False)}\n\n"


@dataclass
class Streams:
    watch: FolderWatch
    readers: Executor
    closing: bool = field(default=False)

    async def of_list(self) -> AsyncIterator[str]:
        yield f"retry: {RETRY}\n\n"
        before, sent = None, time.monotonic()
        while not self.closing:
            listing = self.watch.now
            if listing is not before:
                values = listing_values(listing, None if before is None else before.runs)
                if before is None or values["runs"] or values["gone"] or _apart(listing, before):
                    yield event("runs", values)
                    sent = time.monotonic()
                before = listing
            if time.monotonic() - sent > QUIET:
                yield ": still here\n\n"
                sent = time.monotonic()
            await asyncio.sleep(POLL)

    async def of_runs(self, ids: Sequence[str], place: str, *, compared: bool) -> AsyncIterator[str]:
        yield f"retry: {RETRY}\n\n"
        followed = [_Followed(id, where) for id, where in zip(ids, places(place, ids), strict=True)]
        sent, stale, last = time.monotonic(), compared, 0.0
        closing = False
        while not closing:
            closing = self.closing
            if closing:  # the run that this page was served beside may just have ended
                await self.read(self.watch.overview.look)
            listing = self.watch.now
            runs = listing.runs
            there = [one for one in followed if one.id in runs]
            for one in followed:
                if listing.complete and one.lost(one.id in runs):
                    yield event("gone", {"id": one.id})
            for one in there:
                for name, content in await self.read(one.news, runs[one.id]):
                    stale |= compared
                    yield event(name, content, ",".join(other.place for other in followed))
                    sent = time.monotonic()
            if stale and there and time.monotonic() - last > COMPARED:
                folders = [runs[one.id].folder for one in there]
                yield event("comparison", await self.read(_comparison, folders))
                stale, last = False, time.monotonic()
            if time.monotonic() - sent > QUIET:
                yield ": still here\n\n"
                sent = time.monotonic()
            await asyncio.sleep(POLL)

    async def read(self, work: Callable[..., Answered], *given: object) -> Answered:
        """Whatever asks the disk goes through here, so that nothing else waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, work, *given)


class _Followed:
    """One run on a page."""

    def __init__(self, id: str, place: str):
        self.id, self.place = id, place
        self._following: Following | None = None
        self._told: dict[str, Any] = {}
        self._there = True

    def lost(self, there: bool) -> bool:
        """Whether its folder went away since the last look."""
        self._there, before = there, self._there
        return before and not there

    def news(self, run: ListedRun) -> list[tuple[str, dict[str, Any]]]:
        if self._following is None:
            self._following = Following(run.folder / "metrics.jsonl", self.place)
        found: list[tuple[str, dict[str, Any]]] = []
        if (lines := self._following.look()) is not None:
            self.place = lines.place
            found.append(("lines", {"run": self.id, "anew": lines.anew, "lines": lines.lines}))
        now = replace(run, standing=standing_of(run.folder))  # the list may be a second older than the status
        values = run_values(now, read_status(run.folder))
        if values != self._told:
            self._told = values
            found.append(("run", {**values, "now": time.time()}))
        return found


def places(said: str, ids: Sequence[str]) -> list[str]:
    """Where each run's lines were left, from Last-Event-ID."""
    parts = said.split(",") if len(said) < 4096 else []
    return parts if len(parts) == len(ids) else ["" for _ in ids]


def _comparison(folders: Sequence[Path]) -> dict[str, Any]:
    try:
        return comparison_values(compare(folders))
    except UserError as wrong:
        return {"problem": str(wrong)}
    except Exception as wrong:  # a folder of another version may lack anything
        return {"problem": f"These runs cannot be compared ({type(wrong).__name__}: a folder is damaged)."}


def _apart(one: RunList, other: RunList) -> bool:
    return (one.complete, one.remark) != (other.complete, other.remark)
