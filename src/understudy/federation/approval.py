"""A person's approval before a reply leaves a site.

If the site's policy asks for it, a reply waits in the site's approval queue (``waiting/`` in its folder), from which
nothing is ever sent, until a person has decided (``understudy approve``). A decision is bound to the bytes that the
person could review: other bytes need another decision. It never touches the site's charge log: the work was done, so
its charge stands, even after a no (yes or no may itself reveal something about the records).
"""

import contextlib
import getpass
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.exchange import Request
from understudy.federation.failures import SENTENCES
from understudy.federation.message import Kind, Message
from understudy.federation.release import Forbidden, described, labelled, rows_of
from understudy.files import add_line, write_whole
from understudy.privacy.charges import Charge, epsilon_of
from understudy.privacy.policy import Policy

Decision = Literal["yes", "no"]
REPLY, ABOUT = "reply.safetensors", "about.json"
FEW = 8  # at most this many numbers are shown as they are
PLACE = ("run", "round", "step", "sha256")  # what a decision is about


class Waits(UserError):
    """A person at the site has not decided yet."""

    code = "waits"


class Declined(Forbidden):
    """A person at the site said no."""

    code = "declined"


@dataclass(frozen=True)
class Leaving:
    """A reply that a site is about to send: for which request, from which file, and its contents."""

    request: Request
    file: Path
    kinds: Mapping[str, Kind]
    problem: Problem
    charges: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Held:
    """A reply in the queue."""

    folder: Path
    about: dict[str, Any]  # client, run, round, step, task, parts, epsilon, problem
    reply: Message
    sha256: str  # of the reply's bytes
    decision: Decision | None  # None: not decided yet

    @property
    def id(self) -> str:
        """It also identifies the bytes, so that nobody approves other bytes than those they reviewed."""
        return f"{self.folder.name}-{self.sha256[:8]}"

    @property
    def problem(self) -> Problem:
        said = self.about["problem"]
        return Problem(
            tuple(said["shape"]), said["classes"], said["multilabel"], tuple(said["mean"]), tuple(said["std"])
        )

    def examples(self) -> Examples | None:
        """The labelled records in it, if it holds any."""
        return labelled(self.reply, self._kinds, self.problem)

    def not_shown(self) -> int:
        """How many examples ``examples`` leaves out."""
        return rows_of("examples", self.reply, self._kinds, self.problem) if self.examples() is None else 0

    @property
    def _kinds(self) -> dict[str, Kind]:
        return {part["part"]: part["kind"] for part in self.about["parts"]}

    def a_class(self) -> dict[int, int]:
        """How many records each class has, where it has any."""
        found = self.examples()
        counts = [] if found is None else found.label_counts(self.problem.classes).tolist()
        return {label: count for label, count in enumerate(counts) if count}


@dataclass(frozen=True)
class ApprovalQueue:
    """Where replies of one site wait for a person."""

    home: Path  # the site's folder

    def holds(self, request: Request) -> bool:
        return (self._place(request) / REPLY).exists()

    def data(self, request: Request, file: Path) -> bytes:
        """The bytes of the reply, wherever it is."""
        return (file if file.exists() else self._place(request) / REPLY).read_bytes()

    def check(self, policy: Policy | None, leaving: Leaving) -> None:
        """Before every send: a reply that may not leave goes to the queue, one that may goes back to its file."""
        place, file = self._place(leaving.request), leaving.file
        wanted = () if policy is None else policy.approval
        if not wanted and not place.exists():
            return
        data = self.data(leaving.request, file)
        digest = hashlib.sha256(data).hexdigest()
        said = self._said((leaving.request.run, leaving.request.round, leaving.request.step, digest))
        reply = Message.from_bytes(data)
        if said == "no" or (said is None and any(leaving.kinds[part] in wanted for part in reply)):
            self._hold(place, leaving, reply)
            if said == "no":
                raise Declined(SENTENCES["declined"])
            raise Waits(SENTENCES["waits"])
        if not file.exists():
            os.replace(place / REPLY, file)
        shutil.rmtree(place, ignore_errors=True)

    def held(self) -> list[Held]:
        """Replies that wait, and those decided but not asked for since."""
        found = []
        for file in sorted(self.home.glob(f"waiting/*/{REPLY}")):
            with contextlib.suppress(FileNotFoundError):  # a running run may fetch it meanwhile
                about, data = json.loads((file.parent / ABOUT).read_text()), file.read_bytes()
                digest = hashlib.sha256(data).hexdigest()
                said = self._said((about["run"], about["round"], about["step"], digest))
                found.append(Held(file.parent, about, Message.from_bytes(data), digest, said))
        return found

    def decide(self, one: Held, decision: Decision) -> None:
        """On disk before it returns; of several decisions on the same bytes, the last counts."""
        kept = {key: one.about[key] for key in ("client", "run", "round", "step", "task", "parts")}
        when = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"decision": decision, "when": when, "by": _who(), "sha256": one.sha256, **kept}
        add_line(self._decisions, line)

    def forget(self, run: str) -> None:
        """The run is past this round: these replies will not be asked for again."""
        for place in self.home.glob(f"waiting/{run}-r*s*"):
            shutil.rmtree(place, ignore_errors=True)

    @property
    def _decisions(self) -> Path:
        return self.home / "approvals.jsonl"

    def _place(self, request: Request) -> Path:
        return self.home / "waiting" / f"{request.run}-r{request.round}s{request.step}"

    def _said(self, place: tuple[str, int, int, str]) -> Decision | None:
        said: list[Decision] = [
            line["decision"] for line in self._lines() if tuple(line[key] for key in PLACE) == place
        ]
        return said[-1] if said else None

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self._decisions.exists():
            return
        for number, line in enumerate(self._decisions.read_text().splitlines(), start=1):
            try:
                yield json.loads(line)
            except ValueError:
                raise UserError(
                    f"The site's {self._decisions.name}, line {number}, cannot be read, so nothing leaves: "
                    "restore the file from a copy, or delete that line and decide again."
                ) from None

    def _hold(self, place: Path, leaving: Leaving, reply: Message) -> None:
        """Moves it out of the file that engines send from; its description is on disk before it."""
        if not leaving.file.exists():
            return
        place.mkdir(parents=True, exist_ok=True)
        write_whole(place / ABOUT, (json.dumps(_about(leaving, reply), indent=1) + "\n").encode())
        os.replace(leaving.file, place / REPLY)


def _about(leaving: Leaving, reply: Message) -> dict[str, Any]:
    request, charges = leaving.request, [Charge.of(charge) for charge in leaving.charges]
    parts = described(reply, leaving.kinds, charges)
    for about in parts:
        tensor = reply[about["part"]]
        if _telling(about["kind"], tensor):
            about["values"] = tensor.flatten().tolist()
    named = {key: getattr(request, key) for key in ("client", "run", "round", "step", "task")}
    return {**named, "parts": parts, "epsilon": _epsilon(charges), "problem": asdict(leaving.problem)}


def _telling(kind: str, tensor: Tensor) -> bool:
    """A few numbers, such as a count of near-copies, tell more than their shape."""
    return kind == "statistics" and 0 < tensor.numel() <= FEW


def _epsilon(charges: Sequence[Charge]) -> float | None:
    """Of this reply alone; None if there is no guarantee: no charge, or repeatable noise."""
    if not charges or any(charge.test_noise for charge in charges):
        return None
    return epsilon_of(charges, charges[0].delta, charges[0].accountant)


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"user {os.getuid()}"
