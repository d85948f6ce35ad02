"""Runs kept by the digest of their config: whatever study asks for a run again finds it.

A finished run carries a mark with the digests of its results; what does not match its mark is not trusted, and run
again. Several processes may work in one store: a run is played under a lock of its own, by whoever comes first, and the
others find it finished.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from understudy.config.schema import Config
from understudy.engines.spread import spread_apart
from understudy.errors import UserError
from understudy.files import write_whole
from understudy.own_code import is_own
from understudy.reading import json_of, text_of
from understudy.runs.branching import branch
from understudy.runs.digests import digest_of_file, digest_of_live
from understudy.runs.folder import Line, RunFolder
from understudy.runs.made_by import made_by
from understudy.runs.play import play
from understudy.runs.watching import Observer, RunDiverged

MARK = "finished.json"
MARKED = ("config.yaml", "metrics.jsonl", "summary.json")
MEMORIES = ("clients", "memories*")  # not needed once a run has ended, unless another one goes on from it
LONGEST_WAIT = 7 * 24 * 3600.0  # for another process that plays the same run
DIED_TWICE = "its process died, twice; is there enough memory?"


@dataclass(frozen=True)
class FinishedRun:
    folder: Path
    metrics: list[Line]
    summary: dict[str, Any]
    made_by: str = ""  # version and commit of the code that ran


@dataclass(frozen=True)
class Diverged:
    why: str


@dataclass(frozen=True)
class StoredConfig:
    """A run as the store knows it. A branch continues from the first rounds of another run."""

    config: Config
    first: "StoredConfig | None" = None
    changes: tuple[tuple[str, Any], ...] = ()  # what the branch changes in the run it continues from
    keep_all: bool = False  # other runs go on from it, or find generators with its clients

    @cached_property
    def digest(self) -> str:
        words = json.dumps(self._words(), sort_keys=True, default=str)
        return hashlib.sha256(words.encode()).hexdigest()[:20]

    def _words(self) -> dict[str, Any]:
        config = self.config
        words = {
            "seed": config.top.seed,
            "data": None if config.data is None else config.data.words(),
            "model": {**config.model.words(), **config.model_settings},
            "method": {**config.plan.model_dump(mode="json"), **config.method.settings.model_dump(mode="json")},
            "with": [_wherever_the_store_is(chosen.words()) for chosen in config.add_ons],
            "privacy": None if config.top.privacy is None else config.top.privacy.model_dump(mode="json"),
            "measure": config.top.measure,
            "transcript": config.top.transcript,
            **({} if config.engine.together == 1 else {"together": config.engine.together}),  # other last bits
        }
        words |= _brought(config)
        return words if self.first is None else {**words, "after": self.first._words(), "by": list(self.changes)}

    def inline(self) -> "StoredConfig":
        """With its clients in one process, where many runs share a machine. The bits are the same."""
        engine = self.config.engine.model_copy(update={"name": "inline"})
        return replace(self, config=replace(self.config, engine=engine))


def _brought(config: Config) -> dict[str, Any]:
    """Objects passed in Python and the user's own files: what they hold, since their names do not tell."""
    names = [config.model.name, config.plan.name, *(chosen.name for chosen in config.add_ons)]
    files = {name: digest_of_file(Path(name.rpartition(":")[0])) for name in names if is_own(name)}
    found = digest_of_live(config.live)
    return {**({"code": files} if files else {}), **({"live": found} if found else {})}


def _wherever_the_store_is(add_on: Mapping[str, Any]) -> dict[str, Any]:
    """Generators are found in a run of the same store, which is named by its own digest."""
    found = dict(add_on)
    if found.get("from_run"):
        found["from_run"] = Path(str(found["from_run"])).name
    return found


