"""The client's side of an exchange: one function, whichever engine brought the request.

A step has one brief. Asked again, a client sends the same bytes; asked otherwise, or for a step that it did not
answer and that is behind its newest, it refuses. A task works on a copy of the memory that the request names and
ends in a new version. A reply that a person has to look at first is kept like any other, and waits.
"""

import contextlib
import hashlib
import json
import re
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from understudy.data.examples import Examples
from understudy.data.federation import Holding
from understudy.errors import UserError
from understudy.federation.approval import ApprovalQueue, Leaving, Waits
from understudy.federation.budget import Budget, Occasion
from understudy.federation.client import Client, Memory
from understudy.federation.exchange import NOTHING, Answer, Outcome, Request, failed
from understudy.federation.failures import NotFinite, Refused
from understudy.federation.message import Kind, Message
from understudy.federation.method import Job, Method
from understudy.federation.release import Forbidden, check_kinds, check_reply, may_score, rows_of
from understudy.federation.site_log import SiteLog
from understudy.federation.tensor_store import TensorStore
from understudy.files import write_whole
from understudy.learning.evaluate import tally
from understudy.privacy.charges import LAST_PLACE, BudgetSpent, Charge, ChargeLog
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings
from understudy.randomness import private_global_stream, seed_from

VERSION = re.compile(r"(r[0-9]{1,10}s[0-9]{1,10})?")  # of memory, as `_keep` names them
RUN = re.compile(r"[A-Za-z0-9_-]{1,100}")
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


def answer(site: Site, method: Method, request: Request) -> Answer:
    """Whatever a task does, the caller gets an answer and the federation goes on."""
    given = _whatever_happens(site, method, request)
    return given if given.outcome in ("done", "waiting") else _failure(site, request, given)


def give_up(site: Site, request: Request, why: str) -> Answer:
    """For an engine whose process died over a request so often that it does not ask again."""
    return _failure(site, request, failed(site.name, why))


def _failure(site: Site, request: Request, given: Answer) -> Answer:
    """Written down. A task that failed may have touched records first, and how it failed may depend on them: what it
    spent is spent, and the same work costs again."""
    with contextlib.suppress(OSError):
        SiteLog(site.folder).failure(request, given)
    if site.privacy is None:
        return given
    with contextlib.suppress(UserError):  # a charge log that cannot be read was the reason
        spent = site.charge_log.of_task(request.run, request.round, request.step, request.task)
        site.charge_log.close(spent)
        return replace(given, charges=[charge.as_dict() for charge in spent])
    return given


def _whatever_happens(site: Site, method: Method, request: Request) -> Answer:
    try:
        return _answer(site, method, request)
    except UserError as error:
        return failed(site.name, str(error), outcome=_outcome(error), code=error.code)
    except Exception as error:
        # A defect in a task must not take the other clients' work with it. What it says may quote records: it stays
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


def _answer(site: Site, method: Method, request: Request) -> Answer:
    _check_request(site, request)
    digest = hashlib.sha256(f"{request.task} {request.start} ".encode() + request.body).hexdigest()
    answered = _answered(site, request)
    before = _answered_before(answered, request, digest)
    file, queue, kinds = site.reply(request), ApprovalQueue(site.folder), _kinds(site, method, request)
    problem, kept = method.net.problem, before is not None and (file.exists() or queue.holds(request))
    if before is None or not kept:
        reply, memory, paid = _work(site, method, request)
        broken = [part for part in reply.not_finite() if part != SCORE]
        if broken:
            raise NotFinite(broken)
        check_reply(site.policy, reply, kinds, site.holding.own, problem, answered["examples"], paid)
        answered["examples"] += rows_of("examples", reply, kinds, problem)
        done = _file(site, request, reply, memory, paid)
        before = answered["steps"][str(request.step)] = {"digest": digest, **done}
        write_whole(site.answered(request.run), json.dumps(answered).encode(), durable=_costly(site, before["charges"]))
    # Not before the reply is listed: killed in between, the work is repeated, and it never left.
    paid = [Charge.of(charge) for charge in before["charges"]]
    site.charge_log.close(paid)
    if kept and site.policy is not None:  # which may be stricter by now
        reply = Message.from_bytes(queue.data(request, file))
        others = answered["examples"] - rows_of("examples", reply, kinds, problem)
        check_reply(site.policy, reply, kinds, site.holding.own, problem, others, paid)
    queue.check(site.policy, Leaving(request, file, kinds, problem, before["charges"]))
    if site.logs_replies:
        SiteLog(site.folder).reply(request, file.read_bytes(), kinds, paid)
    spent = [*before["charges"], *_spent_in_vain(site, request, paid)]
    return Answer(site.name, "done", "", before["version"], file.read_bytes, spent)


def _spent_in_vain(site: Site, request: Request, paid: list[Charge]) -> list[dict[str, Any]]:
    """By the same task when it failed, which the server may not have heard of. It covers nothing of this reply."""
    if site.privacy is None:
        return []
    spent = site.charge_log.of_task(request.run, request.round, request.step, request.task)
    places = {charge.place for charge in paid}
    return [replace(charge, covers=()).as_dict() for charge in spent if charge.place not in places]


