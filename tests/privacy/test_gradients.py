"""Clipped gradients of single records, beside a slow loop that takes one record after another."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.losses import per_record_loss
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.privacy.gradients import ByLayer, OneByOne, _choose, clipped_gradient_sum
from understudy.privacy.layers import of_convolution, of_embedding, rule_for
from understudy.randomness import generator


def named(name: str, problem: Problem, **settings: object) -> Network:
    chosen = entry(name)
    return Network(lambda: chosen.build(problem, chosen.settings(**settings)), problem, seed=3)


def smooth(name: str, problem: Problem) -> Network:
    """Without the kinks of ReLU: in a deep network, one of many activations is within rounding of nought."""
    chosen = entry(name)

    def build() -> nn.Module:
        module = chosen.build(problem, chosen.settings())
        for layer in list(module.modules()):
            for place, child in layer.named_children():
                if isinstance(child, nn.ReLU):
                    setattr(layer, place, nn.Softplus())
        return module

    return Network(build, problem, seed=3)


def records(problem: Problem, n: int) -> tuple[Tensor, Tensor]:
    rng = generator("records of the gradient tests")
    x = torch.randint(256, (n, *problem.shape), generator=rng, dtype=torch.uint8)
    if problem.tokens:  # fewer ids than places, so that some come twice and some are padding
        x = (x % problem.tokens).to(torch.int32)
    if problem.multilabel:
        return x, torch.randint(2, (n, problem.classes), generator=rng)
    return x, torch.randint(problem.classes, (n,), generator=rng)


def one_after_another(net: Network, x: Tensor, y: Tensor, clip: float) -> tuple[Tensor, list[float]]:
    total, norms = torch.zeros(net.parameters), []
    for i in range(len(x)):
        net.grad.zero_()
        per_record_loss(net.problem, net(x[i : i + 1])[1], y[i : i + 1]).sum().backward()  # type: ignore[no-untyped-call]
        norms.append(float(net.grad.double().norm()))  # eleven million numbers: float32 would be off by 2e-4
        total += net.grad * min(1.0, clip / norms[-1])
    return total, norms


def off(found: Tensor, true: Tensor) -> float:
    return float((found - true).norm() / true.norm())


IMAGES = Problem((1, 8, 8), 10)
CASES: dict[str, Callable[[], Network]] = {
    "softmax": lambda: named("softmax", IMAGES),
    "mlp": lambda: named("mlp", IMAGES),
    "simple-cnn": lambda: named("simple-cnn", Problem((1, 28, 28), 10, mean=(0.29,), std=(0.35,))),
    "small-convnet": lambda: named("small-convnet", IMAGES),
    "convnet": lambda: named("convnet", Problem((3, 16, 16), 10), width=32, depth=2),
    "several labels": lambda: named("small-convnet", Problem((1, 8, 8), 4, multilabel=True)),
    "resnet18": lambda: smooth("resnet18", Problem((3, 16, 16), 10)),
    "convnet-1d": lambda: named("convnet-1d", Problem((3, 20), 4), width=5, depth=2),
    "embedding-bag": lambda: named("embedding-bag", Problem((6,), 4, tokens=5), dim=3, hidden=(4,)),
}


@pytest.mark.parametrize("case", CASES)
def test_equal_to_a_loop_over_records(case: str) -> None:
    net = CASES[case]()
    x, y = records(net.problem, 3)
    assert isinstance(_choose(net, x[:2], y[:2]), ByLayer)
    _, norms = one_after_another(net, x, y, 1.0)
    clip = sorted(norms)[1]  # some are clipped, some are not
    expected, _ = one_after_another(net, x, y, clip)
    assert off(clipped_gradient_sum(net, x, y, clip), expected) < 1e-5
    assert off(OneByOne(net)(net, x, y, torch.full((3,), clip)), expected) < 1e-5


def test_passes_over_a_large_batch_give_the_same_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    net = named("small-convnet", IMAGES)
    x, y = records(IMAGES, 9)
    whole = clipped_gradient_sum(net, x, y, 0.5)
    monkeypatch.setattr("understudy.privacy.gradients.FLOATS_AT_ONCE", 50_000)
    assert off(clipped_gradient_sum(net, x, y, 0.5), whole) < 1e-6


def test_two_weights_by_hand() -> None:
    # Softmax of one pixel and two classes, weights 0 and biases 0: both classes have probability 1/2. With scaled
    # pixel x and label 0 the slopes at the logits are (−1/2, 1/2), so the gradient is (−x/2, x/2) for the weights and
    # (−1/2, 1/2) for the biases; its norm is √(x²/2 + 1/2).
    net = named("softmax", Problem((1,), 2))
    net.load(torch.zeros(net.size))
    x, y = torch.tensor([[1.0], [7.0]]), torch.tensor([0, 0])
    # x = 1: norm 1, below the clip of 2, stays. x = 7: norm √(49/2 + 1/2) = 5, so it is multiplied by 2/5.
    weight = 1 / 2 + 0.4 * 7 / 2  # 1.9
    bias = 1 / 2 + 0.4 * 1 / 2  # 0.7
    found = clipped_gradient_sum(net, x, y, 2.0)
    assert found.tolist() == pytest.approx([-weight, weight, -bias, bias], rel=1e-6)


def test_one_more_record_moves_the_sum_by_at_most_the_clip() -> None:
    net = named("small-convnet", IMAGES)
    x, y = records(IMAGES, 6)
    step = clipped_gradient_sum(net, x, y, 0.1) - clipped_gradient_sum(net, x[:-1], y[:-1], 0.1)
    assert float(step.norm()) == pytest.approx(0.1, rel=1e-4)


def test_no_records_give_zeros() -> None:
    net = named("softmax", IMAGES)
    x, y = records(IMAGES, 1)
    assert torch.equal(clipped_gradient_sum(net, x[:0], y[:0], 1.0), torch.zeros(net.parameters))


def test_the_networks_own_gradient_and_mode_are_left_alone() -> None:
    net = named("small-convnet", IMAGES)
    net.grad.fill_(7.0)
    net.module.eval()
    clipped_gradient_sum(net, *records(IMAGES, 3), 1.0)
    assert not net.module.training
    assert bool((net.grad == 7.0).all())
    assert all(not layer._forward_hooks for layer in net.module.modules())


@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv2d(2, 3, 3),  # patches
        nn.Conv2d(2, 3, (3, 2), stride=2, padding=(1, 0), bias=False),
        nn.Conv2d(2, 3, 2, dilation=2, padding=1),
        nn.Conv2d(64, 64, 3, stride=4, padding=1),  # Gram matrices
    ],
)
def test_every_way_with_convolutions_equals_autograd(convolution: nn.Conv2d) -> None:
    rng = generator("convolutions")
    x = torch.randn(3, convolution.in_channels, 7, 6, generator=rng)
    out = convolution(x)
    slope = torch.randn(out.shape, generator=rng)
    shares = of_convolution(convolution, x, slope)
    factors = torch.tensor([0.5, 0.0, 2.0])
    for name, parameter in convolution.named_parameters():
        each = [torch.autograd.grad(convolution(x[i : i + 1]), parameter, slope[i : i + 1])[0] for i in range(3)]
        squared = torch.stack([g.square().sum() for g in each])
        assert torch.allclose(shares[name].squared, squared, rtol=1e-4)
        expected = (0.5 * each[0] + 2 * each[2]).flatten()
        assert torch.allclose(shares[name].total(factors).reshape(-1), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(2, 3, 3), (2, 9)),
        (nn.Conv1d(2, 3, 4, stride=2, padding=1, dilation=2, bias=False), (2, 9)),
        (nn.Embedding(5, 3), (4, 7)),
        (nn.Embedding(5, 3, padding_idx=0), (7,)),
    ],
)
def test_layers_for_sequences_and_tokens_equal_autograd(layer: nn.Module, shape: tuple[int, ...]) -> None:
    rng, rule = generator("sequences"), rule_for(layer)
    assert rule is not None
    ids = isinstance(layer, nn.Embedding)
    x = torch.randint(5, (3, *shape), generator=rng) if ids else torch.randn(3, *shape, generator=rng)
    out = layer(x)
    slope = torch.randn(out.shape, generator=rng)
    shares = rule(layer, x, slope)
    for name, parameter in layer.named_parameters():
        each = [torch.autograd.grad(layer(x[i : i + 1]), parameter, slope[i : i + 1])[0] for i in range(3)]
        squared = torch.stack([g.square().sum() for g in each])
        torch.testing.assert_close(shares[name].squared, squared, rtol=1e-4, atol=1e-6)
        expected = (0.5 * each[0] + 2 * each[2]).flatten()
        found = shares[name].total(torch.tensor([0.5, 0.0, 2.0])).reshape(-1)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_an_embedding_by_hand() -> None:
    # Token 2 twice, with slopes (1, 0) and (2, 1), token 1 once with (0, 3): rows (3, 1) and (0, 3), 10 + 9.
    layer = nn.Embedding(3, 2)
    share = of_embedding(layer, torch.tensor([[2, 1, 2]]), torch.tensor([[[1.0, 0.0], [0.0, 3.0], [2.0, 1.0]]]))
    assert share["weight"].squared.tolist() == [19]
    assert share["weight"].total(torch.tensor([0.5])).tolist() == [[0, 0], [0, 1.5], [1.5, 0.5]]


@pytest.mark.parametrize("layer", [nn.Embedding(3, 2, max_norm=1.0), nn.Conv1d(2, 2, 3, groups=2)])
def test_other_uses_of_these_layers_have_no_rule(layer: nn.Module) -> None:
    assert rule_for(layer) is None


class Twice(nn.Module):
    """The same layer used two times: its two shares must be added before they are measured."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def features(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(torch.tanh(self.layer(x))))


