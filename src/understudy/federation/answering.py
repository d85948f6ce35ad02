"""The client's side of an exchange: one function, whichever engine brought the request.

A step has one brief. Asked again, a client sends the same bytes; it refuses another brief for that step, and any
unanswered step older than its newest. A task works on a copy of the memory that the request names and produces a new
version. A reply that a person must review first is kept like any other, and waits. In a simulation, quick steps that
cost nothing are not kept but repeated.
"""

import contextlib
import hashlib
import json
import re
import time
import traceback
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from understudy.errors import UserError
from understudy.federation.approval import ApprovalQueue, Waits
from understudy.federation.client import Memory
from understudy.federation.exchange import NOTHING, Answer, Outcome, Request, failed
from understudy.federation.failures import NotFinite, Refused
from understudy.federation.held import Leaving
from understudy.federation.memories import Memories
from understudy.federation.message import Kind, Message
from understudy.federation.method import Method
from understudy.federation.release import Forbidden, check_against_policy, rows_of
from understudy.federation.site import SCORE, VERSION, Site
from understudy.federation.site_log import SiteLog
from understudy.federation.transcript import Exchanged
from understudy.federation.working import DoWork, Worked, job_of, work
from understudy.files import write_whole
from understudy.privacy.charges import LAST_PLACE, BudgetSpent, Charge

LONG = 1.0  # seconds: work that took longer is kept in files, also in a simulation, so that a kill does not lose it
RUN = re.compile(r"[A-Za-z0-9_-]{1,100}")


def answer(site: Site, method: Method, request: Request, do: DoWork | None = None) -> Answer:
    """Whatever a task does, the caller gets an answer and the federation continues. ``do`` replaces how the work is
    done: in a group, most of it is done already."""
    given = _whatever_happens(site, method, request, do or work)
    if given.outcome == "waiting" or given.repeatable:
        return given
    given = replace(given, records_seen=_records_seen(site, request))
    return given if given.outcome == "done" else _failure(site, request, given)


def _records_seen(site: Site, request: Request) -> bool:
    """Unknown counts as seen."""
    try:
        return ApprovalQueue(site.folder).records_seen(request)
    except (UserError, OSError):
        return True


def give_up(site: Site, request: Request, why: str) -> Answer:
    """For an engine that stops asking, because its process has died too often over a request."""
    return _failure(site, request, failed(site.name, why))


def _failure(site: Site, request: Request, given: Answer) -> Answer:
    """Logged. A failed task may have touched records first, and how it failed may depend on them: what it spent is
    spent, and repeating the work costs again."""
    with contextlib.suppress(OSError):
        SiteLog(site.folder).failure(request, given)
    if site.privacy is None:
        return given
    with contextlib.suppress(UserError):  # a charge log that cannot be read was the reason
        spent = _spent(site, request)
        site.charge_log.close(spent)
        return replace(given, charges=[asdict(charge) for charge in spent])
    return given


def _whatever_happens(site: Site, method: Method, request: Request, do: DoWork) -> Answer:
    try:
        return _answer(site, method, request, do)
    except UserError as error:
        return failed(site.name, str(error), outcome=_outcome(error), code=error.code)
    except Exception as error:
        # A bug in one task must not cost the other clients their work. Its message may quote records, so it stays
        # here, for the task's author.
        with contextlib.suppress(OSError):
            site.folder.mkdir(parents=True, exist_ok=True)
            (site.folder / "error.txt").write_text(traceback.format_exc())
        why = f"{request.task} raised {type(error).__name__}; its error.txt has the details"
        return failed(site.name, why, code="defect")


def _outcome(error: UserError) -> Outcome:
    if isinstance(error, BudgetSpent):
        return "spent"
    if isinstance(error, Waits):
        return "waiting"
    return "refused" if isinstance(error, Refused | Forbidden | NotFinite) else "failed"


