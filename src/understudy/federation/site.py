"""A site: its name, its records, and the files that outlive a task."""

import functools
import os.path
import re
from dataclasses import dataclass
from pathlib import Path

from understudy.data.examples import Examples
from understudy.data.federation import Holding
from understudy.errors import UserError
from understudy.federation.exchange import Request
from understudy.federation.memories import Memories
from understudy.federation.tensor_store import TensorStore
from understudy.federation.transcript import Transcript
from understudy.privacy.charges import ChargeLog
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings

VERSION = re.compile(r"(r[0-9]{1,10}s[0-9]{1,10})?")  # of memory, as sites name them
ANSWERED, REPLIES = "answered.json", "reply-*.safetensors"  # in a run's folder
SCORE = "understudy.score"  # the part that the site itself adds when asked to score


@dataclass(frozen=True)
class Site:
    name: str
    holding: Holding
    folder: Path  # memory, and each run's replies of its newest round: all that outlives a task
    seed: int
    config: str  # digest, see Request
    common: Examples | None = None  # a test set that every party has
    privacy: PrivacySettings | None = None  # what the run promises
    policy: Policy | None = None  # what this site allows, whatever the server asks for
    logs_replies: bool = False  # a real site does; in a simulation the run's ledger has it
    keeps_transcript: bool = False  # of its own exchanges; in a simulation the run has it
    # Of all clients of a simulation, where work costs neither privacy nor a person's time: nothing that can be made
    # again needs a file. None: whatever it must not lose is in its folder.
    memories: Memories | None = None

    @functools.cached_property
    def charge_log(self) -> ChargeLog:
        """What it has spent in all its runs."""
        return ChargeLog(self.folder / "charges.jsonl")

    def memory(self, run: str) -> TensorStore:
        return TensorStore(self.folder / run / "memory")

    def transcript(self, run: str) -> Transcript:
        return Transcript(self.folder / run / "transcript")

    def answered(self, run: str) -> Path:
        """Lists the answered steps of the run's newest round."""
        return self.folder / run / ANSWERED

    def has_answered(self, run: str) -> bool:
        """Whether that list is there. For every client in every round, making a path would take longer than looking."""
        return os.path.exists(f"{self.folder}/{run}/{ANSWERED}")

    def reply(self, request: Request) -> Path:
        return self.folder / request.run / f"reply-{request.step}.safetensors"

    def settle(self) -> None:
        """The round counts: its replies will not be asked for again. A client of a simulation then goes on in memory,
        whatever it kept because it had worked long."""
        if self.memories is None:
            self.forget_replies()
        elif os.path.isdir(self.folder):
            for kept in (path for path in self.folder.iterdir() if path.is_dir()):
                forget_answers(kept)

    def forget_replies(self, run: str = "*") -> None:
        for path in self.folder.glob(f"{run}/{REPLIES}"):
            path.unlink(missing_ok=True)


def forget_answers(kept: Path) -> None:
    """Deletes what a site kept for a run, except its memory."""
    for path in (kept / ANSWERED, *kept.glob(REPLIES)):
        path.unlink(missing_ok=True)


def check_version(version: str) -> None:
    """On the server, which only keeps it for the next request."""
    if not VERSION.fullmatch(version):
        raise UserError("its answer names an impossible version of its memory")
