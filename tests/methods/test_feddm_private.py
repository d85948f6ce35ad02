"""FedDM with privacy: what is charged and when, which classes are made, and what is refused."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stage import batchnorm_net, bound, image_net, pictures

from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.budget import Budget, Occasion
from understudy.federation.client import Client, Memory
from understudy.federation.message import Message
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.models.network import Network
from understudy.privacy import mechanism
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import BudgetSpent, ChargeLog
from understudy.privacy.mechanism import gaussian
from understudy.privacy.promise import PrivacySettings
from understudy.randomness import generator
from understudy.runs.play import play
from understudy.runs.rounds import RunResult
from understudy.synthesis.matching import Draws, embedding
from understudy.synthesis.private_matching import PrivateMeans

PRIVACY = PrivacySettings(delta=1e-5, records=30)
OWN = pictures([0] * 12 + [2] * 11)


def method(privacy: PrivacySettings | None = PRIVACY, **given: object) -> FedDM:
    quick: dict[str, object] = {"ipc": 2, "steps": 3, "real_batch": 5, "dp": "stat", "noise": 2.0}
    chosen = FedDM(FedDMSettings.model_validate({**quick, **given}))
    chosen.privacy = privacy
    return chosen


def client(folder: Path, privacy: PrivacySettings | None = PRIVACY, own: Examples = OWN) -> Client:
    budget = Budget(ChargeLog(folder / "charges.jsonl"), Occasion("run", 1, 1, "FedDM.distil"), privacy, None, len(own))
    return Client("a", 1, own=own, held_out=own.none(), memory=Memory({}), seed=0, budget=budget)


def distilled(chosen: FedDM, folder: Path, own: Examples = OWN, net: Network | None = None) -> Message:
    bound(chosen, net or image_net())
    return chosen.distil(client(folder, chosen.privacy, own), Message(model=chosen.net.initial()))


def charges(folder: Path) -> list[tuple[float, float, int, tuple[str, ...]]]:
    return [(c.rate, c.noise, c.steps, c.covers) for c in ChargeLog(folder / "charges.jsonl").charges()]


def test_a_round_is_charged_once_for_its_steps_whatever_the_classes(tmp_path: Path) -> None:
    # 30 planned records in 3 classes: n̄_c = 10, q = 5/10; three steps.
    distilled(method(), tmp_path)
    assert charges(tmp_path) == [(0.5, 2.0, 3, ("x", "y"))]


def test_with_a_few_releases_image_steps_go_round_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    plain = PrivateMeans.__call__

    def watched(self: PrivateMeans, drawn: Sequence[torch.Tensor], draws: Draws) -> torch.Tensor:
        calls.append(1)
        return plain(self, drawn, draws)

    monkeypatch.setattr(PrivateMeans, "__call__", watched)
    distilled(method(stat_releases=2, steps=7), tmp_path / "few")
    assert charges(tmp_path / "few") == [(1.0, 2.0, 2, ("x", "y"))]
    assert len(calls) == 2
    distilled(method(steps=7), tmp_path / "each")
    assert len(calls) == 2 + 7


def test_the_plan_is_the_same_whatever_the_client_holds(tmp_path: Path) -> None:
    distilled(method(), tmp_path / "none", OWN.none())
    distilled(method(), tmp_path / "some", OWN)
    distilled(method(), tmp_path / "many", pictures([1] * 500))
    assert charges(tmp_path / "none") == charges(tmp_path / "some") == charges(tmp_path / "many")


def test_every_class_is_made_unless_labels_are_public(tmp_path: Path) -> None:
    assert distilled(method(), tmp_path / "all")["y"].tolist() == [0, 0, 1, 1, 2, 2]
    told = PrivacySettings(delta=1e-5, records=30, public=("labels",))
    assert distilled(method(told), tmp_path / "owned")["y"].tolist() == [0, 0, 2, 2]
    # Two classes share the 30 planned records: n̄_c = 15, q = 5/15.
    assert charges(tmp_path / "owned")[0][0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("dp", ["stat", "paper"])
def test_images_begin_as_noise_that_knows_no_record(dp: str, tmp_path: Path) -> None:
    others = pictures([0] * 9 + [2] * 20, name="others")
    first = distilled(method(dp=dp, steps=0), tmp_path / "a", OWN)["x"]
    other = distilled(method(dp=dp, steps=0), tmp_path / "b", others)["x"]
    assert torch.equal(first, other)


def test_a_charge_comes_before_a_record_is_touched(tmp_path: Path) -> None:
    class Guarded(Client):
        @property
        def examples(self) -> Examples:
            raise AssertionError("records were touched before the charge")

    small = PrivacySettings(epsilon=0.01, delta=1e-5, records=30)
    chosen = bound(method(small), image_net())
    assert isinstance(chosen, FedDM)
    budget = Budget(ChargeLog(tmp_path / "charges.jsonl"), Occasion("run", 1, 1, "FedDM.distil"), small, None, len(OWN))
    guarded = Guarded("a", 1, own=OWN, held_out=OWN.none(), memory=Memory({}), seed=0, budget=budget)
    with pytest.raises(BudgetSpent):
        chosen.distil(guarded, Message(model=chosen.net.initial()))


def test_noise_that_is_not_given_is_found_for_all_rounds(tmp_path: Path) -> None:
    budget = PrivacySettings(epsilon=3, delta=1e-5, records=30)
    distilled(method(budget, noise=None), tmp_path)  # bound for 10 rounds
    rate, noise, steps, _ = charges(tmp_path)[0]
    assert epsilon([Spending(rate, noise, steps * 10)], 1e-5) <= 3
    assert epsilon([Spending(rate, noise - 2e-4, steps * 10)], 1e-5) > 3


def test_with_augmentation_the_charge_is_the_same(tmp_path: Path) -> None:
    x = distilled(method(dsa=True), tmp_path / "with")["x"]
    assert x.isfinite().all()
    distilled(method(), tmp_path / "without")
    assert charges(tmp_path / "with") == charges(tmp_path / "without")


# ---- with dealt records


@pytest.mark.parametrize(
    ("public", "held", "sent"),
    [
        ((), [0, 1, 2], [0, 1, 2]),  # ten records of each class, as planned
        (("labels",), [1, 2], [0, 1, 2]),  # fifteen of two classes; of the other it has dealt ones alone
        (("labels",), [1], [0, 1]),
    ],
)
def test_dealt_records_lengthen_no_mean_and_cost_nothing(
    public: tuple[str, ...], held: list[int], sent: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Thirty own records, as planned, and 10, 5 and 0 dealt ones of the classes. Everybody is drawn (q = 1), nobody
    # is clipped and there is hardly any noise: then class means are means.
    found: list[torch.Tensor] = []
    plain = PrivateMeans.__call__

    def watched(self: PrivateMeans, drawn: Sequence[torch.Tensor], draws: Draws) -> torch.Tensor:
        found.append(plain(self, drawn, draws))
        return found[-1]

    monkeypatch.setattr(PrivateMeans, "__call__", watched)
    own, dealt = pictures(held * (30 // len(held))), pictures([0] * 10 + [1] * 5, name="dealt")
    # Hardly any way from w_r, so that the network is known.
    promise = PrivacySettings.model_validate({"delta": 1e-5, "records": 30, "public": public})
    chosen = method(promise, steps=1, rate=1.0, clip=1e3, noise=1e-9, radius=1e-9)
    bound(chosen, image_net())
    one = client(tmp_path / "with", promise, own)
    one.keep_dealt(Message(x=dealt.x, y=dealt.y.to(torch.uint8)))
    chosen.distil(one, Message(model=chosen.net.initial()))
    everybody = own.and_also(dealt)
    chosen.net.load(chosen.net.initial())
    v = embedding(chosen.net, everybody.x)
    wanted = torch.stack([v[everybody.y == c].mean(0) for c in sent])
    torch.testing.assert_close(found[0], wanted, rtol=0, atol=1e-5)
    distilled(chosen, tmp_path / "without", own)
    assert charges(tmp_path / "with") == charges(tmp_path / "without")


# ---- whole runs


def sites() -> Federation:
    made = {name: (OWN.x.numpy(), OWN.y.numpy()) for name in ("ash", "beech")}
    return Federation.from_arrays(made, test=made["ash"], classes=3)


def private_run(out: Path, privacy: Mapping[str, Any] | None, **words: Any) -> RunResult:
    quick = {"name": "feddm", "rounds": 2, "ipc": 2, "steps": 3, "real_batch": 5, "server": {"epochs": 3}}
    given = {"model": {"name": "mlp", "hidden": [4]}, "method": {**quick, **words}, "engine": {"name": "inline"}}
    return play(resolve({**given, "privacy": privacy}, {}, Live(data=sites())), out)


def test_a_run_prints_what_its_steps_spend(tmp_path: Path) -> None:
    result = private_run(tmp_path / "run", {"delta": 1e-5, "records": 30}, dp="stat", noise=3.0)
    wanted = [epsilon([Spending(0.5, 3.0, 3 * rounds)], 1e-5) for rounds in (0, 1, 2)]
    assert [line["epsilon"] for line in result.metrics] == pytest.approx(wanted)


def test_the_published_clipping_reports_no_epsilon(tmp_path: Path) -> None:
    result = private_run(tmp_path / "run", {"delta": 1e-5, "records": 30}, dp="paper", noise=3.0)
    assert result.summary["epsilon"] is None
    ledger = json.loads((tmp_path / "run/ledger.json").read_text())
    assert ledger["charges"] == {}
    assert {line["part"]: line["covered"] for line in ledger["clients"]["ash"]} == {"x": 0, "y": 0}
    assert not np.isnan(result.summary["accuracy"])


def test_the_published_clipping_runs_without_any_promise(tmp_path: Path) -> None:
    assert private_run(tmp_path / "run", None, dp="paper", noise=3.0).summary["finished"]


def test_the_published_noise_is_a_share_of_the_clip_by_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # σ = 3, C = 5 where nothing else is said, |B| = 5: noise of 3·5/5 = 3 in all, that is 0.6 times the clip.
    seen: list[tuple[float, float]] = []

    def watched(shape: Sequence[int], *, clip: float, noise: float, **given: Any) -> torch.Tensor:
        seen.append((clip, noise))
        return gaussian(shape, clip=clip, noise=noise, **given)

    monkeypatch.setattr(mechanism, "gaussian", watched)
    distilled(method(None, dp="paper", noise=3.0, steps=2), tmp_path)
    assert [clip for clip, _ in seen] == [5.0, 5.0]
    assert [noise for _, noise in seen] == pytest.approx([0.6, 0.6])


def test_what_the_paper_claims_is_declared_for_its_own_variant_alone() -> None:
    # 12 records of one class and 11 of another, |B| = 5: q is that of the smaller class.
    chosen = method(None, dp="paper", noise=3.0, steps=7)
    bound(chosen, image_net())
    claim = chosen.published_claim(OWN)
    assert claim is not None
    assert (claim.task, claim.spending, claim.clip) == ("FedDM.distil", Spending(5 / 11, 3.0, 7), 5.0)
    assert chosen.published_claim(OWN.none()) is None
    for other in (method(), method(None, dp="none")):
        bound(other, image_net())
        assert other.published_claim(OWN) is None


def test_the_published_variant_draws_batches_from_a_secret_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With secret streams that repeat, 11 and 12 equal records give the same images: networks follow no count.
    monkeypatch.setattr(Budget, "secret_stream", lambda _, __, *words: generator("repeats", *words))
    alike = OWN.take([0] * 12)
    made = [
        distilled(method(None, dp="paper", noise=3.0), tmp_path, alike.take(list(range(count))))["x"]
        for count in (11, 12)
    ]
    assert torch.equal(*made)


# ---- refusals


@pytest.mark.parametrize(
    ("privacy", "words", "sentence"),
    [
        (PRIVACY, {"init": "real"}, "write init: noise"),
        (PRIVACY, {"init": "real", "dp": "paper"}, "write init: noise"),
        (PRIVACY, {"min_class_records": 3}, "write null under method.dp"),
        (None, {}, "write `privacy"),
        (PRIVACY, {"weights": "size"}, "write pool under dp: stat"),
        (PRIVACY, {"noise": None}, "give privacy.epsilon"),
        (PRIVACY, {"noise": None, "dp": "paper"}, "the paper tries 1, 3, 5"),
        (PRIVACY, {"stat_releases": 2, "rate": 0.5}, "leave the rate out"),
        (PrivacySettings(), {}, "privacy.records: write how many records"),
    ],
)
def test_what_cannot_be_private_is_refused_before_it_begins(
    privacy: PrivacySettings | None, words: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        method(privacy, **words).bind(image_net(), 1)


def test_batchnorm_is_refused() -> None:
    with pytest.raises(UserError, match="BatchNorm mixes records"):
        method().bind(batchnorm_net(), 1)
