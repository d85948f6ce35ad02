"""DP-FedAvg and DP-FedProx: what one private step is, what it costs, and what makes it refuse."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.learning.loop import Step
from understudy.methods.dp_fedavg import private
from understudy.models.network import Network
from understudy.models.registry import entry
from understudy.randomness import generator
from understudy.studies.run import Result, play


def softmax(features: int = 2, classes: int = 2) -> Network:
    problem = Problem((features,), classes)
    chosen = entry("softmax")
    return Network(lambda: chosen.build(problem, chosen.settings()), problem)


def test_a_private_step_clips_each_record_and_divides_by_the_expected_batch() -> None:
    # Two classes at w = 0: p = (½, ½), so the gradient of a record x with label 0 is (−½x, ½x) and (−½, ½) for the
    # biases. x = (3, 0): norm √(2·9/4 + 2/4) = √5 → clipped to 1 by 1/√5. x = (0.2, 0): norm √(0.02 + 0.5) = 0.7211,
    # left as it is. Sum over the expected batch of 4.
    net = softmax()
    net.load(torch.zeros(net.size))
    x, y = torch.tensor([[3.0, 0.0], [0.2, 0.0]]), torch.tensor([0, 0])
    step = Step(net, x, y, 0, None, torch.arange(2))
    private(1.0, 1e-12, 4.0, generator("noise"))(net, step, [])
    f = 5**-0.5
    by_hand = {
        "weight": [-(1.5 * f + 0.1) / 4, 0.0, (1.5 * f + 0.1) / 4, 0.0],
        "bias": [-(0.5 * f + 0.5) / 4, (0.5 * f + 0.5) / 4],
    }
    for name, (where, _) in net.windows.items():
        assert net.grad[where].tolist() == pytest.approx(by_hand[name.rpartition(".")[2]], abs=1e-6)


def test_an_empty_batch_is_noise_of_the_stated_width() -> None:
    net = softmax(50, 20)
    step = Step(net, torch.zeros(0, 50), torch.zeros(0, dtype=torch.int64), 0, None, torch.arange(0))
    private(0.5, 2.0, 10.0, generator("noise"))(net, step, [])
    assert float(net.grad.std()) == pytest.approx(2.0 * 0.5 / 10, rel=0.1)  # σC/(q n̄), over 1020 numbers


def sites(records: int = 12) -> Federation:
    rng = np.random.default_rng(1)
    made: dict[str, tuple[Any, Any]] = {}
    for name in ("ash", "beech"):
        y = np.arange(records) % 2
        made[name] = (rng.normal(size=(records, 3)).astype(np.float32) + 2 * y[:, None].astype(np.float32), y)
    return Federation.from_arrays(made, test=made["ash"])


def dp_run(
    out: Path, model: nn.Module | None = None, *, privacy: dict[str, Any] | None = None, **method: Any
) -> Result:
    words = {
        "model": {"name": "softmax"},
        "method": {"name": "dp-fedavg", "rounds": 1, **method},
        "privacy": privacy,
        "engine": {"name": "inline"},
    }
    return play(resolve(words, {}, Live(data=sites(), model=model)), out)


PLANNED = {"delta": 1e-5, "records": 10_000}


def test_a_round_of_five_epochs_costs_what_methods_say(tmp_path: Path) -> None:
    # q = 256/10000, so an epoch is ⌊39.06⌋ = 39 steps; 195 steps at σ = 1: ε = 2.761.
    result = dp_run(tmp_path / "run", privacy=PLANNED)
    assert result.summary["epsilon"] == pytest.approx(2.761, abs=1e-3)


def test_noise_is_solved_from_the_budget_and_never_overruns_it(tmp_path: Path) -> None:
    privacy = {**PLANNED, "epsilon": 1.5}
    result = dp_run(
        tmp_path / "run", privacy=privacy, noise=None, rounds=3, local={"steps": 20, "batch": 256, "lr": 0.1}
    )
    assert result.metrics[-1]["failed"] == 0
    assert 1.45 < result.summary["epsilon"] <= 1.5


def weights_after(out: Path, **method: Any) -> Tensor:
    local = {"steps": 4, "batch": 6, "lr": 0.5, "schedule": "constant"}
    privacy = {"delta": 1e-5, "records": 12, "test_noise": True}
    result = dp_run(out, privacy=privacy, **{"rounds": 2, "noise": 0.5, "clip": 1.0, "local": local, **method})
    return torch.cat([value.reshape(-1) for value in result.weights.values()])


def test_mu_changes_the_trajectory_and_nought_is_dp_fedavg(tmp_path: Path) -> None:
    plain = weights_after(tmp_path / "plain")
    same = weights_after(tmp_path / "same", name="dp-fedprox", mu=0.0)
    pulled = weights_after(tmp_path / "pulled", name="dp-fedprox", mu=0.5)
    assert torch.equal(plain, same)
    assert float((plain - pulled).norm()) > 1e-3


@pytest.mark.parametrize(
    ("privacy", "method", "sentence"),
    [
        (None, {}, "need a promise to keep: say `privacy"),
        ({"delta": 1e-5}, {}, r"privacy\.records: say how many records"),
        ({"delta": 1e-5, "records": 12}, {"noise": None}, r"solved from a budget: give privacy\.epsilon"),
    ],
)
def test_what_is_refused(privacy: dict[str, Any] | None, method: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        dp_run(tmp_path / "run", privacy=privacy, **method)


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(3), nn.Linear(3, 2)

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(x)
        return found


def test_batchnorm_is_refused_under_privacy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="running statistics of records, which no noise covers"):
        dp_run(tmp_path / "run", Normed(), privacy=PLANNED)


def test_an_add_on_with_a_loss_of_its_own_is_refused(tmp_path: Path) -> None:
    words = {
        "model": {"name": "softmax"},
        "method": {"name": "dp-fedavg"},
        "with": [{"name": "fedcog", "kd_weighting": "fixed"}],
        "privacy": PLANNED,
    }
    with pytest.raises(UserError, match="Consensus adds a loss, whose gradient would not be private"):
        play(resolve(words, {}, Live(data=sites())), tmp_path / "run")


def test_dropout_is_refused_because_its_coins_are_drawn_for_a_whole_batch() -> None:
    problem = Problem((4,), 2)

    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, 2)

        def features(self, x: Tensor) -> Tensor:
            found: Tensor = self.drop(x)
            return found

    net = Network(Dropping, problem)
    net.module.train()
    step = Step(net, torch.ones(3, 4), torch.tensor([0, 1, 0]), 0, None, torch.arange(3))
    with pytest.raises(UserError, match="dropout is drawn for a whole batch"):
        private(1.0, 1.0, 3.0, generator("noise"))(net, step, [])


def test_augmentation_draws_from_secret_coins_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    images = (rng.integers(0, 255, (10, 1, 8, 8)).astype(np.uint8), np.arange(10) % 2)
    drawn: list[str] = []

    class Watching(Client):
        def rng(self, purpose: str) -> torch.Generator:
            drawn.append(purpose)
            return super().rng(purpose)

    words = {
        "model": {"name": "softmax"},
        "method": {"name": "dp-fedavg", "rounds": 1, "local": {"steps": 2, "batch": 5, "augment": ["flip"]}},
        "privacy": {"delta": 1e-5, "records": 10},
        "engine": {"name": "inline"},
    }
    with patch("understudy.federation.site.Client", Watching):
        play(resolve(words, {}, Live(data=Federation.from_arrays({"a": images}, test=images))), tmp_path / "run")
    assert drawn == [], "what is drawn from the run's seed is known to the server"
