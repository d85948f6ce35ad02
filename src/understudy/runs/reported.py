"""Everything that a report tells about one run, read from its folder as plain values.

A run may be going on, of an older version, or damaged in places. What identifies it must be readable, and then a
sentence says what is wrong; whatever else cannot be read is left out, with a remark.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from understudy.config.schema import LIVE
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.cohorts import in_order
from understudy.reading import text_of
from understudy.runs.attendance import Attendance, attendance_of
from understudy.runs.compare import Row, compare, read_config, read_metrics
from understudy.runs.folder import Line, RunFolder
from understudy.runs.holdings import Holdings, read_holdings
from understudy.runs.machine import MachineFacts, read_machines

NOT_OF_A_FAMILY = ("seed", "data_digest", "engine", "version", "branched", "transcript")
MOST_CLIENTS_WITH_SETS = 500  # whose synthetic sets are read

T = TypeVar("T")


@dataclass(frozen=True)
class ReportedRun:
    row: Row
    config: Mapping[str, Any]
    config_text: str
    lines: Sequence[Line]  # rounds that count, scored or not; scores are numbers, or None
    attendance: Attendance
    holdings: Holdings | None
    ledger: Mapping[str, Any] | None
    sets: Mapping[str, Examples]  # newest synthetic sets, by client
    problem: Problem | None
    machines: Sequence[MachineFacts]
    remarks: Sequence[str]  # what could not be read, in sentences

    @property
    def folder(self) -> Path:
        return self.row.folder

    @property
    def seed(self) -> object:
        return self.config.get("seed")

    @property
    def repeatable(self) -> bool:
        """Whether the config alone says what ran: objects passed in Python are not in it."""
        named = (self.config.get(section) for section in ("data", "model", "method"))
        return LIVE not in [part.get("name") for part in named if isinstance(part, dict)]

    @property
    def family(self) -> str:
        """The same for runs that differ in nothing but their seed, and in what follows from it."""
        words = {key: value for key, value in self.config.items() if key not in NOT_OF_A_FAMILY}
        if isinstance(words.get("model"), dict):
            words["model"] = {key: value for key, value in words["model"].items() if key != "fast"}
        return _digest(words, {})


def read_reported(folders: Sequence[Path], target: float | None = None) -> list[ReportedRun]:
    """In order. The rows share one target, as in a comparison."""
    if not folders:
        raise UserError("No run folder was given; name at least one.")
    return [_reported(row) for row in compare(folders, target)]


def _reported(row: Row) -> ReportedRun:
    folder, run, remarks = row.folder, RunFolder(row.folder), list[str]()

    def attempt(what: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except UserError as wrong:
            remarks.append(f"{what} cannot be shown: {wrong}")
        return otherwise

    config = read_config(folder)
    notes = attempt("Who has spent its budget", run.checkpoints.newest_notes, dict[str, Any]())
    lines = [*read_metrics(folder), *run.waiting()]
    holdings = attempt("Who held what", lambda: read_holdings(folder), None)
    ledger = attempt("The ledger", run.ledger, None) if run.keeps_a_ledger else None
    attendance = attendance_of(lines, _clients(holdings, ledger), notes.get("spent", ()), notes.get("left_out", ()))
    problem = attempt("The synthetic sets", lambda: problem_of(folder, config), None)
    sets = {} if problem is None else attempt("The synthetic sets", lambda: _sets(run, problem), dict[str, Examples]())
    if not lines:
        remarks.append("No round has been written down yet: the run has only just begun, or ended in its opening.")
    return ReportedRun(
        row,
        config,
        text_of(folder / "config.yaml"),
        lines,
        attendance,
        holdings,
        ledger,
        sets,
        problem,
        read_machines(folder),
        remarks,
    )


def _clients(holdings: Holdings | None, ledger: Mapping[str, Any] | None) -> list[str]:
    held = [] if holdings is None else list(holdings.records)
    return in_order(dict.fromkeys([*held, *(ledger or {}).get("clients", {})]))


def problem_of(folder: Path, config: Mapping[str, Any]) -> Problem:
    try:
        return Problem.from_words(config["problem"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{folder / 'config.yaml'} has no complete 'problem'; restore it from a copy.") from None


def _sets(run: RunFolder, problem: Problem) -> dict[str, Examples]:
    sets = run.synthetic(MOST_CLIENTS_WITH_SETS)
    for client, examples in sets.items():
        problem.check(examples, f"{run.path}, synthetic/{client}.npz")
    return sets


def _digest(words: object, known: dict[int, str]) -> str:
    """Each value once, however often a YAML alias names it."""
    if id(words) in known:
        return known[id(words)]
    if isinstance(words, dict):
        parts = sorted(f"{key}: {_digest(value, known)}" for key, value in words.items())
    elif isinstance(words, list):
        parts = [_digest(value, known) for value in words]
    else:
        parts = [repr(words)]
    known[id(words)] = hashlib.sha256(f"{type(words).__name__} {parts}".encode()).hexdigest()[:16]
    return known[id(words)]


def number(value: object) -> float | None:
    """A finite number, or nothing: a line of metrics is text from outside."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
