"""Fedssyn with a private generator: what is planned and charged, what is refused, and one budget for everything."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from painted import LOCAL, Painted, add, painted
from stage import image_net
from torch import Tensor

from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.methods.dp_fedavg import DpSettings, dp_fedavg
from understudy.methods.fedssyn import privacy as fedssyn_privacy
from understudy.methods.fedssyn.fedssyn import Fedssyn
from understudy.methods.fedssyn.privacy import PrivateExchange
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import Charge, composed
from understudy.privacy.promise import PrivacySettings
from understudy.runs.play import play
from understudy.runs.rounds import RunResult


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    with painted():
        yield


def exchange(dp: Mapping[str, Any], privacy: Mapping[str, Any], **given: Any) -> PrivateExchange:
    words = {"generator": "painted", "dp": {"scope": "exchange", **dp}, **given}
    settings = FedssynSettings.model_validate(words)
    assert settings.dp is not None
    return PrivateExchange(settings, settings.dp, PrivacySettings.model_validate({"delta": 1e-5, **privacy}))


def joined(inner: Method | None = None, privacy: Mapping[str, Any] | None = None, **given: Any) -> Fedssyn:
    method = add(inner, **given)
    method.privacy = None if privacy is None else PrivacySettings.model_validate({"delta": 1e-5, **privacy})
    method.bind(image_net(), 2)
    return method


# ---- what is planned


def test_rate_and_steps_come_from_planned_records() -> None:
    # ρ n̄ = 0.75 · 100 = 75 records are expected to be seen; batches of 15: q = 0.2, 5 steps an epoch, 3 epochs.
    plan = exchange({"noise": 2.0}, {"records": 100}, generator={"name": "painted", "batch": 15, "epochs": 3})
    assert plan.steps(own=7) == plan.steps(own=900) == Spending(0.2, 2.0, 15)


def test_the_published_noise_is_right_for_one_batch_size_only() -> None:
    # 500 epochs at (10, 1e-5): 1.906 belongs to q = 1/45 (75 of 3375 = 0.75 · 4500), about 3.35 to 256 of 3375 with
    # 13.18 steps an epoch; here it has 13, and noise goes with the root of the steps: 3.35 · √(13/13.18) = 3.327.
    def noise(batch: int) -> float:
        words = {"name": "painted", "batch": batch, "epochs": 500}
        return exchange({"epsilon": 10}, {"records": 4500}, generator=words).steps(0).noise

    assert noise(75) == pytest.approx(1.906, abs=2e-3)
    assert noise(256) == pytest.approx(3.327, abs=5e-3)


def test_noised_counts_are_part_of_what_images_may_spend() -> None:
    plain, counted = (exchange({"epsilon": 3, "labels": how}, {"records": 40}) for how in ("uniform", "noised"))
    assert counted.steps(0).noise > plain.steps(0).noise
    assert counted.spendings(0)[0] == Spending(1.0, 10.0, 1)
    for plan in (plain, counted):
        assert 2.9 < epsilon(plan.spendings(0), 1e-5) <= 3


def test_the_method_underneath_gets_what_is_left() -> None:
    inner = dp_fedavg(DpSettings(local=LOCAL, noise=None))
    method = joined(inner, {"epsilon": 5, "records": 40}, dp={"scope": "all", "epsilon": 2})
    assert method.exchange is not None
    assert method.private
    # 4 of 40 records a step, two epochs of 10 steps, two rounds: 40 steps at q = 0.1.
    plan = inner.noise_plan(40)  # type: ignore[attr-defined]
    assert (plan.rate, plan.steps) == (0.1, 20)
    before = method.exchange.spendings(40)
    total = [epsilon([*before, Spending(0.1, noise, 40)], 1e-5) for noise in (plan.noise, plan.noise - 1e-3)]
    assert total[0] <= 5 < total[1]
    alone = dp_fedavg(DpSettings(local=LOCAL, noise=None))
    alone.privacy = inner.privacy
    alone.bind(image_net(), 2)
    assert alone.noise_plan(40).noise < plan.noise  # type: ignore[attr-defined]


# ---- what is refused before anything runs

PROMISE = {"epsilon": 5, "records": 40}
REFUSED: list[tuple[dict[str, Any], dict[str, Any] | None, str]] = [
    ({"dp": {"scope": "exchange"}}, None, "needs a promise; write"),
    ({"dp": {"scope": "all", "epsilon": 1}}, PROMISE, "what Averaging.train sends.* such as dp-fedavg"),
    ({"dp": {"scope": "exchange"}}, {"records": 40}, "set how much the generator may spend, or its noise"),
    ({"dp": {"scope": "exchange", "epsilon": 6}}, PROMISE, "above privacy.epsilon"),
    ({"dp": {"scope": "exchange", "noise": 0.3}}, PROMISE, "the generator alone would cost"),
    ({"dp": {"scope": "exchange"}}, {"epsilon": 5}, "privacy.records"),
]


@pytest.mark.parametrize(("given", "privacy", "why"), REFUSED)
def test_a_promise_that_cannot_be_kept_is_refused(
    given: dict[str, Any], privacy: dict[str, Any] | None, why: str
) -> None:
    with pytest.raises(UserError, match=why):
        joined(None, privacy, **given)


def test_training_spends_too_so_the_generator_is_told_its_part() -> None:
    inner = dp_fedavg(DpSettings(local=LOCAL, noise=None))
    with pytest.raises(UserError, match=r"training draws on privacy\.epsilon as well"):
        joined(inner, PROMISE, dp={"scope": "all"})


def test_own_images_without_noise_would_pass_by_a_private_method() -> None:
    inner = dp_fedavg(DpSettings(local=LOCAL, noise=None))
    with pytest.raises(UserError, match="past the noise of the underlying method"):
        joined(inner, PROMISE, deal="own")


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ({"veto": "drop"}, "with records without noise"),
        ({"veto": "flag"}, "with records without noise"),
        ({"source": "real"}, "real records cannot be private"),
        ({"from_run": "earlier"}, "not in this run's ledger"),
        ({"dp": {"scope": "exchange", "epsilon": 1, "noise": 1}}, "not both"),
        ({"dp": {"epsilon": 1}}, "'with.fedssyn.dp.scope' must be given: one of exchange, all"),
    ],
)
def test_settings_that_contradict_each_other_are_named(beside: dict[str, Any], why: str) -> None:
    words = {"name": "fedssyn", "generator": "painted", "dp": {"scope": "exchange", "epsilon": 1}, **beside}
    with pytest.raises(UserError, match=why):
        resolve({"with": [words]})


# ---- whole runs


def sites() -> Federation:
    """Forty pictures, one, and none."""
    rng = np.random.default_rng(3)
    labels = {"ash": np.arange(40) % 2, "beech": np.array([2]), "elm": np.array([], dtype=np.int64)}
    made = {name: (rng.integers(0, 256, (len(y), 1, 8, 8)).astype(np.uint8), y) for name, y in labels.items()}
    return Federation.from_arrays(made, test=made["ash"], classes=3)


def run(out: Path, fedssyn: Mapping[str, Any], privacy: Mapping[str, Any], **method: Any) -> RunResult:
    said = {"name": "fedavg", "rounds": 1, "local": {"steps": 2, "batch": 4}, **method}
    words = {
        "model": {"name": "mlp", "hidden": [8]},
        "method": {key: value for key, value in said.items() if key != "local" or value is not None},
        "with": [{"name": "fedssyn", "generator": "painted", **fedssyn}],
        "privacy": {"delta": 1e-5, **privacy},
        "engine": {"name": "inline"},
    }
    return play(resolve(words, {}, Live(data=sites())), out)


def ledger(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "ledger.json").read_text())
    return found


def charges(out: Path, client: str) -> list[Charge]:
    return [Charge.of(one) for one in ledger(out)["charges"][client]]


def test_one_record_more_or_less_changes_nothing_but_the_mechanism(tmp_path: Path) -> None:
    result = run(tmp_path / "run", {"dp": {"scope": "exchange"}}, {"epsilon": 4, "records": 30})
    assert result.metrics[0]["failed"] == 0
    assert "remarks" not in result.metrics[0]  # that somebody has few records is a secret
    # Planned for 30 records: everybody makes 30 images, ten of each class, whatever it holds.
    saved = {name: np.load(tmp_path / "run/synthetic" / f"{name}.npz")["y"] for name in ("ash", "beech", "elm")}
    assert all(Counter(y.tolist()) == {0: 10, 1: 10, 2: 10} for y in saved.values())
    # ρ n̄ = 22.5, batches of 4: q = 0.1778, round(5.625) = 6 steps.
    _, *seen = Painted.seen  # first comes the rehearsal, on nobody
    for private in Painted.steps[1:]:
        assert private is not None
        assert private.steps == 6
        assert [private.rate, private.expected] == pytest.approx([4 / 22.5, 4])
    assert len(seen) == 3
    assert 12 < len(seen[0]) < 40  # 40 coins of 0.75 each: 30, give or take 2.7


def test_the_exchange_is_covered_and_what_training_sends_is_not(tmp_path: Path) -> None:
    result = run(tmp_path / "run", {"dp": {"scope": "exchange"}}, {"epsilon": 4, "records": 30})
    parts = {line["part"]: line for line in ledger(tmp_path / "run")["clients"]["ash"]}
    assert {part for part, line in parts.items() if line["covered"]} == {"x", "y"}
    assert {"change", "weight"} <= {part for part, line in parts.items() if not line["covered"]}
    assert result.metrics[0]["epsilon"] is not None  # as long as only images have left
    assert result.metrics[0]["epsilon"] <= 4
    assert result.summary["epsilon"] is None
    (charge,) = charges(tmp_path / "run", "ash")
    assert (charge.clip, charge.steps, charge.covers) == (1.0, 6, ("x", "y"))
    assert charge.divisor == pytest.approx(4)


@pytest.mark.parametrize("test_noise", [False, True])
def test_the_coins_of_an_exchange_are_secret_whatever_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test_noise: bool
) -> None:
    counting: list[Tensor] = []

    def noised(counts: Tensor, *, rng: torch.Generator, **_: float) -> Tensor:
        counting.append(torch.rand(9, generator=rng))
        return counts

    monkeypatch.setattr(fedssyn_privacy, "with_noise", noised)

    def drawn(out: Path) -> list[Tensor]:
        """Which of ash's forty records the generator saw, and what the four streams of its exchange draw next."""
        for kept in (Painted.seen, Painted.steps, counting):
            kept.clear()
        words = {"dp": {"scope": "exchange", "labels": "noised"}, "records": 0.5}
        run(out, words, {"epsilon": 4, "records": 30, "test_noise": test_noise})
        private = Painted.steps[1]  # first comes the rehearsal
        assert private is not None
        streams = (private.sampling, private.noises, private.coins)
        return [Painted.seen[1].x, counting[0], *(torch.rand(9, generator=rng) for rng in streams)]

    for one, again in zip(drawn(tmp_path / "one"), drawn(tmp_path / "again"), strict=True):
        assert torch.equal(one, again) is test_noise


