"""How a run stands right now, in a small file in its folder, for whoever looks on (`understudy view`); and its log.

Nothing in a run reads it, so it changes no result. Whether the run's process still lives is told by the folder's lock,
not by this file: a killed run leaves it as it was.
"""

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from understudy.files import write_whole
from understudy.printable import printable
from understudy.runs.compare import data_of, label_of
from understudy.runs.folder import Line
from understudy.runs.log import RunLog, round_told
from understudy.runs.watching import AwaitsApproval, Observer, PassesOn

FILE = "status.json"
REMEMBERED = 8  # sentences
# Time for writing it: rounds of a millisecond are not slowed down, and of slow ones every step is written at once.
SHARE, HEAD_START = 0.005, 0.1  # of the time that passed; seconds

# Phases beside the tasks of a method:
STARTING, WAITING_FOR_SITES, SCORING = "starting", "waiting for sites", "saving and scoring"
How = Literal["going on", "finished", "ended early", "waiting", "stopped", "failed"]


class Status(BaseModel):
    """Times are in seconds since 1970."""

    label: str = ""  # `fedavg + fedssyn`
    data: str = ""
    seed: int | None = None
    version: str = ""
    rounds: int = 0  # planned
    clients: list[str] = []
    command: str | None = None  # that continues it; None: `understudy run --resume --out FOLDER`
    how: How = "going on"
    why: str = ""
    began: float = 0.0
    written: float = 0.0
    round: int = -1
    phase: str = ""
    since: float = 0.0  # of the phase
    asked: list[str] = []  # in this phase
    awaited: list[str] = []  # of those, whose reply has not come
    there: list[str] | None = None  # who is online; None: clients are not on machines of their own
    seconds: dict[str, float] = {}  # by phase, since it began
    last_round: dict[str, float] = {}  # the same of the last whole round
    said: list[str] = []  # the newest last


def read_status(folder: Path) -> Status | None:
    """None if there is none that can be read: runs of older versions have none."""
    try:
        return Status.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None


class StatusKeeper(PassesOn):
    """Passes on to another observer what a run tells, and keeps the status file of its folder."""

    def __init__(self, folder: Path, inner: Observer, command: str | None = None):
        super().__init__(inner)
        self._file, self._log = folder / FILE, RunLog(folder)
        self._status = Status(command=command)
        self._this_round: dict[str, float] = {}
        self._told = -1  # rounds that an earlier process told
        self._kept, self._began, self._writing = False, time.perf_counter(), 0.0

    @contextmanager
    def of_run(self, words: Mapping[str, Any], clients: Sequence[str]) -> Iterator[None]:
        """While the folder is locked; ``words`` are the run's config."""
        now, status = time.time(), self._status
        status.label, status.data, status.clients = label_of(words), data_of(words), list(clients)
        status.seed, status.version, status.rounds = words["seed"], words["version"], words["method"]["rounds"]
        status.began = status.since = now
        status.phase = STARTING
        self._kept = True
        self._write(at_once=True)
        self._log.open()
        self._log.add(f"{status.label} on {status.data}, seed {status.seed}: {status.rounds} rounds")
        try:
            yield
        except AwaitsApproval as waits:
            self._end("waiting", str(waits))
            raise
        except Exception as error:
            self._end("failed", str(error) or type(error).__name__)
            raise
        except BaseException:  # Ctrl-C, SIGTERM
            self._end("stopped", "")
            raise

    def ended(self, finished: bool) -> None:
        """In good order; what the run said last tells why it was early."""
        said = self._status.said
        self._end("finished" if finished else "ended early", "" if finished or not said else said[-1])

    # ---- what a run tells

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None:
        super().begins(rounds, done, clients, folder)
        self._status.round = self._told = done
        self._write()

    def phase(self, round: int, name: str, clients: Sequence[str] = ()) -> None:
        super().phase(round, name, clients)
        self._close_phase()
        status = self._status
        if round != status.round:
            status.round, status.last_round, self._this_round = round, self._this_round, {}
        status.phase, status.asked, status.awaited = name, list(clients), list(clients)
        self._write()

    def heard(self, client: str) -> None:
        super().heard(client)
        with contextlib.suppress(ValueError):
            self._status.awaited.remove(client)
        self._write()

    def attends(self, there: Collection[str], awaited: Collection[str]) -> None:
        super().attends(there, awaited)
        status = self._status
        now = sorted(there), [client for client in status.asked if client in awaited]
        if now != (status.there, status.awaited):
            status.there, status.awaited = now
        self._write()

    def scored(self, line: Line) -> None:
        super().scored(line)
        if line["round"] > self._told:  # a resumed run tells its earlier rounds again
            for told in round_told(line, self._status.rounds):
                self._log.add(told)

    def says(self, sentence: str) -> None:
        super().says(sentence)
        self._log.add(sentence)
        self._status.said = [*self._status.said, printable(sentence)][-REMEMBERED:]
        self._write()

    # ---- inside

    def _close_phase(self) -> None:
        now, status = time.time(), self._status
        if status.phase:
            for seconds in (status.seconds, self._this_round):
                seconds[status.phase] = round(seconds.get(status.phase, 0.0) + now - status.since, 3)
        status.since = now

    def _end(self, how: How, why: str) -> None:
        self._close_phase()
        self._log.add(f"{how}: {why}" if why else how)
        self._status.how, self._status.why = how, printable(why, 2000)
        self._status.phase, self._status.asked, self._status.awaited = "", [], []
        self._write(at_once=True)

    def _write(self, *, at_once: bool = False) -> None:
        begun = time.perf_counter()
        if not self._kept or (not at_once and self._writing > SHARE * (begun - self._began) + HEAD_START):
            return
        self._status.written = time.time()
        with contextlib.suppress(OSError):  # nobody's run ends because nobody can look on
            write_whole(self._file, self._status.model_dump_json().encode() + b"\n", durable=False)
        self._writing += time.perf_counter() - begun
