"""A method like any other, and a site that lies: where $RUDE is set, a site's process does not send what it did."""

import json
import os
import struct
from dataclasses import replace

import torch

from understudy.base_settings import NoSettings
from understudy.federation.answering import answer
from understudy.federation.client import Client
from understudy.federation.exchange import Answer, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.registry import method
from understudy.federation.server import Server
from understudy.federation.site import Site


@method("rude")
class Rude(Method):
    """Adds up 1 per client and round, so that the total tells how many answers counted."""

    def __init__(self, settings: NoSettings):
        self.settings = settings

    @task(change="weights")
    def work(self, client: Client, brief: Message) -> Message:
        return Message(change=torch.ones(1))

    def start(self, server: Server) -> State:
        return Message(model=self.net.initial(), total=torch.zeros(1))

    def round(self, server: Server, state: State) -> State:
        total = server.sum(self.work, Message(), to=server.cohort(), like={"change": (1,)}, least={"change": 0.0})
        return state.but(total=state["total"] + total["change"].float())

    def metrics(self, state: State) -> dict[str, float]:
        return {"total": float(state["total"])}


def _lie(given: Answer, round: int) -> Answer:
    header = json.dumps({"change": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}}).encode()
    bodies = {
        1: Message(change=torch.ones(1), more=torch.ones(1)).to_bytes(),
        2: struct.pack("<Q", len(header)) + header,
        3: Message({"\x1b[2Jchange": torch.ones(1)}).to_bytes(),
        4: Message(change=torch.full((1,), -1e14)).to_bytes(),
        5: Message(change=torch.full((1,), 1e300, dtype=torch.float64)).to_bytes(),
    }
    if round in bodies:
        return replace(given, message=None, read=lambda: bodies[round])
    if round == 6:
        return replace(given, version="../../elsewhere")
    if round == 7:
        return replace(given, charges=[{"noise": 1e300, "steps": 10**400}] * 2000)
    return given


def _be_rude() -> None:
    from understudy.engines.flower import serving

    def lying(site: Site, method: Method, request: Request) -> Answer:
        return _lie(answer(site, method, request), request.round)

    serving.answer = lying  # type: ignore[attr-defined,assignment]


if os.environ.get("RUDE"):
    _be_rude()