def test_noised_counts_have_a_charge_of_their_own(tmp_path: Path) -> None:
    dp = {"scope": "exchange", "labels": "noised", "label_noise": 2.0}
    result = run(tmp_path / "run", {"dp": dp, "images": 400}, {"epsilon": 4, "records": 30, "test_noise": True})
    counts, steps = charges(tmp_path / "run", "ash")
    assert (counts.mechanism, counts.rate, counts.noise, counts.steps, counts.covers) == ("Gaussian", 1, 2.0, 1, ("y",))
    assert steps.covers == ("x",)
    assert composed([counts, steps], 1e-5, "rdp") <= 4
    assert result.metrics[0]["epsilon"] is None  # noise that repeats protects nobody
    y = np.bincount(np.load(tmp_path / "run/synthetic/ash.npz")["y"], minlength=3)
    seen = Painted.seen[1].label_counts(3).numpy()  # about 15 of each of the classes 0 and 1, and none of class 2
    assert y.sum() == 400
    assert abs(y / 400 - seen / seen.sum()).max() < 0.25  # σ = 2 on 30 records
    assert (y / 400 != seen / seen.sum()).any()


def test_classes_that_are_no_secret_are_the_only_ones_made(tmp_path: Path) -> None:
    privacy = {"epsilon": 4, "records": 30, "public": ["labels"]}
    run(tmp_path / "run", {"dp": {"scope": "exchange"}}, privacy)
    assert set(np.load(tmp_path / "run/synthetic/ash.npz")["y"].tolist()) == {0, 1}
    assert set(np.load(tmp_path / "run/synthetic/beech.npz")["y"].tolist()) == {2}


