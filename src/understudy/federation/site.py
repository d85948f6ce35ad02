"""The client's side of an exchange: one function, whichever engine brought the request.

A step has one brief. Asked again, a client sends the same bytes; asked otherwise, or for a step that it did not
answer and that is behind its newest, it refuses. A task works on a copy of the memory that the request names and
ends in a new version.
"""

import hashlib
import json
import shutil
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from understudy.data.federation import Holding
from understudy.errors import UserError
from understudy.federation.client import Client, Memory
from understudy.federation.exchange import NOTHING, Answer, Request, failed
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.shelf import Shelf, write_whole
from understudy.learning.evaluate import tally
from understudy.randomness import private_global_stream

SCORE = "score"  # the part that the site adds by itself, when asked to score


@dataclass(frozen=True)
class Site:
    name: str
    holding: Holding
    folder: Path  # memory and the replies of the newest round: all that outlives a task
    seed: int

    @property
    def memory(self) -> Shelf:
        return Shelf(self.folder / "memory")

    @property
    def answered(self) -> Path:
        """Which run this is, and of its newest round the steps that were answered."""
        return self.folder / "answered.json"

    def reply(self, step: int) -> Path:
        return self.folder / f"reply-{step}.safetensors"

    def forget_replies(self) -> None:
        """The round counts: nobody will ask for it again."""
        for path in self.folder.glob("reply-*.safetensors"):
            path.unlink(missing_ok=True)


def answer(site: Site, method: Method, request: Request) -> Answer:
    """Whatever a task does, the caller gets an answer and the federation goes on."""
    began = time.perf_counter()
    try:
        return _answer(site, method, request, began)
    except UserError as error:
        return failed(site.name, str(error))
    except Exception as error:
        # A defect in a task must not take the other clients' work with it; the trace is kept for its author.
        site.folder.mkdir(parents=True, exist_ok=True)
        (site.folder / "error.txt").write_text(traceback.format_exc())
        return failed(site.name, f"{request.task} raised {type(error).__name__}: {error}")


def _answer(site: Site, method: Method, request: Request, began: float) -> Answer:
    digest = hashlib.sha256(request.task.encode() + request.body).hexdigest()
    answered = _answered(site, request)
    before = answered["steps"].get(str(request.step))
    if request.round < answered["round"] or (before is None and request.step < _last(answered)):
        why = f"it is already at round {answered['round']}, step {_last(answered)}"
        return failed(site.name, why, outcome="refused")
    if before is not None and before["digest"] != digest:
        return failed(site.name, "it answered this step already, to another brief", outcome="refused")
    file = site.reply(request.step)
    if before is not None and file.exists():
        return Answer(site.name, "done", "", before["version"], 0.0, file.read_bytes)
    reply, memory = _work(site, method, request)
    broken = reply.not_finite()
    if broken:
        why = f"its reply is not finite in {', '.join(broken)} (a smaller learning rate may help)"
        return failed(site.name, why, outcome="refused")
    version = _keep(site, request, memory)
    write_whole(file, reply.to_bytes())
    answered["steps"][str(request.step)] = {"digest": digest, "version": version}
    write_whole(site.answered, json.dumps(answered).encode())
    return Answer(site.name, "done", "", version, time.perf_counter() - began, file.read_bytes)


def _answered(site: Site, request: Request) -> dict[str, Any]:
    """What it answered in this round so far; a new round, or another run, begins with nothing."""
    site.folder.mkdir(parents=True, exist_ok=True)
    fresh: dict[str, Any] = {"run": request.run, "round": request.round, "steps": {}}
    if not site.answered.exists():
        return fresh
    answered: dict[str, Any] = json.loads(site.answered.read_text())
    if answered["run"] != request.run:
        shutil.rmtree(site.folder)
        site.folder.mkdir(parents=True)
        return fresh
    if answered["round"] < request.round:
        site.forget_replies()
        return fresh
    return answered


def _last(answered: dict[str, Any]) -> int:
    return max(map(int, answered["steps"]), default=0)


def _work(site: Site, method: Method, request: Request) -> tuple[Message, Memory]:
    job = method.jobs().get(request.task)
    if job is None:
        raise UserError(f"{site.name} knows no task '{request.task}'; server and client must share one config.")
    kept = site.memory.get(request.start)[0] if request.start != NOTHING else {}
    memory = Memory(kept)
    holding = site.holding
    client = Client(site.name, request.round, own=holding.own, held_out=holding.held_out, memory=memory, seed=site.seed)
    brief = Message.from_bytes(request.body)
    scores = _scores(client, method, brief) if request.score else {}
    with private_global_stream(site.seed, request.round, site.name, request.task):
        reply = job.work(client, brief)
    undeclared = [part for part in reply if part not in job.kinds]
    if undeclared:
        raise UserError(f"{request.task} would send {', '.join(undeclared)}, which @task does not declare.")
    return reply.but(scores), memory


def _scores(client: Client, method: Method, brief: Message) -> dict[str, torch.Tensor]:
    if "model" not in brief or not len(client.held_out):
        return {}
    method.net.load(method.personal(client, brief["model"]))
    return {SCORE: tally(method.net.logits, client.held_out, method.net.problem).to_tensor()}


def _keep(site: Site, request: Request, memory: Memory) -> str:
    version = request.start
    if memory.changed:
        version = f"r{request.round}s{request.step}"
        site.memory.put(version, memory)
    site.memory.keep_only({request.start, request.settled, version} - {NOTHING})
    return version
