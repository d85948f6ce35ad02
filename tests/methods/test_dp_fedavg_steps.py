"""DP-FedAvg's step on a client, by hand: what is summed, what it is divided by, at which rate, and what is told."""

from pathlib import Path

import pytest
import torch
from fedlap_toys import Paying
from stage import bound, coin, records

from understudy.data.examples import Examples
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.methods.dp_fedavg import DpSettings, PrivateAveraging
from understudy.privacy.charges import ChargeLog
from understudy.privacy.promise import PrivacySettings

OWN = records([1, 1, 1], [0, 0, 0])  # at w = 0 the slope of (x = 1, class 0) is −½, that of (x = 1, class 1) is ½
HARDLY = 1e-9  # noise


def method(**given: object) -> PrivateAveraging:
    words = {"local": Local(steps=1, batch=10, lr=0.1), "clip": 10.0, "noise": HARDLY, **given}
    chosen = PrivateAveraging(DpSettings.model_validate(words))
    chosen.privacy = PrivacySettings(delta=1e-5, records=4)
    bound(chosen, coin(), rounds=3)
    return chosen


def client(chosen: PrivateAveraging, folder: Path, own: Examples = OWN, round: int = 1) -> Client:
    return Paying(chosen, {"a": own}, folder).client("a", round)


def test_a_sum_is_divided_by_the_planned_records_and_those_that_were_dealt(tmp_path: Path) -> None:
    # Planned are 4 records in batches of 10, so the rate is 1. Three own records sum to −1½: w = 0.1 · 1.5/4. With two
    # dealt ones of class 1 they sum to −½, over 4 + 2.
    chosen, start = method(), Message(model=torch.zeros(1))
    alone = client(chosen, tmp_path / "alone")
    assert chosen.train(alone, start)["change"].item() == pytest.approx(0.1 * 1.5 / 4)
    dealt = client(chosen, tmp_path / "dealt")
    dealt.keep_dealt(Message(x=torch.ones(2, 1), y=torch.ones(2, dtype=torch.uint8)))
    assert chosen.train(dealt, start)["change"].item() == pytest.approx(0.1 * 0.5 / 6)
    assert [charge.divisor for charge in ChargeLog(tmp_path / "dealt" / "a.jsonl").charges()] == [6]


def test_the_rate_follows_its_schedule(tmp_path: Path) -> None:
    # A cosine over three rounds: the full rate, half of it, the floor.
    chosen = method(local=Local(steps=1, batch=10, lr=0.1, schedule="cosine"))
    for round, rate in ((1, 0.1), (2, 0.05), (3, 1e-6)):
        reply = chosen.train(client(chosen, tmp_path / str(round), round=round), Message(model=torch.zeros(1)))
        assert reply["change"].item() == pytest.approx(rate * 1.5 / 4, rel=1e-3)


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_the_weight_tells_nothing_of_the_records(weights: str, tmp_path: Path) -> None:
    chosen = method(weights=weights)
    told = []
    for held in (0, 1, 3):
        reply = chosen.train(client(chosen, tmp_path / str(held), OWN.take(range(held))), Message(model=torch.zeros(1)))
        told.append(reply["weight"].item())
    assert told == [4.0 if weights == "size" else 1.0] * 3