class RunStore:
    def __init__(self, root: Path):
        self.root = root

    def folder(self, run: StoredConfig) -> Path:
        return (self.root / "runs" / f"{run.config.plan.name.replace('/', '-')}-{run.digest}").absolute()

    def find(self, run: StoredConfig) -> FinishedRun | Diverged | None:
        """None: it is not there, not finished, or damaged."""
        folder = self.folder(run)
        try:
            mark = json_of(text_of(folder / MARK), str(folder / MARK)) if (folder / MARK).exists() else None
            if not isinstance(mark, dict):
                return None
            if "diverged" in mark:
                return Diverged(str(mark["diverged"]))
            if mark.get("sha256") != _digests(folder) or (run.keep_all and not mark.get("memories")):
                return None
            return _finished(folder, str(mark.get("made_by", "")))
        except (UserError, OSError):
            return None

    def play(self, run: StoredConfig, observer: Observer) -> FinishedRun | Diverged:
        """Finds it, continues it, or runs it; one that is damaged is run again."""
        if (found := self.find(run)) is not None:
            return found
        with self._alone_with(self.folder(run), observer):
            return self._played(run, observer)

    @contextmanager
    def _alone_with(self, folder: Path, observer: Observer) -> Iterator[None]:
        """From the look at what is there to the mark: a run that another process is just finishing, or copying from
        the one it goes on from, looks damaged."""
        place = self.root / "locks" / folder.name
        place.mkdir(parents=True, exist_ok=True)

        def waiting(_: str) -> None:
            observer.says(f"Another process is working in {folder}; waiting for it to end.")

        with RunFolder(place).locked(wait=LONGEST_WAIT, waiting=waiting):
            yield

    def _played(self, run: StoredConfig, observer: Observer) -> FinishedRun | Diverged:
        folder = self.folder(run)
        if (found := self.find(run)) is not None:  # another process has done it meanwhile
            return found
        if (folder / MARK).exists():
            whole = StoredConfig(run.config, run.first, run.changes)
            why = "is not as it was when it finished" if self.find(whole) is None else "kept no memories of its clients"
            observer.says(f"{folder.name} {why}; it is run again.")
            shutil.rmtree(folder)
        config = run.config
        if run.first is not None:
            first = self.play(run.first, observer)
            if isinstance(first, Diverged):
                return first
            config = branch(first.folder, folder, dict(run.changes))
        try:
            play(config, folder, resume=True, observer=observer, wait=LONGEST_WAIT)
        except RunDiverged as diverged:
            _mark(folder, {"diverged": str(diverged)})
            return Diverged(str(diverged))
        if not run.keep_all:
            _forget_memories(folder)
        _mark(folder, {"sha256": _digests(folder), "made_by": made_by(), "memories": run.keep_all})
        return _finished(folder, made_by())

    def where(self, processes: int) -> str:
        """Where runs are played, as said to people."""
        return f"on {processes} {'process' if processes == 1 else 'processes'}"

    def play_all(self, runs: Sequence[StoredConfig], observer: Observer, processes: int) -> Iterator[tuple[int, str]]:
        """Each one's place as it is done, and why it could not be; empty: it was. Whatever a run does to a network or
        to own code, the others go on."""
        alone = processes <= 1

        def do(at: int) -> str:  # by number: what a config holds need not be sent to a process
            return self.trouble_with(runs[at], observer) if alone else self.trouble_with(runs[at].inline(), Observer())

        for place, trouble in spread_apart(do, range(len(runs)), processes):
            yield place, DIED_TWICE if trouble is None else trouble

    def trouble_with(self, run: StoredConfig, observer: Observer) -> str:
        """Plays it; why it could not be done, or nothing."""
        try:
            self.play(run, observer)
        except UserError as error:
            return str(error)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""


def _finished(folder: Path, by: str) -> FinishedRun:
    there = RunFolder(folder)
    return FinishedRun(folder, there.metrics(), there.summary(), by)


def _forget_memories(folder: Path) -> None:
    for path in (path for pattern in MEMORIES for path in folder.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _mark(folder: Path, words: Mapping[str, Any]) -> None:
    write_whole(folder / MARK, (json.dumps(words, indent=1) + "\n").encode())


def _digests(folder: Path) -> dict[str, str]:
    return {name: digest_of_file(folder / name) for name in MARKED}
