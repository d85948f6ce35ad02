"""How a run stands, in words: going on, waiting, stopped, failed or finished, and the command to continue it."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from understudy.errors import UserError
from understudy.printable import LONGEST_NAME, printable
from understudy.runs.compare import data_of, label_of, read_config
from understudy.runs.folder import Line, RunFolder
from understudy.runs.status import FILE as STATUS
from understudy.runs.status import WAITING_FOR_SITES, Status, read_status
from understudy.runs.tail import last_lines

Stands = Literal[
    "going on",
    "waiting for sites",
    "waiting for approval",
    "finished",
    "ended early",
    "stopped",
    "failed",
    "unreadable",
]
ALIVE: tuple[Stands, ...] = ("going on", "waiting for sites")
LOOKED_BACK = 20  # lines: where clients score at home, the last ones have no score yet
LARGEST = 1e300  # no page shows infinities
LARGEST_CONFIG = 1 << 20  # bytes: a thousand named sites take 50 kB
NAMED = 5  # clients in a sentence


@dataclass(frozen=True)
class Standing:
    """One run, as plain values that are safe to show."""

    stands: Stands
    detail: str  # continues the sentence: `stopped` `by hand after round 2 of 3`
    commands: tuple[str, ...] = ()  # to continue it, in order
    label: str = ""
    data: str = ""
    seed: int | None = None
    version: str = ""
    round: int = 0  # the last that counts
    planned: int = 0
    accuracy: float | None = None  # of the last scored round
    epsilon: float | None = None
    failed: int = 0  # replies of the last round that did not count
    changed: float = 0.0  # when something was written last, in seconds since 1970


@dataclass(frozen=True)
class _Facts:
    """Of a run, from its config."""

    label: str
    data: str
    seed: int | None
    version: str
    planned: int
    remote: bool = False  # its sites are on other machines


def standing_of(folder: Path) -> Standing:
    """Opens two files of a finished run, and its lock if it is not finished."""
    changed = max(_changed(folder / name) for name in ("config.yaml", "metrics.jsonl", STATUS))
    status = _newest_status(folder)
    try:
        facts = _facts(folder, status)
    except UserError as wrong:
        return Standing("unreadable", printable(str(wrong)), changed=changed)
    lines = list(islice(last_lines(folder / "metrics.jsonl"), LOOKED_BACK))
    done = next((line["round"] for line in lines if not line.get("undone")), 0)
    stands, detail = _in_words(folder, status, lines, done, facts.planned)
    return Standing(
        stands,
        detail,
        _commands(folder, stands, status, facts),
        facts.label,
        facts.data,
        facts.seed,
        facts.version,
        done,
        facts.planned,
        next((found for line in lines if (found := _number(line, "accuracy")) is not None), None),
        _number(lines[0], "epsilon") if lines else None,
        int(_number(lines[0], "failed") or 0) if lines else 0,
        changed,
    )


def _newest_status(folder: Path) -> Status | None:
    """Not one from before the config was written last: an older version of understudy has continued the run."""
    return read_status(folder) if _changed(folder / STATUS) >= _changed(folder / "config.yaml") else None


def _facts(folder: Path, status: Status | None) -> _Facts:
    """The status has them as JSON, which is read much faster than the config."""
    if status is not None and status.label:
        name, data = printable(status.label, LONGEST_NAME), printable(status.data, LONGEST_NAME)
        return _Facts(name, data, status.seed, printable(status.version, 40), status.rounds)
    if _size(folder / "config.yaml") > LARGEST_CONFIG:
        raise UserError(f"{folder / 'config.yaml'} is too large to be the config of a run.")
    try:
        words = read_config(folder)
        name, data = printable(label_of(words), LONGEST_NAME), printable(data_of(words), LONGEST_NAME)
        seed, rounds, version = words.get("seed"), words["method"]["rounds"], printable(str(words.get("version")), 40)
        return _Facts(name, data, seed if type(seed) is int else None, version, int(rounds), _remote(words))
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        raise UserError(
            f"{folder / 'config.yaml'} is not the config of a run, or is one of another version of understudy."
        ) from None


def _remote(words: Mapping[str, Any]) -> bool:
    sites = words["data"].get("sites")
    return isinstance(sites, dict) and bool(sites) and not any(sites.values())


def _in_words(folder: Path, status: Status | None, lines: list[Line], done: int, planned: int) -> tuple[Stands, str]:
    whole = bool(lines) and lines[0]["round"] >= planned and not lines[0].get("undone")
    if whole and (status is None or status.how == "finished"):
        return "finished", f"after {_rounds(planned)}"
    if RunFolder(folder).in_use:
        return _alive(status, done, planned)
    so_far = f"after round {done} of {planned}" if lines else "in its opening"
    why = "" if status is None else printable(status.why, 2000)
    if status is None or status.how == "going on":
        return "stopped", f"{so_far}: its process was killed or the machine went down"
    if status.how == "stopped":
        return "stopped", f"by hand {so_far}"
    if status.how == "waiting":
        return "waiting for approval", f"{so_far}: {why}"
    if status.how == "failed":
        return "failed", f"{so_far}: {why}"
    if status.how == "ended early":
        return "ended early", f"{so_far}{f': {why}' if why else ''}"
    return "stopped", f"{so_far}: it was to go on after its end"


def _alive(status: Status | None, done: int, planned: int) -> tuple[Stands, str]:
    if status is None or status.how != "going on":
        return "going on", f"after round {done} of {planned}" if done else "in its opening"
    if status.phase == WAITING_FOR_SITES:
        away = [client for client in status.clients if client not in (status.there or ())]
        return "waiting for sites", f"to come online: {some(away)}" if away else "to come online"
    if status.round < done:  # rounds so quick that not every one is noted
        return "going on", f"in round {min(done + 1, planned)} of {planned}"
    # A last ask, for scores only, belongs to a round that never comes.
    at = f"in round {min(status.round, planned)} of {planned}" if status.round > 0 else "in its opening"
    return "going on", f"{at}{f': {printable(status.phase)}' if status.phase else ''}{_awaited(status)}"


def _awaited(status: Status) -> str:
    if status.there is None or not status.awaited:
        return ""
    return f", waiting for {some(status.awaited)}"


def some(names: list[str]) -> str:
    """`ash, beech and 14 more`"""
    named = [printable(name, LONGEST_NAME) for name in names[:NAMED]]
    more = len(names) - len(named)
    if more:
        return f"{', '.join(named)} and {more} more"
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def _commands(folder: Path, stands: Stands, status: Status | None, facts: _Facts) -> tuple[str, ...]:
    if stands in (*ALIVE, "finished", "ended early"):
        return ()
    where = shlex.quote(str(folder))
    elsewhere = facts.remote or (status is not None and status.command is not None)
    look = [] if stands != "waiting for approval" else [f"understudy review {'FOLDER' if elsewhere else where}"]
    if status is not None and status.command is not None:
        return (*look, printable(status.command, 2000))
    if facts.remote:
        return (*look, f"understudy server CONFIG --resume --out {where}")
    return (*look, f"understudy run --resume --out {where}")


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"


def _number(line: Line, key: str) -> float | None:
    found = line.get(key)
    return found if isinstance(found, int | float) and -LARGEST < found < LARGEST else None


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
