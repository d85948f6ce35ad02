"""The end of metrics.jsonl, without reading the rest: a list of many runs shows only how far each has come."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from understudy.runs.folder import Line

PIECE = 1 << 13  # bytes: the last line of most runs
MOST = 1 << 24  # a line of a run with a thousand clients has about 50 kB


def last_lines(file: Path) -> Iterator[Line]:
    """The newest first. A line that was only half written, or that is no line of metrics, ends it or is left out."""
    try:
        with file.open("rb") as opened:
            for text in _backwards(opened):
                line = line_of(text)
                if line is not None:
                    yield line
    except OSError:
        return


def line_of(text: bytes) -> Line | None:
    """None: damaged."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and type(line.get("round")) is int else None


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines, the last first; bytes behind the last newline are not a line yet."""
    at, piece = file.seek(0, os.SEEK_END), PIECE
    held = b""  # begins within a line, ends behind a newline or within the half line at the end
    whole = False  # whether the half line at the end was dropped
    while at > 0 and len(held) < MOST:
        at, size = max(at - piece, 0), min(piece, at)
        file.seek(at)
        held, piece = file.read(size) + held, piece * 2
        if not whole:
            end = held.rfind(b"\n") + 1
            if not end:
                continue
            held, whole = held[:end], True
        first = 0 if at == 0 else held.find(b"\n") + 1
        yield from reversed(held[first:].splitlines())
        held = held[:first]
