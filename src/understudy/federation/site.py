"""The client's side of an exchange: one function, whichever engine brought the request.

A step has one brief. Asked again, a client sends the same bytes; asked otherwise, or for a step behind its
newest, it refuses. A task works on a copy of the memory that the request names and ends in a new version.
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
    folder: Path  # memory and the newest reply: all that outlives a task
    seed: int

    @property
    def memory(self) -> Shelf:
        return Shelf(self.folder / "memory")

    @property
    def reply(self) -> Path:
        return self.folder / "reply.safetensors"

    @property
    def newest(self) -> Path:
        return self.folder / "newest.json"

    def forget_reply(self) -> None:
        self.reply.unlink(missing_ok=True)


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
    newest = _newest(site, request.run)
    if newest is not None:
        at, asked = (newest["round"], newest["step"]), (request.round, request.step)
        if asked < at:
            return failed(site.name, f"it is already at round {at[0]}, step {at[1]}", outcome="refused")
        if asked == at and newest["digest"] != digest:
            return failed(site.name, "it answered this step already, to another brief", outcome="refused")
        if asked == at and site.reply.exists():
            return Answer(site.name, "done", "", newest["version"], 0.0, site.reply.read_bytes)
    reply, memory = _work(site, method, request)
    broken = reply.not_finite()
    if broken:
        why = f"its reply is not finite in {', '.join(broken)} (a smaller learning rate may help)"
        return failed(site.name, why, outcome="refused")
    version = _keep(site, request, memory)
    write_whole(site.reply, reply.to_bytes())
    mark = {"run": request.run, "round": request.round, "step": request.step}
    write_whole(site.newest, json.dumps(mark | {"digest": digest, "version": version}).encode())
    return Answer(site.name, "done", "", version, time.perf_counter() - began, site.reply.read_bytes)


def _newest(site: Site, run: str) -> dict[str, Any] | None:
    if not site.newest.exists():
        site.folder.mkdir(parents=True, exist_ok=True)
        return None
    newest: dict[str, Any] = json.loads(site.newest.read_text())
    if newest["run"] == run:
        return newest
    shutil.rmtree(site.folder)  # kept for another run
    site.folder.mkdir(parents=True)
    return None


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
