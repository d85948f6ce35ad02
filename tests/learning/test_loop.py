"""The one training loop, beside torch's own optimiser on the same batches."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, Pull, Trained, full_gradient, train
from understudy.learning.plan import EMPTY, passes
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator


def build() -> nn.Module:
    return Classifier(nn.Sequential(nn.Linear(4, 6), nn.Tanh()), nn.Linear(6, 3))


def build_with_statistics() -> nn.Module:
    return Classifier(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), nn.Linear(6, 3))


PROBLEM = Problem(shape=(4,), classes=3)
EXAMPLES = Examples(torch.randn(10, 4, generator=generator("x")), torch.randint(3, (10,), generator=generator("y")))
PLAN = passes(10, 7, 4, generator("plan"))  # the third row of each pass is half empty


def trained(net: Network, local: Local, plan: Tensor = PLAN, weights: Tensor | None = None, **more: Any) -> Trained:
    return train(net, net.initial(), Feed(EXAMPLES, plan, weights=weights), Descent(local, **more))


def by_torch(local: Local) -> Tensor:
    """The same with torch.optim.SGD, from the same weights along the same rows."""
    net = Network(build, PROBLEM)
    module = build()
    module.load_state_dict(net.named(net.initial()))
    optimiser = torch.optim.SGD(
        module.parameters(), lr=local.lr, momentum=local.momentum, weight_decay=local.weight_decay
    )
    for row in PLAN.tolist():
        at = [i for i in row if i != EMPTY]
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(EXAMPLES.x[at]), EXAMPLES.y[at]).backward()  # type: ignore[no-untyped-call]
        if local.clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), local.clip)
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.parametrize(
    "local",
    [
        Local(lr=0.1),
        Local(lr=0.1, momentum=0.9),
        Local(lr=0.1, weight_decay=0.1),
        Local(lr=0.1, clip=0.2),
        Local(lr=0.1, clip=100.0),
        Local(lr=0.1, momentum=0.9, weight_decay=0.1, clip=0.2),
    ],
)
def test_it_is_the_sgd_of_torch(local: Local) -> None:
    found = trained(Network(build, PROBLEM), local)
    assert torch.allclose(found.model, by_torch(local), atol=1e-5)


def test_what_it_tells_about_the_training() -> None:
    net = Network(build, PROBLEM)
    found = trained(net, Local(lr=0.1))
    assert (found.steps, found.records) == (7, 10)
    assert found.rate_sum == pytest.approx(0.7)
    assert torch.equal(found.start, net.initial())


def test_an_empty_plan_leaves_the_model_as_it_is() -> None:
    net = Network(build, PROBLEM)
    found = trained(net, Local(lr=0.1), torch.empty(0, 4, dtype=torch.int64))
    assert torch.equal(found.model, net.initial())
    assert (found.steps, found.rate_sum) == (0, 0)


def test_training_twice_gives_the_same_bits() -> None:
    net = Network(build, PROBLEM)
    local = Local(lr=0.1, momentum=0.9)
    assert torch.equal(trained(net, local).model, trained(net, local).model)  # momentum begins anew


@dataclass(frozen=True)
class Steady(Pull):
    """Pulls with a constant gradient, adds a constant to the loss, or halves the data."""

    pull: float = 0.0
    share: float = 1.0

    def data_weight(self) -> float:
        return self.share

    def gradient(self, w: Tensor) -> Tensor | None:
        return torch.full_like(w, self.pull) if self.pull else None


def test_a_gradient_in_closed_form_is_added_after_clipping() -> None:
    # The data may pull at most 0.001 long; the pull of 2 in every place is not cut: one step is −0.1·2, nearly.
    net = Network(build, PROBLEM)
    found = trained(net, Local(lr=0.1, clip=0.001), PLAN[:1], pulls=[Steady(pull=2.0)])
    assert (found.model - net.initial()).tolist() == pytest.approx([-0.2] * net.size, abs=0.0002)


def test_the_factors_on_the_data_multiply() -> None:
    net = Network(build, PROBLEM)
    whole = trained(net, Local(lr=0.1), PLAN[:1]).model - net.initial()
    part = trained(net, Local(lr=0.1), PLAN[:1], pulls=[Steady(share=0.5), Steady(share=0.4)]).model - net.initial()
    assert torch.allclose(part, 0.2 * whole, atol=1e-7)


def test_a_record_of_weight_zero_is_not_there() -> None:
    net = Network(build, PROBLEM)
    weights = torch.tensor([1.0, 1.0] + [0.0] * 8)
    rows = torch.arange(10).view(1, 10)
    found = trained(net, Local(lr=0.1), rows, weights=weights)
    assert torch.allclose(found.model, trained(net, Local(lr=0.1), rows[:, :2]).model, atol=1e-6)


def test_after_every_step_the_model_is_put_where_it_may_be() -> None:
    net = Network(build, PROBLEM)
    seen: list[int] = []

    def back(w: Tensor) -> None:
        seen.append(len(w))
        w.clamp_(-0.1, 0.1)

    found = trained(net, Local(lr=0.5), project=back)
    assert seen == [net.parameters] * 7
    assert found.model.abs().max() <= 0.1


def test_decay_and_projection_leave_running_statistics_alone() -> None:
    # With a rate that moves nothing, statistics after one step are 0.9·old + 0.1·batch, decay or not.
    net = Network(build_with_statistics, PROBLEM)
    results = [
        trained(net, Local(lr=1e-30, weight_decay=decay), PLAN[:1], project=lambda w: None).model for decay in (0, 1e6)
    ]
    assert torch.equal(results[0], results[1])
    net.load(net.initial())
    x = EXAMPLES.x[PLAN[0]]
    linear = nn.functional.linear(x, *(net.named(net.initial())[f"body.0.{part}"] for part in ("weight", "bias")))
    expected = torch.cat([0.1 * linear.mean(0), 0.9 + 0.1 * linear.var(0)])
    assert torch.allclose(results[0][net.buffers], expected, atol=1e-6)


def test_filling_up_a_batch_does_not_change_what_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled network gets batches of one shape. Where records are normalised with each other, the filling must
    not be seen, or such a network is not to be compiled."""
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)  # the same calls, without a compiler
    plan = passes(10, 3, 4, generator("plan"))
    expected = trained(Network(build_with_statistics, PROBLEM), Local(lr=0.1), plan).model
    try:
        net = Network(build_with_statistics, PROBLEM, fast="compiled")
    except UserError:
        return
    assert torch.allclose(trained(net, Local(lr=0.1), plan).model, expected, atol=1e-6)