def _answer(site: Site, method: Method, request: Request, do: DoWork) -> Answer:
    check_request(site, request)
    worked = None
    if site.memories is not None and not site.has_answered(request.run):
        began = time.perf_counter()
        worked = do(site, method, request)
        if time.perf_counter() - began < LONG:
            return _repeatable(site, request, worked, site.memories)
    step = _Step(site, method, request)
    before = step.answered_before()
    kept = before is not None and step.keeps_its_reply()
    done = before if before is not None and kept else step.keep(worked or do(site, method, request))
    # Not before the reply is listed: after a kill in between, the work is repeated, and the first reply never left.
    paid = [Charge.of(charge) for charge in done["charges"]]
    site.charge_log.close(paid)
    if kept:
        step.check_again(done, paid)
    step.let_go(done, paid)
    spent = [*done["charges"], *step.in_vain(paid)]
    repeatable = site.memories is not None
    return Answer(site.name, "done", "", done["version"], step.file.read_bytes, spent, repeatable=repeatable)


def _repeatable(site: Site, request: Request, worked: Worked, memories: Memories) -> Answer:
    """In a simulation, quick work that costs neither privacy nor a person's time is simply done again after a kill."""
    version = request.start
    if worked.memory.changed:
        version = _name_of(request)
        memories.put(site.name, version, worked.memory, request.start, worked.memory.unchanged)
    reply = worked.reply.copy()
    return Answer(site.name, "done", "", version, reply.to_bytes, repeatable=True, message=reply)


class _Step:
    """One step of a round at a site: what is stored of it, and what is left to do."""

    def __init__(self, site: Site, method: Method, request: Request):
        self.site, self.method, self.request = site, method, request
        self.file, self.queue = site.reply(request), ApprovalQueue(site.folder)
        self.job = job_of(site, method, request)
        # Of everything that may be in the reply, including what the site adds.
        self.kinds: dict[str, Kind] = {**self.job.kinds, SCORE: "statistics"}
        self.problem = method.net.problem
        self.answered = _answered(site, request)
        self.digest = hashlib.sha256(f"{request.task} {request.start} ".encode() + request.body).hexdigest()

    def answered_before(self) -> dict[str, Any] | None:
        """What is stored of this step; a step has one brief, and steps only go forward."""
        answered, request = self.answered, self.request
        before: dict[str, Any] | None = answered["steps"].get(str(request.step))
        last = max(map(int, answered["steps"]), default=0)
        past = request.round < answered["round"] or (before is None and request.step < last)
        if past and self.site.memories is None:  # in a simulation only long steps are listed, and others come again
            raise Refused("past", f"it is already at round {answered['round']}, step {last}")
        if before is not None and before["digest"] != self.digest:
            raise Refused("other-brief")
        return before

    def keeps_its_reply(self) -> bool:
        return self.file.exists() or self.queue.holds(self.request)

    def keep(self, worked: Worked) -> dict[str, Any]:
        """Checks it against the site's policy, writes it, then lists it: from then on it counts."""
        answered = self.answered
        many = rows_of("examples", worked.reply, self.kinds, self.problem)
        self._check(worked.reply, answered["examples"], worked.paid)
        answered["examples"] += many
        done = {"digest": self.digest, "examples": many, **self._write(worked)}
        answered["steps"][str(self.request.step)] = done
        listed, costly = json.dumps(answered).encode(), self._costly(done["charges"])
        write_whole(self.site.answered(self.request.run), listed, durable=costly)
        return done

    def check_again(self, done: dict[str, Any], paid: list[Charge]) -> None:
        """Because the policy may have become stricter."""
        if self.site.policy is not None:
            reply = Message.from_bytes(self.queue.data(self.request, self.file))
            mine = done.get("examples", rows_of("examples", reply, self.kinds, self.problem))  # as it was made
            self._check(reply, self.answered["examples"] - mine, paid)

    def let_go(self, done: dict[str, Any], paid: list[Charge]) -> None:
        """Lets the reply leave, unless a person must review it first."""
        leaving = Leaving(self.request, self.file, self.kinds, self.problem, done["charges"], self.job.keep_rows)
        self.queue.check(self.site.policy, leaving)
        if self.site.logs_replies:
            SiteLog(self.site.folder).reply(self.request, self.file.read_bytes(), self.kinds, paid)
        if self.site.keeps_transcript:
            self._write_transcript()

    def _write_transcript(self) -> None:
        request, reply = self.request, Message.from_bytes(self.file.read_bytes())
        brief = Message.from_bytes(request.body)
        exchanged = Exchanged(self.site.name, request.round, request.step, request.task, brief, reply.without(SCORE))
        self.site.transcript(request.run).add(exchanged)

    def in_vain(self, paid: list[Charge]) -> list[dict[str, Any]]:
        """Charges of the same task when it failed, which the server may not know of. They cover nothing in this
        reply."""
        if self.site.privacy is None:
            return []
        places = {charge.place for charge in paid}
        spent = _spent(self.site, self.request)
        return [asdict(replace(charge, covers=())) for charge in spent if charge.place not in places]

    def _check(self, reply: Message, others: int, paid: list[Charge]) -> None:
        check_against_policy(self.site.policy, reply, self.kinds, self.site.holding.own, self.problem, others, paid)

    def _write(self, worked: Worked) -> dict[str, Any]:
        """Writes memory, charges and reply to disk; they count once listed."""
        version = _keep(self.site, self.request, worked.memory)
        charges = [asdict(charge) for charge in worked.paid]
        if self._costly(charges):
            write_whole(self.file, worked.reply.to_bytes())
        else:
            self.file.write_bytes(worked.reply.to_bytes())
        return {"version": version, "charges": charges}

    def _costly(self, charges: list[dict[str, Any]]) -> bool:
        """Whether redoing it would cost privacy or a person's time: then it must survive a power cut, like memory."""
        return bool(charges) or (self.site.policy is not None and bool(self.site.policy.approval))