def test_counts_that_are_no_secret_plan_for_each_client(tmp_path: Path) -> None:
    privacy = {"epsilon": 4, "public": ["counts"]}
    dp_all = {"name": "dp-fedavg", "noise": None}
    result = run(tmp_path / "run", {"dp": {"scope": "all", "epsilon": 2}}, privacy, **dp_all)
    assert result.metrics[0]["failed"] == 0
    # ash: batches of 4 of 30 expected; beech: 4 of 0.75 is everybody.
    assert [charges(tmp_path / "run", name)[0].rate for name in ("ash", "beech")] == [pytest.approx(4 / 30), 1.0]
    for name in ("ash", "beech"):
        assert 3.9 < composed(charges(tmp_path / "run", name), 1e-5, "rdp") <= 4


@pytest.mark.parametrize("test_noise", [True, False])
def test_generator_and_training_spend_one_budget(tmp_path: Path, test_noise: bool) -> None:
    vae = {"name": "vae", "conditional": True, "spread": "prior", "epochs": 2, "batch": 40, "width": 4, "hidden": 8}
    words = {
        "data": {"name": "digits", "clients": 3},
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": "dp-fedavg", "rounds": 2, "noise": None, "local": {"steps": 3, "batch": 40}},
        "with": [
            {
                "name": "fedssyn",
                "generator": vae,
                "images": 30,
                "dp": {"scope": "all", "epsilon": 3},
                "sound_only": False,
            }
        ],
        "privacy": {"epsilon": 6, "delta": 1e-5, "records": 400, "test_noise": test_noise},
        "engine": {"name": "inline"},
    }
    result = play(resolve(words), tmp_path / "run")
    assert [line["failed"] for line in result.metrics] == [0, 0, 0]
    spent = {name: charges(tmp_path / "run", name) for name in ledger(tmp_path / "run")["charges"]}
    assert len(spent) == 3
    for mine in spent.values():
        assert [charge.task for charge in mine] == ["Fedssyn.generate", "Averaging.train", "Averaging.train"]
        assert 2.9 < composed(mine[:1], 1e-5, "rdp") <= 3
        assert 5.9 < composed(mine, 1e-5, "rdp") <= 6
    found = ledger(tmp_path / "run")["epsilon"]
    assert found is None if test_noise else 5.9 < found <= 6


