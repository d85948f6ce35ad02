"""Training several clients as one program gives what training each of them alone gives, up to rounding."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, Pull, RowPull
from understudy.learning.plan import passes
from understudy.learning.together.program import Chain, Mapped, Program, program_for
from understudy.learning.together.stacking import Exercise
from understudy.learning.together.training import train_alone, train_together
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.randomness import generator

IMAGES = Problem((1, 12, 12), 3, mean=(0.3,), std=(0.4,))
COLOURED = Problem((3, 16, 16), 3)
SIZES = (7, 12, 1, 0, 9)  # a batch of 4: steps and last batches differ, and one client has nothing


class Residual(nn.Module):
    """No rule knows it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.head = nn.Linear(4, 3)

    def features(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        found: Tensor = (x + self.scale * self.second(x)).mean((2, 3))
        return found


def norms() -> nn.Module:
    layers = [nn.Conv2d(1, 4, 3, padding=1, stride=2), nn.GroupNorm(2, 4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()]
    return Classifier(nn.Sequential(*layers), nn.Linear(36, 3))


def pooled() -> nn.Module:
    """The pool behind the second convolution drops a row and a column."""
    layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, groups=2), nn.MaxPool2d(2), nn.ReLU()]
    return Classifier(nn.Sequential(*layers, nn.Flatten()), nn.Linear(6, 3))


def named(name: str, problem: Problem, **settings: Any) -> Callable[[], nn.Module]:
    found = entry(name)
    return lambda: found.build(problem, found.settings(**settings))


def perceptron() -> nn.Module:
    return Classifier(nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.ReLU()), nn.Linear(8, 3))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Problem, type[Program]]] = {
    "mlp": (named("mlp", IMAGES, hidden=(8, 5)), IMAGES, Chain),
    "softmax": (named("softmax", IMAGES), IMAGES, Chain),
    "small-convnet": (named("small-convnet", IMAGES, width=4), IMAGES, Chain),
    "simple-cnn": (named("simple-cnn", COLOURED), COLOURED, Chain),
    "norms and means": (norms, IMAGES, Chain),
    "groups and pools": (pooled, IMAGES, Chain),
    "residual": (Residual, IMAGES, Mapped),
}
OPTIMISERS = {
    "plain": Local(epochs=2, batch=4, lr=0.1),
    "steps": Local(steps=5, batch=4, lr=0.1),
    "clip and momentum": Local(epochs=2, batch=4, lr=0.1, clip=0.5, momentum=0.9),
    "decay": Local(epochs=2, batch=4, lr=0.1, weight_decay=0.1, momentum=0.5),
    "decay on weights": Local(epochs=2, batch=4, lr=0.1, weight_decay=0.1, decay_on="weights", drop_last=True),
    "augmented": Local(epochs=2, batch=4, lr=0.1, augment=("flip", "crop")),
}


def network(name: str) -> tuple[Network, Program]:
    build, problem, kind = NETWORKS[name]
    net = Network(build, problem, seed=5)
    program = program_for(net)
    assert type(program) is kind
    return net, program


def records(problem: Problem, size: int, at: int) -> Examples:
    rng = generator("records", at)
    x = torch.randint(256, (size, *problem.shape), generator=rng, dtype=torch.uint8)
    if problem.multilabel:
        return Examples(x, torch.randint(2, (size, problem.classes), generator=rng).float())
    return Examples(x, torch.randint(problem.classes, (size,), generator=rng))


def exercises(
    net: Network, local: Local, pulls: Callable[[int], Sequence[Pull]] = lambda at: ()
) -> Callable[[], list[Exercise]]:
    """Made anew for each contender, since streams are used up."""

    def made() -> list[Exercise]:
        found = []
        for at, size in enumerate(SIZES):
            plan = passes(size, local.step_count(size), local.batch, generator("plan", at), drop_last=local.drop_last)
            feed = Feed(records(net.problem, size, at), plan, generator("changes", at))
            found.append(Exercise(net.initial() + 0.01 * at, feed, Descent(local, 0.07, pulls(at)), size))
        return found

    return made


def check_equal(net: Network, program: Program, made: Callable[[], list[Exercise]]) -> None:
    alone = [train_alone(net, exercise) for exercise in made()]
    together = train_together(net, program, made())
    for at, (slow, fast) in enumerate(zip(alone, together, strict=True)):
        assert torch.allclose(fast.model, slow.model, rtol=0, atol=1e-5), (at, (fast.model - slow.model).abs().max())
        assert torch.equal(fast.start, slow.start)
        same = ("steps", "rate_sum", "records", "data_weight")
        assert [getattr(fast, name) for name in same] == [getattr(slow, name) for name in same]
    moved = [float((trained.model - trained.start).abs().max()) for trained in together]
    assert moved[3] == 0  # it has no record
    assert min(moved[:3]) > 1e-3


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_group_ends_where_each_of_its_clients_ends_alone(name: str, optimiser: str) -> None:
    net, program = network(name)
    check_equal(net, program, exercises(net, OPTIMISERS[optimiser]))


class Spring(Pull):
    def __init__(self, strength: float, to: Tensor):
        self.strength, self.to = strength, to

    def gradient(self, w: Tensor) -> Tensor:
        return self.strength * (w - self.to)

    def in_rows(self, pulls: Sequence[Pull]) -> RowPull:
        springs = [pull for pull in pulls if isinstance(pull, Spring)]
        strength, to = torch.tensor([[one.strength] for one in springs]), torch.stack([one.to for one in springs])
        return lambda w: strength[: len(w)] * (w - to[: len(w)])


