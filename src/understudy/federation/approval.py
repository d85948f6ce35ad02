"""A person's approval before a reply leaves a site.

If the site's policy asks for it, a reply waits in the site's approval queue (``waiting/`` in its folder), from which
nothing is ever sent, until a person has decided (``understudy review`` or ``understudy approve``). A decision is bound
to the bytes that the person could review: other bytes need another decision. A yes may leave single rows out; the
method makes the rest of the reply follow. A decision can be undone until the reply has left. It never touches the
site's charge log: the work was done, so its charge stands, even after a no (yes or no may itself reveal something about
the records).
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from understudy.errors import UserError
from understudy.federation.decisions import Decision, DecisionLog, YesOrNo
from understudy.federation.exchange import Request
from understudy.federation.failures import SENTENCES
from understudy.federation.held import Held, Leaving, is_about
from understudy.federation.message import Message
from understudy.federation.release import Forbidden
from understudy.files import write_whole
from understudy.printable import printable
from understudy.privacy.policy import Policy
from understudy.reading import json_of, text_of

REPLY, ABOUT = "reply.safetensors", "about.json"


class Waits(UserError):
    """A person at the site has not decided yet."""

    code = "waits"


class Declined(Forbidden):
    """A person at the site said no."""

    code = "declined"


class DecidedMeanwhile(UserError):
    """Somebody else was quicker."""


@dataclass(frozen=True)
class ApprovalQueue:
    """Where replies of one site wait for a person."""

    home: Path  # the site's folder

    # ---- what the site does

    def holds(self, request: Request) -> bool:
        return (self._place(request) / REPLY).exists()

    def data(self, request: Request, file: Path) -> bytes:
        """The bytes of the reply, wherever it is."""
        return (file if file.exists() else self._place(request) / REPLY).read_bytes()

    def check(self, policy: Policy | None, leaving: Leaving) -> None:
        """Before every send: a reply that may not leave goes to the queue, one that may goes back to its file, without
        the rows that were dropped."""
        place = self._place(leaving.request)
        if (policy is None or not policy.approval) and not place.exists():
            return
        with self._alone():
            self._check(policy or Policy(), leaving, place)

    def _check(self, policy: Policy, leaving: Leaving, place: Path) -> None:
        file, about = leaving.file, vars(leaving.request)
        data = self.data(leaving.request, file)
        reply, decision = Message.from_bytes(data), self._log.last(about, _digest(data))
        wanted = any(leaving.kinds[part] in policy.approval for part in reply)
        if (decision is None and wanted) or (decision is not None and decision.said == "no"):
            self._hold(place, leaving, reply, limited=policy.epsilon is not None)
            if decision is None:
                raise Waits(f"its reply waits for a person's approval here: understudy review {self.home}")
            raise Declined(SENTENCES["declined"])
        if policy.epsilon is not None and self._log.records_seen(about):
            raise Forbidden(
                f"its policy allows ε up to {policy.epsilon:g}, and no mechanism covers a decision that a person made "
                "with records in view"
            )
        if decision is not None and decision.dropped:
            self._cut(leaving, reply, decision)
        elif not file.exists():
            os.replace(place / REPLY, file)
        shutil.rmtree(place, ignore_errors=True)

    def _cut(self, leaving: Leaving, reply: Message, decision: Decision) -> None:
        """Write-ahead: what is left is approved before it is where an engine sends from. After a kill in between, the
        whole reply is still here, and what is left of it has the same bytes."""
        left = leaving.without(reply, decision.dropped).to_bytes()
        rows = {"dropped": list(decision.dropped), "reason": decision.reason}
        self._log.add("cut", vars(leaving.request), _digest(left), decision.by, **rows)
        write_whole(leaving.file, left)

    def _hold(self, place: Path, leaving: Leaving, reply: Message, *, limited: bool) -> None:
        """Moves it out of the file that engines send from; its description is on disk before it."""
        if not leaving.file.exists():
            return
        place.mkdir(parents=True, exist_ok=True)
        write_whole(place / ABOUT, (json.dumps(leaving.about(reply, limited=limited), indent=1) + "\n").encode())
        os.replace(leaving.file, place / REPLY)

    def forget(self, run: str) -> None:
        """The run is past this round: these replies will not be asked for again."""
        for place in self.home.glob(f"waiting/{run}-r*s*"):
            shutil.rmtree(place, ignore_errors=True)

    def records_seen(self, request: Request) -> bool:
        """Whether a person had records in view when deciding on the reply."""
        return self._log.records_seen(vars(request))

    # ---- what people do

    def held(self, id: str = "") -> list[Held]:
        """Replies that wait, and those decided but not asked for since; all of them, or only that of this ``id``."""
        found = []
        for file in sorted(self.home.glob(f"waiting/*/{REPLY}")):
            try:
                if not id or file.parent.name in id:  # the others need not be read
                    found.append(self._held(file))
            except (FileNotFoundError, UserError):
                if file.exists():  # otherwise a running run fetched it meanwhile
                    raise
        return [one for one in found if id in ("", one.id)]

    def decide(self, one: Held, word: YesOrNo, dropped: Sequence[int] = (), *, reason: str = "", by: str = "") -> Held:
        """On disk before it returns; of several decisions on the same bytes, the last counts. Refused if what ``one``
        shows is not how it stands, because somebody decided or the reply left."""
        rows = sorted(set(dropped)) if word == "yes" else []
        one.check_droppable(rows)
        with self._as_it_was(one):
            told: dict[str, Any] = {"dropped": rows} if rows else {}
            told |= {"reason": printable(reason.strip())} if reason.strip() else {}
            self._log.add(word, one.about, one.sha256, by, **told)
            return self._again(one)

    def undo(self, one: Held, *, by: str = "") -> Held:
        """Until it has left: it waits again."""
        if one.decision is None:
            raise UserError(f"Nobody has decided on {one.id} yet, so there is nothing to undo.")
        with self._as_it_was(one):
            self._log.add("undo", one.about, one.sha256, by)
            return self._again(one)

    def note_records_seen(self, one: Held, *, by: str = "") -> None:
        """Before records are shown beside it. A policy that limits ε forbids it: the decision would have no ε."""
        if one.about.get("limited"):
            raise UserError(
                "The site's policy limits ε, and no mechanism covers a decision made with records in view; "
                "review it without them."
            )
        with self._alone():
            if not self._log.records_seen(one.about):
                self._log.add("saw-records", one.about, one.sha256, by)

    # ---- inside

    @property
    def _log(self) -> DecisionLog:
        return DecisionLog(self.home)

    def _place(self, request: Request) -> Path:
        return self.home / "waiting" / f"{request.run}-r{request.round}s{request.step}"

    def _held(self, file: Path) -> Held:
        data, about = file.read_bytes(), _about(file.parent / ABOUT)
        try:
            reply = Message.from_bytes(data)
        except UserError:
            raise UserError(
                f"{file} is damaged; restore it from a copy, or delete {file.parent}: its site then works again."
            ) from None
        digest = _digest(data)
        decision, seen = self._log.last(about, digest), self._log.records_seen(about)
        return Held(file.parent, about, reply, digest, decision, seen)

    def _again(self, one: Held) -> Held:
        return replace(one, decision=self._log.last(one.about, one.sha256))

    @contextlib.contextmanager
    def _as_it_was(self, one: Held) -> Iterator[None]:
        """Alone, and only if nothing has changed since ``one`` was read."""
        with self._alone():
            file = one.folder / REPLY
            if not file.exists() or _digest(file.read_bytes()) != one.sha256:
                raise DecidedMeanwhile(f"{one.id} does not wait any more: it has left, or its round is over.")
            now = self._log.last(one.about, one.sha256)
            if now != one.decision:
                what = "undid it" if now is None else f"said {now.said}"
                raise DecidedMeanwhile(f"Somebody decided on {one.id} meanwhile ({_who(now)}{what}); look again.")
            yield

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process or thread at a time decides, or lets a reply leave."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / ".approvals.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def queues_in(folder: Path) -> list[ApprovalQueue]:
    """Of a site's folder, or of all clients of a run's."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; name a site's or a run's folder.")
    clients = folder / "clients"
    homes = sorted(home for home in clients.iterdir() if home.is_dir()) if clients.is_dir() else [folder]
    return [ApprovalQueue(home) for home in homes]


def _who(decision: Decision | None) -> str:
    return "" if decision is None else f"{decision.by} "


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _about(file: Path) -> dict[str, Any]:
    told = json_of(text_of(file), str(file))
    if not is_about(told):
        raise UserError(f"{file} is damaged; restore it from a copy, or delete {file.parent}.")
    return dict(told)