class Scale(nn.Module):
    """A parameter in a layer that no rule knows."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([0.5, 1.0, 1.5, 2.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class Borrowed(nn.Module):
    """A weight that is used without calling its layer, besides calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def features(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x)) @ self.layer.weight


class Folded(nn.Module):
    """Rows of a layer that are parts of records, kept together or not."""

    def __init__(self, together: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.head = nn.Linear(4, 3)
        self.together = together

    def features(self, x: Tensor) -> Tensor:
        parts = x.view(-1, 2, 2) if self.together else x.view(-1, 2)
        return torch.tanh(self.layer(parts)).reshape(-1, 4)


def test_a_layer_used_at_several_places_of_a_record() -> None:
    net = Network(lambda: Folded(True), Problem((4,), 3))
    x, y = torch.randn(4, 4, generator=generator("places")), torch.tensor([0, 1, 2, 0])
    assert isinstance(_choose(net, x[:2], y[:2]), ByLayer)
    expected, _ = one_after_another(net, x, y, 0.6)
    assert off(clipped_gradient_sum(net, x, y, 0.6), expected) < 1e-5


@pytest.mark.parametrize(
    "build", [Twice, Borrowed, lambda: Folded(False), lambda: Classifier(Scale(), nn.Linear(4, 3))]
)
def test_networks_that_no_rule_covers_go_through_torch_func(build: Callable[[], nn.Module]) -> None:
    problem = Problem((4,), 3)
    net = Network(build, problem)
    x = torch.randn(4, 4, generator=generator("unforeseen"))
    y = torch.tensor([0, 1, 2, 0])
    assert isinstance(_choose(net, x[:2], y[:2]), OneByOne)
    expected, norms = one_after_another(net, x, y, 0.6)
    assert min(norms) < math.inf
    assert off(clipped_gradient_sum(net, x, y, 0.6), expected) < 1e-5


def test_frozen_parameters_have_no_part() -> None:
    def build() -> nn.Module:
        module = Classifier(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 3))
        module.body.requires_grad_(False)
        return module

    net = Network(build, Problem((4,), 3))
    x, y = torch.randn(3, 4, generator=generator("frozen")), torch.tensor([0, 1, 2])
    assert net.parameters == 4 * 3 + 3
    expected, _ = one_after_another(net, x, y, 0.5)
    assert off(clipped_gradient_sum(net, x, y, 0.5), expected) < 1e-5


