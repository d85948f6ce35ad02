"""Another method that exchanges something once, written with what Fedssyn uses: it needs no new machinery.

In the manner of "FedMix: Approximation of Mixup under Mean Augmented Federated Learning": each client sends averages of
pairs of its records once, everybody is handed all of them, and trains on them beside its own records.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from contract_checks import CHECKS, Case, watched_play
from torch import Tensor
from torch.nn import functional

from understudy.federation.client import Client
from understudy.federation.exchange import Request
from understudy.federation.exchange_once import ExchangeOnce
from understudy.federation.message import Message
from understudy.federation.method import State, task
from understudy.federation.server import Server
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Kit, Term
from understudy.models.network import Network
from understudy.runs.folder import RunFolder

MASHED_X, MASHED_Y, GIVEN = "mashed.x", "mashed.y", "mashed.given"


class OnAverages(Term):
    per_record = False

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        return {"x": client.memory[MASHED_X], "y": client.memory[MASHED_Y]}

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        return functional.cross_entropy(net(kit["x"])[1], kit["y"])


class Mashed(ExchangeOnce):
    given, once = GIVEN, (MASHED_X, MASHED_Y)

    def __init__(self) -> None:
        local = Local(epochs=1, batch=4, lr=0.05)
        super().__init__(Averaging(AveragingSettings(local=local), terms=[OnAverages()]))

    @task(x="examples", y="labels")
    def average(self, client: Client, brief: Message) -> Message:
        x, pairs = self.net.problem.scale(client.own.x), len(client.own) // 2
        y = functional.one_hot(client.own.y, self.net.problem.classes).to(torch.float32)
        halves = [torch.stack([part[:pairs], part[pairs : 2 * pairs]]).mean(0) for part in (x, y)]
        return Message(x=halves[0], y=halves[1])

    def start(self, server: Server) -> State:
        replies = list(server.ask(self.average, Message(), to=server.clients))
        x, y = (torch.cat([reply[part] for reply in replies]) for part in ("x", "y"))
        return self.open_with(server, Message({MASHED_X: x, MASHED_Y: y}))

    def parts_for(self, state: State, at: int, clients: int) -> Message:
        return state.only(MASHED_X, MASHED_Y)

    def keep(self, client: Client, parts: Message) -> None:
        client.memory.update(parts)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_it_keeps_the_contract(check: Callable[[Case, Path], None], tmp_path: Path) -> None:
    check(Case(Mashed), tmp_path)


def test_a_client_that_is_asked_late_gets_its_parts_then_and_once(tmp_path: Path) -> None:
    sent: dict[str, list[bool]] = {}

    def watch(request: Request) -> None:
        if request.task == "Averaging.train":
            sent.setdefault(request.client, []).append(MASHED_X in Message.from_bytes(request.body))

    watched_play(Case(Mashed), tmp_path / "run", watch, cohort=1, rounds=8)
    assert {tuple(parts) for parts in sent.values()} <= {(True, *[False] * n) for n in range(8)}
    assert len(sent) > 1, "somebody was asked for the first time after round 1"
    given = RunFolder(tmp_path / "run").newest_state()[GIVEN].tolist()
    assert given == [int(name in sent) for name in ("ash", "beech", "cedar", "elm")]