@pytest.mark.parametrize("name", ["mlp", "small-convnet", "residual"])
def test_a_pull_acts_on_every_row_by_itself(name: str) -> None:
    net, program = network(name)
    to = torch.zeros(net.parameters)
    check_equal(net, program, exercises(net, OPTIMISERS["clip and momentum"], lambda at: [Spring(0.2 * at, to + at)]))


def test_no_slope_is_computed_below_the_first_weights() -> None:
    net = Network(perceptron, IMAGES, seed=5)
    program = program_for(net)
    assert isinstance(program, Chain)
    local = Local(steps=1, batch=4, lr=0.1)
    feed = Feed(records(IMAGES, 4, 0), passes(4, 1, 4, generator("plan")))
    with FlopCounterMode(display=False) as counted:
        train_together(net, program, [Exercise(net.initial(), feed, Descent(local), 4)] * 3)
    hidden, out = 4 * 144 * 8, 4 * 8 * 3  # products of one client and pass
    # Forward in both layers, the slope at the input in the second one alone. (A product that is added to the weights
    # at once is not among those that torch counts.)
    assert counted.get_total_flops() == 3 * 2 * (hidden + 2 * out)


def test_several_labels_per_record() -> None:
    problem = replace(IMAGES, multilabel=True)
    net = Network(perceptron, problem, seed=5)
    program = program_for(net)
    assert isinstance(program, Chain)
    check_equal(net, program, exercises(net, OPTIMISERS["plain"]))


def test_one_step_on_two_parabolas_by_hand() -> None:
    # One weight, no bias; with one class the loss is BCE: at logit 0 its slope is ½ − y. Records 1 and 2, rate 0.1.
    problem = Problem((1,), 1, multilabel=True)
    net = Network(lambda: Classifier(nn.Flatten(), nn.Linear(1, 1, bias=False)), problem)
    program = program_for(net)
    assert isinstance(program, Chain)
    plan, local = torch.tensor([[0]]), Local(steps=1, batch=1, lr=0.1)
    feeds = [Feed(Examples(torch.tensor([[x]]), torch.tensor([[y]])), plan) for x, y in ((1.0, 1.0), (2.0, 0.0))]
    group = [Exercise(torch.zeros(1), feed, Descent(local), 1) for feed in feeds]
    first, second = train_together(net, program, group)
    assert first.model.tolist() == pytest.approx([0.05])  # 0 − 0.1 · (½ − 1) · 1
    assert second.model.tolist() == pytest.approx([-0.1])  # 0 − 0.1 · ½ · 2


def test_records_that_are_scaled_batch_by_batch_are_the_same_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.learning.together.stacking.SCALED_AT_ONCE", 0)
    net, program = network("small-convnet")
    check_equal(net, program, exercises(net, OPTIMISERS["plain"]))


def test_a_client_with_an_infinity_keeps_it_to_itself() -> None:
    net, program = network("small-convnet")
    made = exercises(net, OPTIMISERS["clip and momentum"])
    healthy = train_together(net, program, made())
    spoilt = made()
    spoilt[1] = replace(spoilt[1], w=torch.full_like(spoilt[1].w, torch.inf))
    after = train_together(net, program, spoilt)
    assert not bool(torch.isfinite(after[1].model).all())
    for at in (0, 2, 3, 4):
        assert torch.equal(after[at].model, healthy[at].model)


def test_clients_that_do_not_train_alike_are_refused() -> None:
    net, program = network("mlp")
    group = exercises(net, OPTIMISERS["plain"])()
    group[2] = replace(group[2], descent=replace(group[2].descent, rate=0.5))
    with pytest.raises(UserError, match="do not train alike"):
        train_together(net, program, group)


# ---- networks that cannot


class Tied(Classifier):
    def __init__(self) -> None:
        shared = nn.Linear(8, 8)
        super().__init__(nn.Sequential(nn.Flatten(), nn.Linear(144, 8), shared, nn.ReLU(), shared), nn.Linear(8, 3))


class Counting(Residual):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def features(self, x: Tensor) -> Tensor:
        self.seen += 1
        return super().features(x)


class Looking(Residual):
    def features(self, x: Tensor) -> Tensor:
        found = super().features(x)
        return found if float(found.sum()) > 0 else -found


def with_layer(layer: nn.Module) -> Callable[[], nn.Module]:
    return lambda: Classifier(nn.Sequential(nn.Flatten(), nn.Linear(144, 8), layer), nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (with_layer(nn.BatchNorm1d(8)), "BatchNorm"),
        (with_layer(nn.Dropout(0.5)), "random"),
        (Counting, "changes its buffers|inplace|in-place"),
        (Looking, "item"),
        (Tied, "share weights"),
    ],
)
def test_a_network_that_cannot_serve_several_clients_says_why(build: Callable[[], nn.Module], why: str) -> None:
    program = program_for(Network(build, IMAGES))
    assert isinstance(program, str)
    assert re.search(why, program), program


def test_a_layer_that_somebody_listens_to_is_computed_as_it_is() -> None:
    net = Network(perceptron, IMAGES, seed=5)
    net.module.head.register_forward_hook(lambda module, given, out: 2 * out)  # type: ignore[union-attr]
    program = program_for(net)
    assert isinstance(program, Mapped)
    check_equal(net, program, exercises(net, OPTIMISERS["plain"]))
