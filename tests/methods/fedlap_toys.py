"""What the tests of FedLAP and FedLAP-DP share."""

from pathlib import Path
from typing import Any

import pytest
from stage import SEED, Stage, bound, pictures

from understudy.data.examples import Examples
from understudy.federation.budget import Budget, Occasion
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.methods.fedlap import FedLap, fedlap
from understudy.methods.fedlap.settings import FedLapSettings
from understudy.models.network import Network
from understudy.privacy.charges import ChargeLog

SITES = {"a": pictures([0] * 6 + [2] * 5, name="a"), "b": pictures([1] * 7, name="b")}
QUICK: dict[str, Any] = {
    "real_batches": 2,
    "image_steps": 1,
    "ipc": 2,
    "batch": 4,
    "image_lr": 1.0,
    "server_epochs": 3,
    "schedule": "constant",
}


def method(**given: Any) -> FedLap:
    return FedLap(FedLapSettings.model_validate({**QUICK, **given}))


def reply_of(chosen: FedLap, own: Examples, net: Network) -> Message:
    stage = Stage(bound(chosen, net), {"a": own})
    return chosen.distil(stage.client("a", 1), Message(model=net.initial()))


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images stay as they start: real records."""
    monkeypatch.setattr(fedlap, "match_gradient", lambda *_, **__: None)


class Paying(Stage):
    """A stage whose clients have a budget."""

    def __init__(self, method: Method, own: dict[str, Examples], logs: Path):
        super().__init__(method, own)
        self.logs = logs

    def client(self, name: str, round: int | None = None) -> Client:
        plain = super().client(name, round)
        occasion = Occasion("run", plain.round, 1, "FedLapDp.distil")
        budget = Budget(ChargeLog(self.logs / f"{name}.jsonl"), occasion, self.method.privacy, None, len(plain.own))
        return Client(
            name, plain.round, own=plain.own, held_out=plain.held_out, memory=plain.memory, seed=SEED, budget=budget
        )
