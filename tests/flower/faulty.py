"""A method whose clients misbehave on command: files named ROUND-CLIENT in $FAULTS say who does what."""

import os
import time
from pathlib import Path

import torch

from understudy.base_settings import NoSettings
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.registry import method
from understudy.federation.server import Server


@method("faulty")
class Faulty(Method):
    """Adds up 1 a client and round, so that the total tells how many answers counted."""

    def __init__(self, settings: NoSettings):
        self.settings = settings

    @task(change="weights")
    def work(self, client: Client, brief: Message) -> Message:
        """Does what it is told, once."""
        client.memory["times"] = client.memory.get("times", torch.zeros(1)) + 1
        order = Path(os.environ["FAULTS"], f"{client.round}-{client.id}")
        change = torch.ones(1)
        if order.exists():
            what, *seconds = order.read_text().split()
            order.rename(order.with_suffix(".done"))
            if what == "wait":
                while not order.with_suffix(".released").exists():
                    time.sleep(0.05)
            elif what == "nan":
                change *= torch.nan
            else:
                _misbehave(what, *seconds)
        order.with_suffix(".worked").touch()
        return Message(change=change)

    def start(self, server: Server) -> State:
        return Message(model=self.net.initial(), total=torch.zeros(1))

    def round(self, server: Server, state: State) -> State:
        total = server.sum(self.work, Message(), to=server.cohort(), like={"change": (1,)})
        return state.but(total=state["total"] + total["change"].float())

    def metrics(self, state: State) -> dict[str, float]:
        return {"total": float(state["total"])}


def _misbehave(what: str, seconds: str = "0") -> None:
    if what == "raise":
        raise ValueError("the record of a patient")
    if what == "die":
        os._exit(9)
    if what == "sleep":
        time.sleep(float(seconds))
