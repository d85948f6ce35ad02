"""The review: a person at a site looks at what would leave, drops single examples, and approves the rest.

Records reach only the browser that opened the page with the link from the terminal: the guard stands before every
request, answers are not to be stored, and nothing is logged. Reading changes nothing, except that showing records is
written down first. A decision is a form that carries a value of the page it was made on, so that it can neither come
from another site nor be about something else than what was shown.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from understudy.audits.own_records import NearestRecords, OwnRecords
from understudy.errors import UserError
from understudy.federation.approval import ApprovalQueue, DecidedMeanwhile, queues_in
from understudy.federation.decisions import user
from understudy.federation.held import Held
from understudy.federation.rows import rows_named
from understudy.view.html.review_page import ShownReply, png_of, review_page, waiting_page
from understudy.view.html.review_tiles import is_image
from understudy.web.static_files import static_file

LARGEST_FORM = 4_000_000  # bytes: a hundred thousand ids
FORM = "application/x-www-form-urlencoded"

Form = dict[str, list[str]]


class Gone(UserError):
    """What a request is about does not wait here."""


@dataclass
class Desk:
    """Where a person reviews the replies of one site, or of all clients of a run."""

    folder: Path
    records: OwnRecords
    show_records: bool | None = None  # None: unless a mechanism covers the examples
    next_step: str = ""  # what to do once everything is decided
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), init=False, repr=False)
    _by: str = field(default_factory=user, init=False)

    # ---- what waits

    def waiting(self) -> tuple[list[tuple[ApprovalQueue, Held]], list[str]]:
        """Replies, and sentences about queues that cannot be read."""
        found, wrong = [], []
        for queue in queues_in(self.folder):
            try:
                found += [(queue, one) for one in queue.held()]
            except UserError as error:
                wrong.append(str(error))
        return found, wrong

    def find(self, id: str) -> tuple[ApprovalQueue, Held]:
        for queue in queues_in(self.folder):
            with suppress(UserError):  # a queue that cannot be read has a sentence on the first page
                for one in queue.held(id):
                    return queue, one
        raise Gone(f"Nothing that waits here is called {id[:200]!r}: it has left, its round is over, or it never was.")

    def page(self, message: str = "") -> str:
        found, wrong = self.waiting()
        return waiting_page([one for _, one in found], [message, *wrong] if message else wrong, self.next_step)

    def reply(self, id: str, message: str = "") -> str:
        queue, one = self.find(id)
        beside, alone = self._beside(queue, one)
        if beside is not None:
            _, one = self.find(id)  # it is now written down that records were seen
        return review_page(
            ShownReply(one, beside, alone, self.token(one), self._by, self.next_step, message, self.records.labels)
        )

    # ---- pictures

    def example(self, id: str, row: int) -> bytes:
        _, one = self.find(id)
        examples = one.examples()
        if examples is None or not 0 <= row < len(examples) or not is_image(one.problem):
            raise Gone("There is no such image.")
        return png_of(examples.x[row], one.problem)

    def record(self, id: str, row: int) -> bytes:
        queue, one = self.find(id)
        beside, _ = self._beside(queue, one)
        if beside is None or not 0 <= row < len(beside.records) or not is_image(one.problem):
            raise Gone("There is no such record to show.")
        return png_of(beside.records.x[row], one.problem)

    def _beside(self, queue: ApprovalQueue, one: Held) -> tuple[NearestRecords | None, str]:
        """The nearest records, or why there are none; that a person sees them is on disk first."""
        wanted = not one.private if self.show_records is None else self.show_records
        if not wanted:
            return None, "Records are not shown (--no-records)."
        try:
            beside = self.records.nearest(one)
            queue.note_records_seen(one)
        except UserError as why:
            return None, f"Records cannot be shown: {why}"
        return beside, ""

    # ---- decisions

    def token(self, one: Held) -> str:
        """Of this page: bound to this server, the bytes and how the decision stands."""
        about = f"{one.id} {one.sha256} {one.decision}"
        return hmac.new(self._secret, about.encode(), hashlib.sha256).hexdigest()

    def decide(self, id: str, form: Form) -> None:
        queue, one = self._as_shown(id, form)
        word = _only(form, "decision")
        if word not in ("yes", "no"):
            raise UserError("A decision is yes or no.")
        rows = rows_named(form.get("drop", []), one.ids()) if word == "yes" else []
        self._by = _only(form, "by").strip()[:200] or self._by
        queue.decide(one, "yes" if word == "yes" else "no", rows, reason=_only(form, "reason"), by=self._by)

    def undo(self, id: str, form: Form) -> None:
        queue, one = self._as_shown(id, form)
        queue.undo(one, by=self._by)

    def _as_shown(self, id: str, form: Form) -> tuple[ApprovalQueue, Held]:
        queue, one = self.find(id)
        if not hmac.compare_digest(_only(form, "page").encode(), self.token(one).encode()):
            raise DecidedMeanwhile(
                "Nothing was changed: this page is not the newest, because it was sent twice or somebody decided "
                "meanwhile. This is how it stands."
            )
        return queue, one


def _only(form: Form, name: str) -> str:
    values = form.get(name, [""])
    if len(values) != 1:
        raise UserError(f"The form has {len(values)} values of {name}.")
    return values[0]


# ---- what a browser asks for


def review_app(desk: Desk) -> Starlette:
    def page(_: Request) -> Response:
        return HTMLResponse(desk.page())

    def reply(request: Request) -> Response:
        return _shown(desk, request.path_params["id"])

    def example(request: Request) -> Response:
        asked = request.path_params
        return _picture(lambda: desk.example(asked["id"], asked["row"]))

    def record(request: Request) -> Response:
        asked = request.path_params
        return _picture(lambda: desk.record(asked["id"], asked["row"]))

    def changing(change: Callable[[str, Form], None]) -> Callable[[Request], object]:
        async def changed(request: Request) -> Response:
            id, form = request.path_params["id"], await _form(request)
            if form is None:
                return PlainTextResponse("This is not a form of the review.", 400)
            return await run_in_threadpool(_changed, desk, change, id, form)

        return changed

    return Starlette(
        routes=[
            Route("/", page),
            Route("/reply/{id}", reply),
            Route("/reply/{id}/example/{row:int}.png", example),
            Route("/reply/{id}/record/{row:int}.png", record),
            Route("/reply/{id}/decide", changing(desk.decide), methods=["POST"]),
            Route("/reply/{id}/undo", changing(desk.undo), methods=["POST"]),
            Route("/favicon.ico", lambda _: Response(status_code=204)),
            Route("/static/{name:path}", static_file),
        ],
        exception_handlers={Exception: _defect},
    )


def _defect(_: Request, defect: Exception) -> Response:
    said = (
        f"The page hit a bug ({type(defect).__name__}). Nothing has left; `understudy approve` decides in a terminal."
    )
    return PlainTextResponse(said, 500)


def _shown(desk: Desk, id: str, message: str = "", status: int = 200) -> Response:
    """One reply; all that waits, where that one does not."""
    try:
        return HTMLResponse(desk.reply(id, message), status)
    except Gone as gone:
        return HTMLResponse(desk.page(str(gone)), 404)


def _picture(draw: Callable[[], bytes]) -> Response:
    try:
        return Response(draw(), media_type="image/png")
    except Gone as gone:
        return PlainTextResponse(str(gone), 404)


def _changed(desk: Desk, change: Callable[[str, Form], None], id: str, form: Form) -> Response:
    """On success the browser asks for the page anew, so that going back or reloading sends nothing twice."""
    try:
        change(id, form)
        return RedirectResponse(f"/reply/{id}", 303)
    except UserError as wrong:
        return _shown(desk, id, str(wrong), 409 if isinstance(wrong, DecidedMeanwhile) else 400)


async def _form(request: Request) -> Form | None:
    """None: not a form, or too large. Read by hand: what is sent here needs no files, and so no further package."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return None
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            return None
    try:
        return parse_qs(body.decode(), keep_blank_values=True, strict_parsing=True)
    except ValueError:
        return None
