"""FedLAP-DP: what is charged, what is released, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fedlap_toys import QUICK, SITES, Paying, still  # noqa: F401
from stage import batchnorm_net, bound, image_net, pictures
from torch import Tensor

from understudy.api.run import run
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.learning.dsa import Draw
from understudy.learning.loop import full_gradient
from understudy.methods.fedlap import fedlap, fedlap_dp
from understudy.methods.fedlap.fedlap_dp import FedLapDp, FedLapDpSettings
from understudy.models.network import Network
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import BudgetSpent
from understudy.privacy.mechanism import NoisyMeans, poisson_rows
from understudy.privacy.planning import NoisePlan
from understudy.privacy.promise import PrivacySettings

PRIVACY = {"delta": 1e-5, "records": 20, "test_noise": True}


def method(net: Network | None = None, privacy: dict[str, Any] | None = None, **given: Any) -> FedLapDp:
    chosen = FedLapDp(FedLapDpSettings.model_validate({**QUICK, "restarts": 1, "stages": 2, **given}))
    chosen.privacy = PrivacySettings.model_validate(PRIVACY if privacy is None else privacy)
    bound(chosen, net or image_net(), rounds=3)
    return chosen


def reply_of(chosen: FedLapDp, own: Examples, logs: Path) -> Message:
    client = Paying(chosen, {"a": own}, logs).client("a", 1)
    return chosen.distil(client, Message(model=chosen.net.initial()))


# ---- what is charged


def test_the_published_numbers_are_the_defaults() -> None:
    chosen = FedLapDpSettings()
    counters = (chosen.restarts, chosen.stages, chosen.real_batches, chosen.image_steps, chosen.path_epochs)
    assert (*counters, chosen.server_epochs) == (4, 5, 10, 5, 2, 100)
    assert (chosen.radius, chosen.mse, chosen.ipc, chosen.lr, chosen.clip, chosen.noise) == (1.5, 0, 10, 0.002, 1, 1)
    assert (chosen.labels, chosen.init, chosen.radius_rule) == ("all", "noise", "constant")
    assert FedLapDpSettings(**fedlap_dp.PRESETS["paper"]) == chosen
    assert chosen.most_batches == 4 * 5 * 10


@pytest.mark.usefixtures("still")
def test_a_round_costs_200_releases_and_the_papers_epsilon(tmp_path: Path) -> None:
    # q = 256/10 000 = 0.0256, σ = 1, δ = 1e-5: ε 2.787 after one round and 10.183 after fifteen.
    own = pictures([0, 1, 2])
    data = Federation.from_arrays({"ash": (own.x.numpy(), own.y.numpy())}, test=(own.x.numpy(), own.y.numpy()))
    result = run(
        data=data,
        model={"name": "mlp", "hidden": [4]},
        method={"name": "fedlap-dp", "rounds": 15, "path_epochs": 0, "ipc": 1, "server_epochs": 1},
        privacy={"delta": 1e-5, "records": 10_000},
        engine={"name": "inline"},
        out=tmp_path / "run",
    )
    epsilons = {line["round"]: line["epsilon"] for line in result.metrics}
    assert epsilons[1] == pytest.approx(2.787, abs=1e-3)
    assert epsilons[15] == pytest.approx(10.183, abs=1e-3)
    charges = json.loads((tmp_path / "run/ledger.json").read_text())["charges"]["ash"]
    assert [(charge["steps"], charge["rate"], charge["noise"], charge["clip"]) for charge in charges] == [
        (200, 0.0256, 1.0, 1.0)
    ] * 15
    assert charges[0]["covers"] == ["x", "y"]


@pytest.mark.usefixtures("still")
def test_a_path_that_ends_early_is_charged_in_full(tmp_path: Path) -> None:
    chosen = method(radius=1e-9, path_epochs=1, lr=1.0, restarts=2)
    reply_of(chosen, SITES["a"], tmp_path)
    charge = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["charge"]
    assert charge["steps"] == 2 * 2 * 2


def test_noise_can_be_solved_from_the_budget_of_all_rounds() -> None:
    privacy = {**PRIVACY, "epsilon": 5.0, "records": 100}
    plan = method(noise=None, batch=10, privacy=privacy)._plan(11)
    spent = [Spending(plan.rate, plan.noise, 3 * plan.steps)]  # three rounds
    assert (plan.rate, plan.steps) == (0.1, 4)
    assert 4.98 < epsilon(spent, 1e-5) <= 5.0


def test_nothing_is_sampled_where_the_budget_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(*_: object) -> Tensor:
        raise AssertionError("a record was touched")

    monkeypatch.setattr(fedlap, "poisson_rows", touched)
    monkeypatch.setattr("understudy.privacy.planning._check_first_round", lambda *_: None)  # the charge log decides
    with pytest.raises(BudgetSpent):
        reply_of(method(privacy={**PRIVACY, "epsilon": 0.01}), SITES["a"], tmp_path)


# ---- what is released


def released(chosen: FedLapDp, own: Examples, plan: NoisePlan, logs: Path, releases: int = 1) -> Tensor:
    """(releases, parameters)"""
    client = Paying(chosen, {"a": own}, logs).client("a", 1)
    chosen.net.load(chosen.net.initial())
    gradient = chosen._private_gradient(client, replace(plan, steps=releases))
    found = [gradient(chosen.net.initial(), None) for _ in range(releases)]
    return torch.stack([each for each in found if each is not None])


@pytest.mark.parametrize("clip", [0.05, 1.0])
def test_one_record_moves_a_release_by_at_most_the_clip_over_the_planned_batch(clip: float, tmp_path: Path) -> None:
    # Without noise; rate 1, so that the new record is in: at most C/(q·n̄) = C/20 apart, and the divisor stays 20.
    chosen, plan = method(clip=clip), NoisePlan(records=20, rate=1.0, steps=4, noise=0.0)
    new = pictures([1], name="new")
    before, after = (released(chosen, own, plan, tmp_path)[0] for own in (SITES["a"], SITES["a"].and_also(new)))
    alone = released(chosen, new, plan, tmp_path)[0]
    assert float((after - before).norm()) <= clip / 20 * (1 + 1e-4)
    torch.testing.assert_close(after - before, alone, atol=1e-6, rtol=1e-3)


def test_dealt_records_count_in_the_divisor_and_nowhere_in_the_charge(tmp_path: Path) -> None:
    # 11 own records as planned and 7 dealt; all are drawn, none is clipped, hardly any noise: the mean gradient of 18.
    own, dealt = SITES["a"], SITES["b"]
    chosen = method(clip=1e3)
    client = Paying(chosen, {"a": own}, tmp_path / "dealt").client("a", 1)
    client.keep_dealt(Message(x=dealt.x, y=dealt.y.to(torch.uint8)))
    net = chosen.net
    net.load(net.initial())
    found = chosen._private_gradient(client, NoisePlan(records=11, rate=1.0, steps=4, noise=0.0))(net.initial(), None)
    assert found is not None
    torch.testing.assert_close(found, full_gradient(net, net.initial(), own.and_also(dealt), 100), rtol=1e-4, atol=1e-6)
    # Planned for 20 records in batches of 4: q = 0.2, and 0.2·(20 + 7) = 5.4 are expected where 7 are dealt.
    chosen.distil(client, Message(model=net.initial()))
    reply_of(method(clip=1e3), own, tmp_path / "alone")
    with_them, alone = (
        json.loads((tmp_path / name / "a.jsonl").read_text().splitlines()[0])["charge"] for name in ("dealt", "alone")
    )
    assert (with_them.pop("divisor"), alone.pop("divisor")) == (pytest.approx(5.4), pytest.approx(4))
    spent = ("rate", "noise", "steps", "clip")
    assert [with_them[key] for key in spent] == [alone[key] for key in spent]


def test_a_client_without_records_releases_noise_of_the_planned_size(tmp_path: Path) -> None:
    # σ·C/(q·n̄) = 2·0.5/(0.25·40) = 0.1; some 9000 draws, so within 5 % (six deviations).
    chosen, plan = method(clip=0.5), NoisePlan(records=40, rate=0.25, steps=4, noise=2.0)
    noise = released(chosen, SITES["a"].none(), plan, tmp_path, releases=80)
    assert noise.numel() > 9000
    assert noise.std().item() == pytest.approx(0.1, rel=0.05)
    reply = reply_of(method(), SITES["a"].none(), tmp_path / "logs")
    assert reply["y"].tolist() == [0, 0, 1, 1, 2, 2]
    assert torch.isfinite(reply["x"]).all()


def test_batches_are_poisson_draws_of_the_planned_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(net: Network, x: Tensor, _y: Tensor, _clip: float) -> Tensor:
        sizes.append(len(x))
        return torch.zeros_like(net.grad)

    monkeypatch.setattr(fedlap_dp, "clipped_gradient_sum", counted)
    released(method(), pictures([0] * 60), NoisePlan(60, 0.1, 4, 1.0), tmp_path, releases=300)
    # Binomial(60, 0.1): mean 6, deviation 2.3; of 300 the mean within 0.55 (four deviations).
    assert sum(sizes) / 300 == pytest.approx(6, abs=0.55)
    assert len(set(sizes)) > 6


def test_noise_moves_the_images_and_repeats_only_under_test_noise(tmp_path: Path) -> None:
    secret = {**PRIVACY, "test_noise": False}
    repeated = [reply_of(method(), SITES["a"], tmp_path / f"r{i}")["x"] for i in (1, 2)]
    hidden = [reply_of(method(privacy=secret), SITES["a"], tmp_path / f"h{i}")["x"] for i in (1, 2)]
    assert torch.equal(*repeated)
    assert not torch.equal(*hidden)
    assert not torch.equal(repeated[0], hidden[0])


def test_seeding_the_augmentation_moves_neither_noise_nor_sampling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[int, list[list[Any]]] = {1: [], 2: []}
    which = 1

    def rows(*given: Any) -> Tensor:
        found = poisson_rows(*given)
        drawn[which].append(found.tolist())
        return found

    def noise(self: NoisyMeans, total: Tensor) -> Tensor:
        drawn[which].append(noised(self, torch.zeros_like(total)).tolist())
        return total

    monkeypatch.setattr(fedlap, "poisson_rows", rows)
    noised = NoisyMeans.__call__
    monkeypatch.setattr(NoisyMeans, "__call__", noise)
    plain = Client.rng

    def seeded(self: Client, purpose: str) -> torch.Generator:
        rng = plain(self, purpose)
        return rng.manual_seed(which) if purpose == "dsa" else rng

    monkeypatch.setattr(Client, "rng", seeded)
    for which in (1, 2):
        reply_of(method(), SITES["a"], tmp_path / str(which))
    assert len(drawn[1]) == 2 * 4  # rows and noise of four releases
    assert drawn[1] == drawn[2]
    assert len({tuple(part) for part in drawn[1][1::2]}) == 4, "noise was repeated"


def test_one_augmentation_is_applied_before_gradients_of_records_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []

    def kept(net: Network, x: Tensor, _y: Tensor, _clip: float) -> Tensor:
        seen.append(x)
        return torch.zeros_like(net.grad)

    monkeypatch.setattr(fedlap_dp, "clipped_gradient_sum", kept)
    chosen, own = method(), SITES["a"]
    gradient = chosen._private_gradient(Paying(chosen, {"a": own}, tmp_path).client("a", 1), NoisePlan(11, 1.0, 1, 1.0))
    upside = Draw("flip", torch.zeros(1, 3))  # below ½: flipped
    gradient(chosen.net.initial(), upside)
    assert torch.equal(seen[0], chosen.net.problem.scale(own.x).flip(3))


# ---- what is kept and sent


def test_a_message_is_all_classes_and_no_radius(tmp_path: Path) -> None:
    reply = reply_of(method(), SITES["b"], tmp_path)  # it holds class 1 only
    assert set(reply) == {"x", "y"}
    assert reply["y"].tolist() == [0, 0, 1, 1, 2, 2]
    sizes = {part: tensor.numel() * tensor.element_size() for part, tensor in reply.items()}
    assert sizes == {"x": 6 * 16 * 4, "y": 6}


def test_declared_facts_may_be_told(tmp_path: Path) -> None:
    privacy = {**PRIVACY, "public": ["labels", "counts"]}
    reply = reply_of(method(privacy=privacy, labels="owned", weights="size"), SITES["b"], tmp_path)
    assert reply["y"].tolist() == [1, 1]
    assert reply["records"].item() == 7
    charge = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["charge"]
    assert charge["covers"] == ["x", "y", "records"]
    assert charge["public"] == ["labels", "counts"]


def test_where_counts_are_public_each_client_has_its_own_rate() -> None:
    chosen = method(privacy={"delta": 1e-5, "public": ["counts"], "test_noise": True})
    assert (chosen._plan(11).rate, chosen._plan(7).rate) == (4 / 11, 4 / 7)


@pytest.mark.usefixtures("still")
def test_images_start_as_noise_and_are_kept_from_round_to_round(tmp_path: Path) -> None:
    chosen = method(ipc=40)
    stage = Paying(chosen, {"a": SITES["a"]}, tmp_path)
    stage.play(2)
    first, second = (reply["x"] for _, _, reply in stage.replies)
    assert abs(first.mean().item()) < 0.1  # 3·40·16 = 1920 draws of N(0, 1)
    assert first.std().item() == pytest.approx(1, abs=0.07)
    assert torch.equal(first, second)  # nothing moved them here
    assert set(stage.memories["a"]) == {"fedlap.x", "fedlap.y"}


# ---- what is refused


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"init": "real"}, r"method\.init: real images would be sent as they are"),
        ({"radius_rule": "min"}, r"method\.radius_rule: 'min' needs each client's r_k"),
        ({"labels": "owned"}, r"method\.labels: 'owned' reveals which classes"),
        ({"labels": "owned", "privacy": {**PRIVACY, "public": ["counts"]}}, r"method\.labels: 'owned' reveals"),
        ({"weights": "size", "privacy": {**PRIVACY, "public": ["labels"]}}, r"method\.weights: 'size' reveals"),
        ({"weights": "size"}, r"method\.weights: 'size' reveals how many records"),
        ({"noise": None}, r"give privacy\.epsilon"),
        ({"privacy": {"delta": 1e-5}}, r"privacy\.records: write how many records"),
        ({"noise": None, "privacy": {**PRIVACY, "epsilon": 1e-9}}, "out of reach"),
    ],
)
def test_what_would_leak_is_refused_before_anything_is_asked(
    given: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        reply_of(method(**given), SITES["a"], tmp_path)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"privacy": {"delta": 1e-5}}, r"privacy\.records: write how many records"),
        ({"noise": None, "privacy": {"delta": 1e-5, "public": ["counts"]}}, r"give privacy\.epsilon"),
    ],
)
def test_a_promise_that_nothing_can_be_planned_from_is_refused_before_the_opening(
    given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        method(**given)


def test_batchnorm_is_refused() -> None:
    with pytest.raises(UserError, match="BatchNorm mixes the records of a batch"):
        method(batchnorm_net(), dsa=False)


def test_without_a_promise_there_is_nothing_to_do() -> None:
    chosen = FedLapDp(FedLapDpSettings())
    with pytest.raises(UserError, match="fedlap-dp needs a privacy promise; write `privacy"):
        chosen.bind(image_net(), 1)


def test_a_delta_that_promises_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"delta is 0\.1, which promises nothing for 20 records"):
        method(privacy={**PRIVACY, "delta": 0.1})
