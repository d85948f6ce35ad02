"""What people at a site decided about replies: ``approvals.jsonl`` in the site's folder.

A line is on disk before anyone relies on it, and none is ever rewritten: of several decisions on the same bytes the
last counts, and an undo is a line too. Two more kinds of lines: ``cut`` is written when rows were dropped, before what
is left leaves, so that those bytes are approved as well. ``saw-records`` is written before a person sees records beside
what waits: no mechanism covers what they decide from then on.
"""

import getpass
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from understudy.errors import UserError
from understudy.files import add_line
from understudy.printable import printable

YesOrNo = Literal["yes", "no"]
PLACE = ("run", "round", "step")  # of a reply


@dataclass(frozen=True)
class Decision:
    said: YesOrNo
    dropped: tuple[int, ...] = ()  # rows that do not leave
    reason: str = ""
    by: str = ""
    when: str = ""


class DecisionLog:
    def __init__(self, home: Path):
        self._file = home / "approvals.jsonl"

    def last(self, about: Mapping[str, Any], sha256: str) -> Decision | None:
        """On these bytes; None: nobody decided, or the decision was undone."""
        found = None
        for line in self._of(about):
            if line["sha256"] == sha256 and line["decision"] != "saw-records":
                found = _decision(line)
        return found

    def records_seen(self, about: Mapping[str, Any]) -> bool:
        return any(line["decision"] == "saw-records" for line in self._of(about))

    def add(self, word: str, about: Mapping[str, Any], sha256: str, by: str = "", **more: Any) -> None:
        """On disk before it returns."""
        kept = {key: about[key] for key in ("client", *PLACE, "task", "parts") if key in about}
        when = datetime.now(UTC).isoformat(timespec="seconds")
        who = printable(by.strip()) or user()
        add_line(self._file, {"decision": word, "when": when, "by": who, "sha256": sha256, **more, **kept})

    def _of(self, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        place = [about[key] for key in PLACE]
        return (line for line in self._lines() if [line[key] for key in PLACE] == place)

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self._file.exists():
            return
        for number, text in enumerate(self._file.read_text(errors="replace").splitlines(), start=1):
            try:
                line = json.loads(text)
                if not {"decision", "sha256", *PLACE} <= line.keys() or _rows(line) is None:
                    raise ValueError
            except (ValueError, AttributeError, RecursionError):
                raise UserError(
                    f"The site's {self._file.name}, line {number}, cannot be read, so nothing leaves: "
                    "restore the file from a copy, or delete that line and decide again."
                ) from None
            yield line


def _decision(line: Mapping[str, Any]) -> Decision | None:
    reason, by, when = (str(line.get(key, "")) for key in ("reason", "by", "when"))
    said: dict[str, YesOrNo] = {"yes": "yes", "no": "no", "cut": "yes"}
    rows = () if line["decision"] == "cut" else _rows(line) or ()  # the bytes of a cut are what was left
    return Decision(said[line["decision"]], rows, reason, by, when) if line["decision"] in said else None


def _rows(line: Mapping[str, Any]) -> tuple[int, ...] | None:
    """None: not rows."""
    rows = line.get("dropped", [])
    return tuple(rows) if isinstance(rows, list) and all(type(row) is int for row in rows) else None


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"user {os.getuid()}"
