"""The live page: all runs under a folder, one of them, or several beside each other. It only reads."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from understudy.errors import UserError
from understudy.printable import printable
from understudy.runs.overview import ListedRun, Overview
from understudy.view.html.live_values import comparison_page, run_page, runs_page, sentence_page
from understudy.web.reports import report_of
from understudy.web.static_files import static_file
from understudy.web.streams import Streams
from understudy.web.watch import FolderWatch

READERS = 4  # threads
MOST_COMPARED = 28  # runs: there are that many looks of lines
FIRST_LOOK = 3.0  # seconds to wait for a run that the first look has not found yet


class InWords(HTTPException):
    """Its detail is a sentence for a person."""


class LivePages:
    """An app for `web.serving.Port`; ``close`` ends its streams."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.watch = FolderWatch(Overview(folder))
        self.streams = Streams(self.watch, ThreadPoolExecutor(READERS, "reading"))
        self.app = Starlette(
            routes=[
                Route("/", self._list),
                Route("/runs/{id}", self._run),
                Route("/compare", self._compare),
                Route("/report", self._report),
                Route("/events", self._events),
                Route("/static/{name:path}", static_file),
            ],
            exception_handlers={HTTPException: _in_words},
        )

    def close(self) -> None:
        self.streams.closing = True
        self.watch.close()

    async def _list(self, _: Request) -> Response:
        listing = self.watch.now
        only = next(iter(listing.runs.values()), None)
        if only is not None and only.alone:
            return RedirectResponse(f"/runs/{only.id}", 307)
        return HTMLResponse(runs_page(self.folder.resolve() if self.folder == Path() else self.folder))

    async def _run(self, request: Request) -> Response:
        return HTMLResponse(run_page(await self._found(request.path_params["id"])))

    async def _compare(self, request: Request) -> Response:
        return HTMLResponse(comparison_page(await self._picked(request, least=2)))

    async def _report(self, request: Request) -> Response:
        runs, alone = await self._picked(request, least=1), "file" in request.query_params
        try:
            page = await self.streams.read(lambda: report_of([run.folder for run in runs], alone=alone))
        except UserError as wrong:
            raise InWords(422, printable(str(wrong))) from None
        kept = {"Content-Disposition": 'attachment; filename="report.html"'} if alone else None
        return HTMLResponse(page, headers=kept)

    async def _picked(self, request: Request, *, least: int) -> list[ListedRun]:
        ids = list(dict.fromkeys(request.query_params.getlist("run")))
        if len(ids) < least:
            raise InWords(400, "Pick at least two runs on the list, then press Compare.")
        if len(ids) > MOST_COMPARED:
            raise InWords(400, f"Pick at most {MOST_COMPARED} runs: more lines cannot be told apart.")
        return [await self._found(id) for id in ids]

    async def _events(self, request: Request) -> Response:
        ids = list(dict.fromkeys(request.query_params.getlist("run")))[:MOST_COMPARED]
        place, compared = request.headers.get("last-event-id", ""), "compare" in request.query_params
        stream = self.streams.of_runs(ids, place, compared=compared) if ids else self.streams.of_list()
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _found(self, id: str) -> ListedRun:
        """Looked up among the known runs: no path is made of what a request says."""
        until = time.monotonic() + FIRST_LOOK
        while True:
            listing = self.watch.now
            if (run := listing.runs.get(id)) is not None:
                return run
            if listing.complete or time.monotonic() > until:
                raise InWords(404, "There is no such run here, or not any more; the list shows those that are.")
            await asyncio.sleep(0.1)


async def _in_words(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headings = {400: "That does not work", 404: "Not here", 405: "This page only reads", 422: "Not readable"}
    sentence = error.detail if isinstance(error, InWords) else "There is no page at this address."
    return HTMLResponse(
        sentence_page(headings.get(error.status_code, "Something is wrong"), sentence), error.status_code
    )