def _spent(site: Site, request: Request) -> list[Charge]:
    return site.charge_log.of_task(request.run, request.round, request.step, request.task)


def check_request(site: Site, request: Request) -> None:
    if request.config != site.config:
        raise Refused("other-config")
    if bad := _no_file_name(request.run, request.start, request.settled):
        raise Refused("bad-request", f"the request's {bad} cannot name a file")
    if not all(0 <= place <= LAST_PLACE for place in (request.round, request.step)):
        raise Refused("bad-request", "the request's round or step is out of bounds")


@lru_cache(maxsize=256)
def _no_file_name(run: str, start: str, settled: str) -> str | None:
    """Files here are named after what the server sends: no name may lead out of the site's folder."""
    named = (("run", run, RUN), ("start", start, VERSION), ("settled", settled, VERSION))
    return next((name for name, value, allowed in named if not allowed.fullmatch(value)), None)


def _answered(site: Site, request: Request) -> dict[str, Any]:
    """What it has answered in this round so far; a new round starts empty."""
    file = site.answered(request.run)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh: dict[str, Any] = {"round": request.round, "steps": {}, "examples": 0}
    if not file.exists():
        return fresh
    answered: dict[str, Any] = json.loads(file.read_text())
    if answered["round"] < request.round:
        site.forget_replies(request.run)
        ApprovalQueue(site.folder).forget(request.run)
        return fresh
    return answered


def _name_of(request: Request) -> str:
    """Of the version of memory that this step makes."""
    return f"r{request.round}s{request.step}"


def _keep(site: Site, request: Request, memory: Memory) -> str:
    """Stores a new version if memory changed. All versions of this round stay until the round counts."""
    store, version = site.memory(request.run), request.start
    if memory.changed:
        version = _name_of(request)
        store.put(version, memory)
    of_this_round = {entry for entry in store.entries() if entry.startswith(f"r{request.round}s")}
    store.keep_only({request.start, request.settled, *of_this_round} - {NOTHING})
    return version