def test_batch_norm_is_refused() -> None:
    net = named("resnet18", Problem((3, 16, 16), 10), norm="batch")
    with pytest.raises(UserError, match="BatchNorm mixes the records"):
        clipped_gradient_sum(net, *records(net.problem, 2), 1.0)


def test_a_clip_of_nought_is_refused() -> None:
    net = named("softmax", IMAGES)
    with pytest.raises(UserError, match="clip"):
        clipped_gradient_sum(net, *records(IMAGES, 2), 0.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # torch's own, when it compiles
def test_compiled_and_eager_agree() -> None:
    # Tanh: a ReLU has a kink, and another rounding may fall on its other side.
    def build() -> nn.Module:
        body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten())
        return Classifier(body, nn.Linear(4 * 36, 10))

    eager, compiled = Network(build, IMAGES), Network(build, IMAGES, fast="compiled")
    x, y = records(IMAGES, 300)  # one full pass of 256 and a part
    assert off(clipped_gradient_sum(compiled, x, y, 0.5), clipped_gradient_sum(eager, x, y, 0.5)) < 1e-5


@pytest.mark.parametrize(
    "build", [lambda: named("softmax", Problem((1, 2, 2), 2)), lambda: named("mlp", Problem((1, 2, 2), 2))]
)
def test_a_record_whose_gradient_overflows_counts_for_nothing(build: Callable[[], Network]) -> None:
    """Otherwise a server could choose a model with which one record makes every answer infinite, through any noise."""
    net = build()
    x = torch.rand(5, 1, 2, 2, generator=generator("finite"))
    y = torch.tensor([0, 1, 0, 1, 1])
    without = clipped_gradient_sum(net, x[:4], y[:4], 0.5)
    x[4] = torch.inf
    assert torch.isfinite(without).all()
    torch.testing.assert_close(clipped_gradient_sum(net, x, y, 0.5), without)
