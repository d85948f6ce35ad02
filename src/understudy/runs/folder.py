"""A run folder: its contents, and how they are read and written."""

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file

from understudy.data.examples import Examples
from understudy.errors import UserError, option, resuming
from understudy.federation.message import Message
from understudy.federation.tensor_store import TensorStore
from understudy.federation.transcript import Transcript
from understudy.files import add_line, sync, write_whole
from understudy.privacy.ledger import Ledger
from understudy.reading import json_of, text_of, yaml_of
from understudy.runs.checkpoint import Checkpoint
from understudy.runs.releases import Releases
from understudy.runs.synthetic_sets import SyntheticSets

Line = dict[str, Any]  # one round in metrics.jsonl
GLANCE = 0.5  # seconds for which a lock may be held by someone who only looks whether it is held


class RunFolder:
    def __init__(self, path: Path):
        self.path = path
        self.checkpoints = TensorStore(path / "checkpoint")
        self._durable: str | None = None  # the newest checkpoint that a power cut cannot take
        self.releases = Releases(path, self.checkpoints)
        self.transcript = Transcript(path / "transcript")

    @property
    def holds_a_run(self) -> bool:
        return (self.path / "config.yaml").exists()

    @property
    def stopped_half_way(self) -> bool:
        """It never came to an end, but rounds of it count: it was killed, or goes on now."""
        return self.holds_a_run and not (self.path / "summary.json").exists() and bool(self.metrics())

    @property
    def id(self) -> str:
        """The id of a run that has begun."""
        file = self.path / "run-id"
        found = text_of(file)
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", found):  # clients' folders are named after it
            raise UserError(f"{file} is damaged; restore it from a copy.")
        return found

    def create(self, *, private: bool = False) -> None:
        """Makes an empty folder, ``private`` to its owner; one that holds anything else is left alone."""
        if self.holds_a_run:
            raise UserError(
                f"{self.path} already holds a run; add {resuming()} to continue it, or choose another {option('out')}."
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            others = [p.name for p in self.path.iterdir() if p.name != ".lock" and p.suffix != ".part"]
            if others:
                raise UserError(f"{self.path} is not empty (it has {others[0]}); choose another {option('out')}.")
            if private:
                self.path.chmod(0o700)
            (self.path / ".lock").touch()
        except (NotADirectoryError, FileExistsError):
            raise UserError(f"{self.path} is a file; choose another {option('out')}.") from None
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be written to ({error.strerror}); choose another {option('out')}."
            ) from None

    @contextmanager
    def locked(self, *, wait: float, waiting: Callable[[str], None]) -> Iterator[None]:
        """Only one run writes here. Forked workers hold the lock too, so that nobody resumes while they write."""
        with (self.path / ".lock").open("a") as lock:
            until, said, first = time.monotonic() + max(wait, GLANCE), False, True
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise UserError(f"Another process is working in {self.path}; wait for it or stop it.") from None
                    if not said and not first and wait:
                        waiting(f"Another process is working in {self.path}; waiting for it to end.")
                        said = True
                    first = False
                    time.sleep(0.2)
            yield

    @property
    def in_use(self) -> bool:
        """Whether a process works here now. It takes a glance: a run that begins at that moment tries again."""
        try:
            with (self.path / ".lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    # ---- writing

    def run_id(self, fresh: str) -> str:
        """The run's unique name, drawn once: clients find what they kept for this run by it."""
        if not (self.path / "run-id").exists():
            self.write_id(fresh)
        return self.id

    def write_id(self, id: str) -> None:
        write_whole(self.path / "run-id", id.encode())

    def write_config(self, words: dict[str, Any]) -> None:
        text = "# Every value of this run, defaults included.\n" + yaml.safe_dump(words, sort_keys=False)
        write_whole(self.path / "config.yaml", text.encode())

    def write_json(self, name: str, content: object) -> None:
        write_whole(self.path / name, (json.dumps(content, indent=1) + "\n").encode())

    def save_checkpoint(self, checkpoint: Checkpoint, *, durable: bool = True) -> None:
        """It takes the place of the one before; one that a power cut could take, only of such ones."""
        self.checkpoints.put(checkpoint.entry, checkpoint.state, durable=durable, **checkpoint.notes())
        if durable:
            self._durable = checkpoint.entry
        self.checkpoints.keep_only([one for one in (self._durable, checkpoint.entry) if one is not None])

    def add_line(self, line: Line, *, durable: bool = True) -> None:
        add_line(self.path / "metrics.jsonl", line, durable=durable)

    def sync_metrics(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            sync(self.path / "metrics.jsonl")

    def cut_metrics(self, last_round: int) -> list[Line]:
        """Removes lines after ``last_round``, and one that was cut off by a kill."""
        kept = [line for line in self.metrics() if line["round"] <= last_round]
        write_whole(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept).encode())
        return kept

    def keep_examples(self, client: str, examples: Examples) -> None:
        (self.path / "synthetic").mkdir(exist_ok=True)
        draft = self.path / "synthetic" / f".{client}.npz"
        examples.save(draft)
        os.replace(draft, self.path / "synthetic" / f"{client}.npz")

    # ---- reading

    def config(self) -> dict[str, Any]:
        return self._read("config.yaml", yaml_of)

    def summary(self) -> dict[str, Any]:
        return self._read("summary.json", json_of)

    def ledger(self) -> dict[str, Any]:
        """Everything that has left and was spent so far, including in rounds that did not count."""
        if self.releases.there:
            return self.releases.with_charge_logs(self.releases.ledger()).to_json()
        saved = self._read("ledger.json", json_of)
        try:
            return Ledger.from_json(saved).to_json()
        except UserError as wrong:
            raise UserError(f"{self.path / 'ledger.json'}: {wrong}") from None

    @property
    def keeps_a_ledger(self) -> bool:
        return self.releases.there or (self.path / "ledger.json").exists()

    def epsilon(self) -> float | None:
        """According to the ledger; None if something is not covered, or if a client's charge log cannot be read."""
        try:
            found: float | None = self.ledger().get("epsilon")
            return found
        except UserError:
            return None

    def _read(self, name: str, parse: Callable[[str, str], Any]) -> dict[str, Any]:
        file = self.path / name
        if not file.exists():
            raise UserError(f"{self.path} has no {name}; is it a run folder, and has the run finished?")
        found = parse(text_of(file), str(file))
        if not isinstance(found, dict):
            raise UserError(f"{self.path / name} is damaged; restore it from a copy.")
        return found

    def metrics(self) -> list[Line]:
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines: list[Line] = []
        for number, text in enumerate(text_of(path).splitlines(), start=1):
            try:
                line = json_of(text, str(path))
            except UserError:
                break
            if not isinstance(line, dict) or not isinstance(line.get("round"), int):
                raise UserError(f"{path}, line {number}, has no 'round'; restore the file from a copy.")
            lines.append(line)
        return lines

    def newest_checkpoint(self) -> Checkpoint | None:
        """One that a power cut damaged is passed over if there is an older one to go on from."""
        damage: UserError | None = None
        for entry in reversed(self.checkpoints.entries()):
            try:
                state, notes = self.checkpoints.get(entry)
                return Checkpoint(state, **notes)
            except UserError as broken:
                damage = damage or broken
        if damage is not None:
            raise damage
        return None

    def newest_state(self) -> Message:
        """The server's State in the last checkpoint; empty if there is none yet."""
        checkpoint = self.newest_checkpoint()
        return Message() if checkpoint is None else checkpoint.state

    def weights(self) -> dict[str, torch.Tensor]:
        """The model of a finished run, as a state dict."""
        file = self.path / "model.safetensors"
        if not file.exists():
            raise UserError(f"{self.path} has no model.safetensors yet; let the run finish.")
        try:
            return load_file(file)
        except (SafetensorError, OSError):
            raise UserError(f"{file} is damaged; restore it from a copy.") from None

    def waiting(self) -> list[Line]:
        """Lines without scores, for rounds that count but are not scored yet, as clients do that in the next round."""
        scored = {line["round"] for line in self.metrics()}
        return [line for line in self.checkpoints.newest_notes().get("lines", []) if line["round"] not in scored]

    def synthetic(self, most: int | None = None) -> dict[str, Examples]:
        """The newest synthetic set that left each client, by client; of the first ``most`` clients, if given."""
        sets = SyntheticSets(self.path)
        return {client: sets[client] for client in list(sets)[:most]}
