"""DP-FedAvg and DP-FedProx: what one private step is, what it costs, and what makes it refuse."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
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
from understudy.federation.message import Kind, Message
from understudy.federation.method import State
from understudy.learning.local import Local
from understudy.learning.loop import Batch, Step, Trained, full_gradient
from understudy.methods.dp_fedavg import DpSettings, PrivateAveraging, private
from understudy.methods.fedcog import Consensus, FedCogSettings
from understudy.methods.feddecorr import Decorrelation
from understudy.methods.feddyn import ScaledDual
from understudy.methods.fedgen import FedGenSettings, Imagined
from understudy.methods.fedprox import Proximal
from understudy.methods.moon import Contrast, MoonSettings
from understudy.methods.scaffold import ControlVariate
from understudy.methods.shared.term_checks import Active
from understudy.methods.shared.terms_and_rules import Kit, Parts, Shapes, Term
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.privacy.mechanism import NoisyMeans
from understudy.randomness import generator, private_global_stream
from understudy.runs.folder import RunFolder
from understudy.runs.play import play
from understudy.runs.rounds import RunResult
from understudy.runs.watching import RunStopped


def softmax(features: int = 2, classes: int = 2) -> Network:
    problem = Problem((features,), classes)
    chosen = entry("softmax")
    return Network(lambda: chosen.build(problem, chosen.settings()), problem)


def means(net: Network, clip: float, noise: float, expected: float) -> NoisyMeans:
    return NoisyMeans(net.grad, clip=clip, noise=noise, expected=expected, releases=2, rng=generator("noise"))


def test_a_private_step_clips_each_record_and_divides_by_the_expected_batch() -> None:
    # Two classes at w = 0: p = (½, ½), so the gradient of a record x with label 0 is (−½x, ½x) and (−½, ½) for the
    # biases. x = (3, 0): norm √(2·9/4 + 2/4) = √5 → clipped to 1 by 1/√5. x = (0.2, 0): norm √(0.02 + 0.5) = 0.7211,
    # left as it is. Sum over the expected batch of 4.
    net = softmax()
    net.load(torch.zeros(net.size))
    x, y = torch.tensor([[3.0, 0.0], [0.2, 0.0]]), torch.tensor([0, 0])
    step = Step(net, x, y, 0, None, torch.arange(2))
    private(means(net, 1.0, 1e-12, 4.0))(net, step, [])
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
    private(means(net, 0.5, 2.0, 10.0))(net, step, [])
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
) -> RunResult:
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
        (None, {}, "need a privacy promise; write `privacy"),
        ({"delta": 1e-5}, {}, r"privacy\.records: write how many records"),
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
    with pytest.raises(UserError, match="running statistics of records, which noise does not cover"):
        dp_run(tmp_path / "run", Normed(), privacy=PLANNED)


def test_an_add_on_with_a_loss_of_its_own_is_refused(tmp_path: Path) -> None:
    words = {
        "model": {"name": "softmax"},
        "method": {"name": "dp-fedavg"},
        "with": [{"name": "fedcog", "kd_weighting": "fixed"}],
        "privacy": PLANNED,
    }
    with pytest.raises(UserError, match="the loss that fedcog adds is not one number per record"):
        play(resolve(words, {}, Live(data=sites())), tmp_path / "run")


# ---- terms under privacy


def with_terms(*terms: Term) -> PrivateAveraging:
    local = Local(steps=4, batch=6, lr=0.5, schedule="constant")
    return PrivateAveraging(DpSettings(local=local, clip=1.0, noise=0.5), terms=terms)


def run_with(out: Path, *terms: Term, rounds: int = 2) -> RunResult:
    privacy = {"delta": 1e-5, "records": 12, "test_noise": True}
    words = {
        "model": {"name": "mlp", "hidden": [4]},
        "method": {"rounds": rounds},
        "privacy": privacy,
        "engine": {"name": "inline"},
    }
    return play(resolve(words, {}, Live(data=sites(), method=with_terms(*terms))), out)


def all_weights(result: RunResult) -> Tensor:
    return torch.cat([value.reshape(-1) for value in result.weights.values()])


BATCHWISE, OUTSIDE = "is not one number per record", "looks at records outside the clipped gradient"


@pytest.mark.parametrize(
    ("term", "why"),
    [
        (Decorrelation(100.0), BATCHWISE),
        (Consensus(FedCogSettings(kd_weighting="fixed"), 6), BATCHWISE),
        (Imagined(FedGenSettings()), BATCHWISE),
        (ControlVariate("I", 6), OUTSIDE),
        (ScaledDual(0.1), OUTSIDE),
    ],
)
def test_what_no_clipping_bounds_is_refused_before_the_run(term: Term, why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"privacy: .*{type(term).__name__}.* {why}"):
        run_with(tmp_path / "run", term)


class Tilt(Term):
    """+ 3 · the first logit of each record."""

    per_record = True

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        return 3 * batch.logits[:, 0]


def test_a_loss_per_record_is_clipped_with_the_records_own_gradient() -> None:
    # One feature, two classes at w = 0, so p = (½, ½). x = 1, y = 0: data (−½, ½) on weights and on biases, the term
    # (3, 0) on both; together (2.5, 0.5) twice, norm √13. x = 0, y = 1: nothing on weights; biases (½, −½) + (3, 0),
    # norm √12.5. Clipped to 1 each, over the expected batch of 4.
    net = softmax(1)
    net.load(torch.zeros(net.size))
    step = Step(net, torch.tensor([[1.0], [0.0]]), torch.tensor([0, 1]), 0, None, torch.arange(2))
    private(means(net, 1.0, 1e-12, 4.0), with_losses=True)(net, step, [Active(Tilt(), {})])
    a, b = 13**-0.5, 12.5**-0.5
    by_hand = {
        "weight": [2.5 * a / 4, 0.5 * a / 4],
        "bias": [(2.5 * a + 3.5 * b) / 4, (0.5 * a - 0.5 * b) / 4],
    }
    for name, (where, _) in net.windows.items():
        assert net.grad[where].tolist() == pytest.approx(by_hand[name.rpartition(".")[2]], abs=1e-6)


class Gossip(Term):
    """Says that it is made record by record, and is not: it looks at everybody in its batch."""

    per_record = True

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        return batch.logits[:, 0] * batch.x.sum()


class Memoir(Term):
    """What it wrote down of one record has a part in the loss of the next."""

    per_record = True

    def __init__(self) -> None:
        self.seen = 0.0

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        kit["seen"].add_(batch.x.sum())
        self.seen += float(batch.x.sum())
        return batch.logits[:, 0] * (kit["seen"] - 3 + self.seen)


class Dice(Term):
    """Draws as often as there are records."""

    per_record = True

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        return batch.logits[:, 0] * 9 * torch.randn(len(batch.x))


@pytest.mark.parametrize("term", [Gossip, Memoir, Dice])
def test_no_record_has_a_part_in_the_loss_of_another(term: type[Term]) -> None:
    net = softmax(1)
    x, y = torch.tensor([[500.0], [1.0], [2.0]]), torch.tensor([0, 0, 1])
    found = []
    for first in (0, 1):  # with the first record, and without it
        net.load(torch.zeros(net.size))
        step = Step(net, x[first:], y[first:], 0, None, torch.arange(first, 3))
        with private_global_stream("term"):
            slope = private(means(net, 1.0, 0.0, 1.0), with_losses=True)
            slope(net, step, [Active(term(), {"seen": torch.zeros(())})])
        found.append(net.grad.clone())
    assert float((found[1] - found[0]).norm()) == pytest.approx(1.0, abs=1e-5)  # one record more: no more than the clip


class Hoarder(Term):
    """Writes records down where they lose their clip, and sends them up."""

    per_record = True
    up: ClassVar[Mapping[str, Kind]] = {"hoard": "statistics"}

    def __init__(self) -> None:
        self.seen = 0.0

    def shapes(self, net: Network) -> Shapes:
        return {"hoard": ()}

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        return {"seen": torch.zeros(())}

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        kit["seen"].add_(batch.x.abs().sum())
        self.seen += float(batch.x.abs().sum())
        return batch.logits[:, 0]

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        assert kit is not None
        return {"hoard": kit["seen"] + self.seen}

    def fold(self, state: State, sums: Message, clients: int) -> Parts:
        return {"hoard": sums["hoard"]}


def test_what_a_loss_writes_down_of_records_stays_in_it(tmp_path: Path) -> None:
    """Else it would leave under the cover of the noise that it went around."""
    run_with(tmp_path / "run", Hoarder())
    checkpoints = RunFolder(tmp_path / "run").checkpoints
    assert float(checkpoints.get(checkpoints.entries()[-1])[0]["hoard"]) == 0


def test_a_record_whose_loss_overflows_counts_for_nothing() -> None:
    net = softmax(1)
    net.load(torch.zeros(net.size))
    step = Step(net, torch.tensor([[1.0], [torch.inf]]), torch.tensor([0, 1]), 0, None, torch.arange(2))
    slope = private(means(net, 1.0, 0.0, 1.0), with_losses=True)
    slope(net, step, [Active(Tilt(), {})])
    both = net.grad.clone()
    slope(net, step.alone(0), [Active(Tilt(), {})])
    assert torch.equal(both, net.grad)


def test_a_term_with_a_loss_changes_what_a_private_run_learns(tmp_path: Path) -> None:
    plain = all_weights(run_with(tmp_path / "plain"))
    assert torch.equal(plain, all_weights(run_with(tmp_path / "pull", Proximal(0.0))))
    for term in (Tilt(), Contrast(MoonSettings(mu=5.0, projection=None), Local(steps=4, batch=6))):
        told = all_weights(run_with(tmp_path / type(term).__name__, term))
        assert float((told - plain).norm()) > 1e-3


class Peeking(Term):
    """Looks at records without saying so."""

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        return {"mean": client.examples.x.mean()}


def test_a_hook_that_looks_at_records_all_the_same_finds_none(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match="records were read outside the clipped gradient"):
        run_with(tmp_path / "run", Peeking(), rounds=3)


def test_what_a_term_makes_of_the_private_model_is_covered_too(tmp_path: Path) -> None:
    run_with(tmp_path / "run", ControlVariate("II", 6))
    lines = {line["part"]: line for line in RunFolder(tmp_path / "run").ledger()["clients"]["ash"]}
    assert {part: line["covered"] for part, line in lines.items()} == {"change": 2, "control": 2, "weight": 2}


def test_a_term_with_a_loss_has_to_say_of_what_it_is_made() -> None:
    with pytest.raises(UserError, match="The term Silent adds a loss: write `per_record = True` if"):
        type("Silent", (Term,), {"loss": lambda *_: None})


def test_the_sum_is_divided_by_planned_records_whoever_is_there(tmp_path: Path) -> None:
    # Every record is in (q = 20/20) and none is clipped. One step from w with rate 1: w − Σ g / 20, although the
    # client holds 12 records. The noise, 1e-3 · 10 / 20, is far below that.
    privacy = {"delta": 1e-5, "records": 20, "test_noise": True}
    local = {"steps": 1, "batch": 20, "lr": 1.0, "schedule": "constant"}
    result = dp_run(tmp_path / "run", privacy=privacy, noise=1e-3, clip=10.0, local=local)
    net = softmax(3)
    first = net.initial()
    moved = all_weights(result) - torch.cat([first[where] for where, _ in net.windows.values()])
    sums = [full_gradient(net, first, holding.own, 12) * 12 for holding in sites().sites.values()]
    expected = -torch.stack(sums).mean(0) / 20
    assert float((moved - expected).norm()) < 0.01
    assert float(expected.norm()) > 0.1


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
        private(means(net, 1.0, 1.0, 3.0))(net, step, [])


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
    with patch("understudy.federation.working.Client", Watching):
        play(resolve(words, {}, Live(data=Federation.from_arrays({"a": images}, test=images))), tmp_path / "run")
    assert drawn == [], "what is drawn from the run's seed is known to the server"
