"""A site: who it is, what it holds, and the files that outlive a task."""

import re
from dataclasses import dataclass
from pathlib import Path

from understudy.data.examples import Examples
from understudy.data.federation import Holding
from understudy.errors import UserError
from understudy.federation.exchange import Request
from understudy.federation.tensor_store import TensorStore
from understudy.privacy.charges import ChargeLog
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings

VERSION = re.compile(r"(r[0-9]{1,10}s[0-9]{1,10})?")  # of memory, as a site names them
ANSWERED, REPLIES = "answered.json", "reply-*.safetensors"  # in the folder of a run
SCORE = "understudy.score"  # the part that the site adds by itself, when asked to score


@dataclass(frozen=True)
class Site:
    name: str
    holding: Holding
    folder: Path  # memory and the replies of the newest round of each run: all that outlives a task
    seed: int
    config: str  # digest, see Request
    common: Examples | None = None  # a test set that every party has
    privacy: PrivacySettings | None = None  # what the run promises
    policy: Policy | None = None  # what this site allows, whatever a server asks
    logs_replies: bool = False  # a real site does; in a simulation the run's ledger has it

    @property
    def charge_log(self) -> ChargeLog:
        """What it has spent in all its runs."""
        return ChargeLog(self.folder / "charges.jsonl")

    def memory(self, run: str) -> TensorStore:
        return TensorStore(self.folder / run / "memory")

    def answered(self, run: str) -> Path:
        """Of the run's newest round, the steps that were answered."""
        return self.folder / run / ANSWERED

    def reply(self, request: Request) -> Path:
        return self.folder / request.run / f"reply-{request.step}.safetensors"

    def forget_replies(self, run: str = "*") -> None:
        """The round counts: nobody will ask for it again."""
        for path in self.folder.glob(f"{run}/{REPLIES}"):
            path.unlink(missing_ok=True)


def forget_answers(kept: Path) -> None:
    """Of what a site kept for a run, all but its memory."""
    for path in (kept / ANSWERED, *kept.glob(REPLIES)):
        path.unlink(missing_ok=True)


def check_version(version: str) -> None:
    """On the server, which only keeps it for the next request."""
    if not VERSION.fullmatch(version):
        raise UserError("its answer names a version of its memory that cannot be")
