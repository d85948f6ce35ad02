"""PSG: what is charged is what is run, a private gradient by hand, and every class is made."""

from pathlib import Path

import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, coin, records, softmax_net

from understudy.api.run import run
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.budget import Budget, Occasion
from understudy.federation.client import Client, Memory
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.methods import psg
from understudy.methods.psg import PSG, PSGSettings
from understudy.models.network import Network
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import ChargeLog
from understudy.privacy.gradients import clipped_gradient_sum
from understudy.privacy.promise import PrivacySettings

PRIVACY = PrivacySettings(delta=1e-5, records=20)
OWN = cloud("a", 15)
QUICK: dict[str, object] = {
    "ipc": 2,
    "iterations": 2,
    "outer": 3,
    "inner": 1,
    "real_batch": 5,
    "batches": 4,
    "noise": 2,
}


def method(privacy: PrivacySettings | None = PRIVACY, **given: object) -> PSG:
    chosen = PSG(PSGSettings.model_validate({**QUICK, "server": Local(epochs=2), **given}))
    chosen.privacy = privacy
    return chosen


def client(folder: Path, own: Examples = OWN, privacy: PrivacySettings | None = PRIVACY) -> Client:
    budget = Budget(ChargeLog(folder / "charges.jsonl"), Occasion("run", 1, 1, "PSG.condense"), privacy, None, len(own))
    return Client("a", 1, own=own, held_out=own.none(), memory=Memory({}), seed=0, budget=budget)


def test_the_published_numbers_are_the_defaults() -> None:
    chosen = PSGSettings()
    assert (chosen.clip, chosen.batches, chosen.real_batch, chosen.iterations, chosen.noise) == (
        0.1,
        10,
        256,
        1000,
        None,
    )
    # 1000 networks · 10 places · 10 gradients at ten images a class.
    assert PSG(chosen).gradients == 100_000
    assert PSG(PSGSettings(ipc=1)).gradients == 10_000


def test_as_many_gradients_are_made_as_were_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 2 networks · 3 places · 4 batches = 24, at q = 5/20.
    made: list[int] = []

    def watched(net: Network, x: torch.Tensor, y: torch.Tensor, clip: float) -> torch.Tensor:
        assert ChargeLog(tmp_path / "charges.jsonl").charges(), "before a record is touched"
        made.append(len(y))
        return clipped_gradient_sum(net, x, y, clip)

    monkeypatch.setattr(psg, "clipped_gradient_sum", watched)
    chosen = method()
    bound(chosen, softmax_net())
    chosen.condense(client(tmp_path), Message())
    (charge,) = ChargeLog(tmp_path / "charges.jsonl").charges()
    assert (charge.rate, charge.noise, charge.steps, charge.clip) == (0.25, 2.0, 24, 0.1)
    assert charge.covers == ("x", "y")
    assert len(made) == charge.steps == 24
    assert len(set(made)) > 1, "Poisson batches vary in size"


def test_a_private_gradient_by_hand(tmp_path: Path) -> None:
    # Slopes at w = 0: (σ(0) − 1)·1 = −½ for (x=1, class 0) and σ(0)·2 = 1 for (x=2, class 1), which C = 0.8 cuts.
    # n̄ = 5 and q = 1: (−0.5 + 0.8) / 5 = 0.06, with hardly any noise.
    five = PrivacySettings(delta=1e-5, records=5)
    chosen = method(five, clip=0.8, noise=1e-9, real_batch=5)
    bound(chosen, coin())
    own = records([1, 2], [0, 1])
    means = chosen._means(client(tmp_path, own, five), chosen.planned(2))
    found = chosen._private_gradient(own, None, means)
    assert found.tolist() == [pytest.approx(0.06, abs=1e-6)]


def test_dealt_records_count_in_the_divisor_and_not_in_the_plan(tmp_path: Path) -> None:
    # As above, and two records (x=1, class 0) were dealt: (−0.5 + 0.8 − 2·0.5) / (5 + 2) = −0.1.
    five = PrivacySettings(delta=1e-5, records=5)
    chosen = method(five, clip=0.8, noise=1e-9, real_batch=5)
    bound(chosen, coin())
    one = client(tmp_path, records([1, 2], [0, 1]), five)
    one.keep_dealt(Message(x=records([1, 1], [0, 0]).x, y=torch.zeros(2, dtype=torch.uint8)))
    plan = chosen.planned(2)
    assert (plan.rate, plan.records) == (1, 5)
    found = chosen._private_gradient(one.examples, None, chosen._means(one, plan))
    assert found.tolist() == [pytest.approx(-0.1, abs=1e-6)]
    chosen.condense(one, Message())
    (charge,) = ChargeLog(tmp_path / "charges.jsonl").charges()
    assert (charge.rate, charge.noise, charge.steps, charge.divisor) == (1, 1e-9, 24, 7)


def test_an_empty_batch_is_noise_of_the_planned_size(tmp_path: Path) -> None:
    # σC/(q·n̄) = 3·0.1/(0.25·20) = 0.06 in each of 12 numbers, 500 times.
    chosen = method(noise=3, batches=125)
    bound(chosen, softmax_net())
    means = chosen._means(client(tmp_path, OWN.none()), chosen.planned(0))
    found = torch.cat([chosen._private_gradient(OWN.none(), None, means) for _ in range(500)])
    assert found.std().item() == pytest.approx(0.06, rel=0.04)


def test_every_class_is_made_whatever_the_client_holds(tmp_path: Path) -> None:
    for at, own in enumerate((OWN, OWN.none(), records([[1, 2, 3]], [1]))):
        chosen = method()
        bound(chosen, softmax_net())
        reply = chosen.condense(client(tmp_path / str(at), own), Message())
        assert reply["y"].tolist() == [0, 0, 1, 1, 2, 2]
        assert reply["x"].isfinite().all()


def test_a_run_spends_once_and_says_how_much(tmp_path: Path) -> None:
    data = Federation.from_arrays({"a": (OWN.x.numpy(), OWN.y.numpy())}, test=(OWN.x.numpy(), OWN.y.numpy()), classes=3)
    result = run(
        data=data,
        model={"name": "softmax"},
        method={"name": "psg", "rounds": 2, **QUICK, "server": {"epochs": 2}},
        privacy={"delta": 1e-5, "records": 20},
        out=tmp_path / "run",
        engine={"name": "inline"},
    )
    wanted = epsilon([Spending(0.25, 2.0, 24)], 1e-5)
    assert [line["epsilon"] for line in result.metrics] == pytest.approx([0, wanted, wanted])


@pytest.mark.parametrize(
    ("privacy", "words", "sentence"),
    [
        (None, {}, "psg spends privacy"),
        (PrivacySettings(), {}, "privacy.records: write how many records"),
        (PRIVACY, {"noise": None}, "give privacy.epsilon"),
    ],
)
def test_what_is_missing_is_said_before_it_begins(
    privacy: PrivacySettings | None, words: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        method(privacy, **words).bind(softmax_net(), 1)


def test_batchnorm_is_refused() -> None:
    with pytest.raises(UserError, match="BatchNorm is refused"):
        method().bind(batchnorm_net(), 1)


def test_a_stage_without_promise_cannot_spend() -> None:
    stage = Stage(bound(method(), softmax_net()), {"a": OWN})
    with pytest.raises(UserError, match="spends privacy"):
        stage.play(1)