SURROGATE = {"stages": 2, "real_batches": 2, "image_steps": 1, "path_epochs": 1, "ipc": 2, "server_epochs": 1}
CONDENSING = {"ipc": 2, "outer": 2, "inner": 1, "iterations": 2, "real_batch": 8, "server": {"epochs": 1}}
PRIVATE_METHODS: dict[str, dict[str, Any]] = {
    "dp-fedprox": {"local": {"steps": 2, "batch": 4}},
    "fedlap-dp": {**SURROGATE, "restarts": 2, "batch": 8, "local": None},
    "feddm": {"dp": "stat", "ipc": 2, "steps": 3, "real_batch": 4, "server": {"epochs": 1}, "local": None},
    "psg": {**CONDENSING, "batches": 2, "local": None},
}


@pytest.mark.parametrize("name", PRIVATE_METHODS)
def test_every_private_method_solves_for_what_is_left(tmp_path: Path, name: str) -> None:
    result = run(
        tmp_path / "run",
        {"dp": {"scope": "all", "epsilon": 2}},
        {"epsilon": 4, "records": 30},
        **{"name": name, "noise": None, **PRIVATE_METHODS[name]},
    )
    assert [line["failed"] for line in result.metrics] == [0, 0]
    assert 3.9 < composed(charges(tmp_path / "run", "ash"), 1e-5, "rdp") <= 4
    assert result.summary["epsilon"] is not None
    assert 3.9 < result.summary["epsilon"] <= 4
