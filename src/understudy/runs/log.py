"""A run's progress as lines of text in its folder: what it said, one line per round, and how it ended.

Nothing in a run reads it. Lines begin with the time, contain no control characters, and are only ever added: a resumed
run goes on below.
"""

import contextlib
from datetime import datetime
from pathlib import Path

from understudy.printable import printable
from understudy.runs.folder import Line

FILE = "log.txt"
LONGEST = 2000  # characters of a line


class RunLog:
    """A run speaks before its folder exists; those sentences are held back and become the first lines."""

    def __init__(self, folder: Path):
        self._file, self._open = folder / FILE, False
        self._waiting: list[str] = []

    def open(self) -> None:
        self._open = True
        self._write()

    def add(self, sentence: str) -> None:
        now = datetime.now().isoformat(" ", "seconds")
        self._waiting.append(f"{now}  {printable(sentence, LONGEST)}\n")
        self._write()

    def _write(self) -> None:
        if not self._open:
            return
        with contextlib.suppress(OSError), self._file.open("a", encoding="utf-8") as file:  # a run needs no log
            file.writelines(self._waiting)
        self._waiting = []


def round_told(line: Line, rounds: int) -> list[str]:
    """A round's line of metrics in words, after what went wrong in it."""
    number = line["round"]
    name = f"round {number} of {rounds}" if number else "opening"
    told = [f"{name}: {failure['client']} did not count: {failure['why']}" for failure in line.get("failures", ())]
    told += [f"{name}: {remark}" for remark in line.get("remarks", ())]
    if line.get("undone"):
        told.append(f"{name}: undone, as too few clients answered")
    accuracy, epsilon = line.get("accuracy"), line.get("epsilon")
    parts = [
        *([] if accuracy is None else [f"accuracy {100 * accuracy:.2f} %"]),
        f"{line['bytes_up']:,} bytes up, {line['bytes_down']:,} down",
        *([f"ε {epsilon:.3g}"] if epsilon else []),
        f"{line.get('clients', 0)} clients answered",
        f"{line['seconds']:.1f} s",
    ]
    return [*told, f"{name}: {', '.join(parts)}"]