def test_filling_up_a_batch_is_not_seen_by_a_network_without_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    expected = trained(Network(build, PROBLEM), Local(lr=0.1)).model
    assert torch.allclose(trained(Network(build, PROBLEM, fast="compiled"), Local(lr=0.1)).model, expected, atol=1e-6)


def test_the_full_gradient_is_that_of_the_mean_loss_in_whatever_batches() -> None:
    net = Network(build, PROBLEM)
    module = build()
    module.load_state_dict(net.named(net.initial()))
    nn.functional.cross_entropy(module(EXAMPLES.x), EXAMPLES.y).backward()  # type: ignore[no-untyped-call]
    expected = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
    for batch in (3, 10, 100):
        assert torch.allclose(full_gradient(net, net.initial(), EXAMPLES, batch), expected, atol=1e-6)


def test_the_full_gradient_is_that_of_a_network_at_rest() -> None:
    # With running statistics that records do not have, the slope by these is another than by the batch's own.
    net, w = Network(build_with_statistics, PROBLEM), Network(build_with_statistics, PROBLEM).initial()
    w[net.buffers] = torch.cat([torch.ones(6), torch.full((6,), 4.0)])
    module = build_with_statistics()
    module.load_state_dict(net.named(w), strict=False)
    module.eval()
    nn.functional.cross_entropy(module(EXAMPLES.x), EXAMPLES.y).backward()  # type: ignore[no-untyped-call]
    expected = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
    assert torch.allclose(full_gradient(net, w, EXAMPLES, 3), expected, atol=1e-6)
    assert torch.equal(net.vector[net.buffers], w[net.buffers])


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_parameters_that_were_frozen_by_their_author_stay_as_they_are(decay: float) -> None:
    def half_frozen() -> nn.Module:
        module = build()
        for p in module.body.parameters():  # type: ignore[union-attr]
            p.requires_grad_(False)
        return module

    net = Network(half_frozen, PROBLEM)
    with net.frozen():
        pass  # as an inversion or a matching before the training does
    found = trained(net, Local(lr=0.1, weight_decay=decay))
    assert torch.equal(found.model[net.body], net.initial()[net.body])
    assert not torch.equal(found.model[net.head], net.initial()[net.head])


def test_a_given_speed_without_momentum_changes_nothing() -> None:
    net, plain_sgd = Network(build, PROBLEM), Local(lr=0.1)
    usual = trained(net, plain_sgd).model
    given = trained(net, plain_sgd, speed=torch.zeros(net.parameters)).model
    assert torch.equal(usual, given)
    assert not torch.equal(usual, net.initial())
