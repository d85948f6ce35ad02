"""Learning near a model: where it stops, what it tells on the way, and how records weigh."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.dsa import ALL
from understudy.learning.evaluate import tally
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, Trained, train
from understudy.learning.plan import passes
from understudy.learning.pool import PerImage, PoolFeed, Siamese, Trust, learn_from_pool, record_weights
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator

PROBLEM = Problem(shape=(1, 4, 4), classes=3)
POOL = Examples(
    torch.randn(10, 1, 4, 4, generator=generator("pool")), torch.randint(3, (10,), generator=generator("labels"))
)


def build() -> nn.Module:
    return Classifier(nn.Flatten(), nn.Linear(16, 3))


NET = Network(build, PROBLEM)
LOCAL = Local(epochs=50, batch=4, lr=0.5)  # 3 steps an epoch


def learnt(net: Network = NET, local: Local = LOCAL, **more: Any) -> Trained:
    fed = {key: more.pop(key) for key in ("weights", "augment") if key in more}
    trust = Trust(more.pop("radius", None), more.pop("strict", False))
    return learn_from_pool(net, net.initial(), PoolFeed(POOL, generator("order"), **fed), Descent(local), trust, **more)


def distance(found: Trained) -> float:
    return float((found.model - found.start).double().norm())


def test_without_a_radius_it_is_the_training_loop_to_the_last_bit() -> None:
    plan = passes(10, 150, 4, generator("order"))
    plain = train(NET, NET.initial(), Feed(POOL, plan), Descent(LOCAL))
    found = learnt()
    assert torch.equal(found.model, plain.model)
    assert found.steps == 150


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 5), st.floats(0.01, 3))
def test_strict_never_ends_outside_the_ball(radius: float, lr: float) -> None:
    found = learnt(local=Local(epochs=10, batch=4, lr=lr), radius=radius, strict=True)
    assert distance(found) <= radius * (1 + 1e-5)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 3))
def test_otherwise_it_ends_with_the_first_epoch_that_reaches_the_radius(radius: float) -> None:
    seen: list[float] = []
    found = learnt(radius=radius, watch=lambda _, away: seen.append(away))
    assert all(away < radius for away in seen[:-1])
    assert found.steps == 3 * len(seen)
    assert seen[-1] == pytest.approx(distance(found), rel=1e-5)
    assert seen[-1] >= radius or found.steps == 150


def test_strict_takes_back_one_step_and_no_more() -> None:
    found = learnt(radius=1.0, strict=True)
    plan = passes(10, 150, 4, generator("order"))
    inside = train(NET, NET.initial(), Feed(POOL, plan[: found.steps - 1]), Descent(LOCAL))
    outside = train(NET, NET.initial(), Feed(POOL, plan[: found.steps]), Descent(LOCAL))
    assert torch.equal(found.model, inside.model)
    assert distance(inside) <= 1 < distance(outside)


def test_the_watcher_sees_the_model_after_each_epoch() -> None:
    losses: list[float | None] = []

    def watch(_epoch: int, _distance: float) -> None:
        losses.append(tally(NET.logits, POOL, PROBLEM).loss)

    learnt(local=Local(epochs=4, batch=4, lr=0.05), watch=watch)
    for epochs in range(1, 5):  # the losses that shorter trainings end with
        plan = passes(10, 12, 4, generator("order"))[: 3 * epochs]
        stopped = train(NET, NET.initial(), Feed(POOL, plan), Descent(Local(lr=0.05)))
        NET.load(stopped.model)
        assert losses[epochs - 1] == tally(NET.logits, POOL, PROBLEM).loss
    assert len(losses) == 4


def test_an_epoch_is_shorter_where_a_batch_of_one_is_left_out() -> None:
    net = Network(lambda: Classifier(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16)), nn.Linear(16, 3)), PROBLEM)
    epochs: list[int] = []
    found = learnt(net, Local(epochs=2, batch=3, lr=0.1), watch=lambda epoch, _: epochs.append(epoch))
    assert (found.steps, epochs) == (6, [1, 2])  # ten records: 3 + 3 + 3, and one left over


def test_the_weights_of_two_parties_by_hand() -> None:
    # Party A has 1 record, B has 3; shares ¼ and ¾ of the loss: A's record weighs ¼, each of B's ¾/3 = ¼ too. With
    # shares ½ and ½: ½ and 1/6.
    assert record_weights([1, 3], [0.25, 0.75]).tolist() == pytest.approx([0.25] * 4)
    assert record_weights([1, 3], [0.5, 0.5]).tolist() == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])
    assert record_weights([2, 0, 1], [1, 5, 3]).tolist() == pytest.approx([0.5, 0.5, 3])


def test_a_step_on_a_weighted_pool_is_the_weighted_sum_of_the_parties_steps() -> None:
    # One full-batch step moves by −lr·Σ_k a_k ∇ mean_k: the moves of the parties alone, weighted 0.2 and 0.8.
    local = Local(epochs=1, batch=100, lr=0.1)
    parts = [POOL.take(torch.arange(3)), POOL.take(torch.arange(3, 10))]
    moves = []
    for part in parts:
        alone = learn_from_pool(NET, NET.initial(), PoolFeed(part, generator("order")), Descent(local))
        moves.append(alone.model - alone.start)
    both = learnt(local=local, weights=record_weights([3, 7], [0.2, 0.8]))
    assert torch.allclose(both.model - both.start, 0.2 * moves[0] + 0.8 * moves[1], atol=1e-6)


@pytest.mark.parametrize("kind", [Siamese, PerImage])
def test_augmentation_draws_from_its_own_generator_and_changes_the_model(kind: type[Siamese] | type[PerImage]) -> None:
    found = [learnt(augment=kind(ALL, generator("augmentation", seed))) for seed in (1, 1, 2)]
    assert torch.equal(found[0].model, found[1].model)
    assert not torch.equal(found[0].model, found[2].model)
    assert not torch.equal(found[0].model, learnt().model)


class Seeing(nn.Module):
    """Keeps the batches that come by."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.seen = nn.Linear(48, 3), list[Tensor]()

    def features(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        return x.flatten(1)


@pytest.mark.parametrize(("kind", "different"), [(Siamese, 1), (PerImage, 5)])
def test_one_draw_for_a_batch_or_one_for_each_of_its_images(
    kind: type[Siamese] | type[PerImage], different: int
) -> None:
    # Ten times the same image in batches of five: under one draw it stays the same all through a batch.
    same = torch.randn(1, 3, 4, 4, generator=generator("image")).expand(10, 3, 4, 4).contiguous()
    net, labels = Network(Seeing, Problem(shape=(3, 4, 4), classes=3)), torch.zeros(10, dtype=torch.int64)
    local, augment = Local(epochs=1, batch=5, lr=0.1), kind(["colour"], generator("draws"))
    pool = PoolFeed(Examples(same, labels), generator("order"), augment=augment)
    learn_from_pool(net, net.initial(), pool, Descent(local))
    assert isinstance(net.module, Seeing)
    first, second = ({tuple(image.flatten().tolist()) for image in batch} for batch in net.module.seen)
    assert (len(first), len(second)) == (different, different)
    assert first.isdisjoint(second)


def test_an_empty_pool_leaves_the_model_as_it_is() -> None:
    found = learn_from_pool(NET, NET.initial(), PoolFeed(POOL.none(), generator("order")), Descent(LOCAL), Trust(1.0))
    assert torch.equal(found.model, NET.initial())
