"""A method that sends so many megabytes of noise each way: for the transport, not for learning.

A config names it by `benchmarks.PARCELS`; importing it would add it to the methods of this process."""

import torch
from pydantic import Field

from understudy.base_settings import Settings
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.registry import method
from understudy.federation.server import Server


class ParcelSettings(Settings):
    megabytes: int = Field(default=1, ge=0)


@method("parcels", settings=ParcelSettings)
class Parcels(Method):
    """Bytes that nobody has seen before, so that no store recognises them."""

    def __init__(self, settings: ParcelSettings):
        self.settings = settings

    def _noise(self, rng: torch.Generator) -> Message:
        return Message(noise=torch.randint(256, (self.settings.megabytes * 10**6,), generator=rng, dtype=torch.uint8))

    @task(noise="weights")
    def carry(self, client: Client, brief: Message) -> Message:
        return self._noise(client.rng("noise"))

    def round(self, server: Server, state: State) -> State:
        for reply in server.ask(self.carry, self._noise(server.rng("noise")), to=server.cohort()):
            assert len(reply["noise"]) == self.settings.megabytes * 10**6
        return state
