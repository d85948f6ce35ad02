"""A site's own record of what it answered: what left it, or why nothing did.

It stays in the site's folder and is append-only. A line about a reply is on disk before the reply leaves; in a
simulation the run's ledger says the same, so only failures are logged there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.federation.exchange import Answer, Request
from understudy.federation.message import Kind, Message
from understudy.federation.release import described
from understudy.files import add_line
from understudy.privacy.charges import Charge

NAME = "answers.jsonl"


class SiteLog:
    def __init__(self, folder: Path):
        self._path = folder / NAME

    def reply(self, request: Request, data: bytes, kinds: Mapping[str, Kind], charges: Sequence[Charge]) -> None:
        """Raises if it cannot be written: then the reply does not leave."""
        parts = described(Message.from_bytes(data), kinds, charges)
        digest = hashlib.sha256(data).hexdigest()
        self._add(request, outcome="done", bytes=len(data), sha256=digest, parts=parts)

    def failure(self, request: Request | None, answer: Answer) -> None:
        """``request`` is None if it could not be read."""
        self._add(request, outcome=answer.outcome, code=answer.code, why=answer.why)

    def _add(self, request: Request | None, **said: Any) -> None:
        asked = {} if request is None else {key: getattr(request, key) for key in ("run", "round", "step", "task")}
        add_line(self._path, {"when": datetime.now(UTC).isoformat(timespec="seconds"), **asked, **said})