def _kinds(site: Site, method: Method, request: Request) -> dict[str, Kind]:
    """Of all that may be in the reply, what the site adds to it included."""
    return {**_job(site, method, request).kinds, SCORE: "statistics"}


def _job(site: Site, method: Method, request: Request) -> Job:
    job = method.jobs().get(request.task)
    if job is None:
        raise UserError(f"{site.name} knows no task '{request.task}'; server and client must share one config.")
    return job


def check_version(version: str) -> None:
    """On the server, which only keeps it for the next request."""
    if not VERSION.fullmatch(version):
        raise UserError("its answer names a version of its memory that cannot be")


def _check_request(site: Site, request: Request) -> None:
    if request.config != site.config:
        raise Refused("other-config")
    strange = _cannot_be_a_file(request)
    if strange:
        raise Refused("bad-request", f"the request's {strange} cannot name a file")
    if not all(0 <= place <= LAST_PLACE for place in (request.round, request.step)):
        raise Refused("bad-request", "the request's round or step is out of bounds")


def _answered_before(answered: dict[str, Any], request: Request, digest: str) -> dict[str, Any] | None:
    """What is kept of this very step; a step has one brief, and steps go forward only."""
    before: dict[str, Any] | None = answered["steps"].get(str(request.step))
    if request.round < answered["round"] or (before is None and request.step < _last(answered)):
        raise Refused("past", f"it is already at round {answered['round']}, step {_last(answered)}")
    if before is not None and before["digest"] != digest:
        raise Refused("other-brief")
    return before


def _cannot_be_a_file(request: Request) -> str | None:
    """A server's words become names of files here: nothing may lead out of the site's folder."""
    if not RUN.fullmatch(request.run):
        return "run"
    return next((name for name in ("start", "settled") if not VERSION.fullmatch(getattr(request, name))), None)


def _file(site: Site, request: Request, reply: Message, memory: Memory, paid: list[Charge]) -> dict[str, Any]:
    """Memory, charges and reply on disk; they count once they are listed."""
    version = _keep(site, request, memory)
    charges = [charge.as_dict() for charge in paid]
    if _costly(site, charges):
        write_whole(site.reply(request), reply.to_bytes())
    else:
        site.reply(request).write_bytes(reply.to_bytes())
    return {"version": version, "charges": charges}


def _costly(site: Site, charges: list[dict[str, Any]]) -> bool:
    """To make again, in privacy or in a person's time: then it must survive a power cut, as memory must."""
    return bool(charges) or (site.policy is not None and bool(site.policy.approval))


def _answered(site: Site, request: Request) -> dict[str, Any]:
    """What it answered in this round so far; a new round begins with nothing."""
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


def _last(answered: dict[str, Any]) -> int:
    return max(map(int, answered["steps"]), default=0)


def _work(site: Site, method: Method, request: Request) -> tuple[Message, Memory, list[Charge]]:
    """The reply, what the client remembers, and what this work was charged: nothing else can cover the reply."""
    job = _job(site, method, request)
    check_kinds(site.policy, job.kinds, private=site.privacy is not None)
    kept = site.memory(request.run).get(request.start)[0] if request.start != NOTHING else Message()
    brief = Message.from_bytes(request.body)
    if brief.not_finite():
        raise UserError(f"the brief is not finite in {', '.join(brief.not_finite())}")
    scores = (
        _scores(_client(site, request, Memory(kept), "scoring"), method, brief)
        if request.score and may_score(site.policy)
        else {}
    )
    memory = Memory(kept)
    with private_global_stream(site.seed, request.round, site.name, request.task):
        client = _client(site, request, memory)
        reply = job.work(client, brief)
    undeclared = [part for part in reply if part not in job.kinds or part == SCORE]  # which is the site's alone
    if undeclared:
        raise UserError(f"{request.task} would send {', '.join(undeclared)}, which @task does not declare.")
    return reply.but(scores), memory, client.budget.charged


def _client(site: Site, request: Request, memory: Memory, *words: str) -> Client:
    own, held_out = site.holding.own, site.holding.held_out
    seed = seed_from(site.seed, *words) if words else site.seed
    occasion = Occasion(request.run, request.round, request.step, request.task)
    return Client(
        site.name,
        request.round,
        own=own,
        held_out=held_out,
        memory=memory,
        seed=seed,
        common=site.common,
        budget=Budget(site.charge_log, occasion, site.privacy, site.policy, len(own)),
    )


def _scores(client: Client, method: Method, brief: Message) -> dict[str, torch.Tensor]:
    """Of the brief's model on held-out records; on a copy of memory and streams apart, so that it changes nothing."""
    if "model" not in brief or not len(client.held_out):
        return {}
    with private_global_stream(client.id, client.round, SCORE):
        method.net.load(method.personal(client, brief["model"]))
        return {SCORE: tally(method.net.logits, client.held_out, method.net.problem).to_tensor()}


def _keep(site: Site, request: Request, memory: Memory) -> str:
    """A new version where memory changed. All of this round's stay until the round counts."""
    store, version = site.memory(request.run), request.start
    if memory.changed:
        version = f"r{request.round}s{request.step}"
        store.put(version, memory)
    of_this_round = {entry for entry in store.entries() if entry.startswith(f"r{request.round}s")}
    store.keep_only({request.start, request.settled, *of_this_round} - {NOTHING})
    return version
