"""Convolution, pool and ReLU in one: the layers' own numbers and slopes."""

import pytest
import torch
from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.methods.moon import Projected
from understudy.models.batch_last import batch_last, gains
from understudy.models.network import Network
from understudy.models.zoo import entry

DIGITS = Problem((1, 28, 28), 10, mean=(0.3,), std=(0.4,))
COLOUR = Problem((3, 32, 32), 10)


def body(channels: int, kernel: int) -> nn.Sequential:
    torch.manual_seed(0)
    first = [nn.Conv2d(channels, 4, kernel), nn.MaxPool2d(2), nn.ReLU()]
    return nn.Sequential(
        *first, nn.Sequential(nn.Conv2d(4, 5, kernel), nn.MaxPool2d(2), nn.ReLU()), nn.Flatten()
    ).double()


def slopes(run: object, net: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.detach().requires_grad_()
    out = run(x)  # type: ignore[operator]
    along = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out.detach(), *torch.autograd.grad((out * along).sum(), [x, *net.parameters()])]


@pytest.mark.parametrize(
    ("channels", "kernel", "size"),
    [(1, 5, (28, 28)), (3, 5, (32, 32)), (2, 3, (17, 22)), (2, 5, (19, 16)), (1, 1, (9, 8))],
)
@pytest.mark.parametrize("records", [1, 7])
def test_is_what_the_layers_compute(channels: int, kernel: int, size: tuple[int, int], records: int) -> None:
    net = body(channels, kernel)
    run = batch_last(net)
    assert run is not None
    x = torch.rand(records, channels, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for ours, theirs in zip(slopes(run, net, x), slopes(net, net, x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_of_equal_neighbours_the_first_takes_the_slope() -> None:
    """A flat image: all four outputs under a pool are equal, as on the black border of a digit."""
    net = nn.Sequential(nn.Conv2d(1, 1, 1), nn.MaxPool2d(2), nn.ReLU())
    nn.init.ones_(net[0].weight)  # type: ignore[arg-type]
    nn.init.zeros_(net[0].bias)  # type: ignore[arg-type]
    run = batch_last(net)
    x = torch.tensor([[[[1.0, 1.0, 2.0, 3.0], [1.0, 1.0, 3.0, 3.0]]]])
    _, to_x, to_weight, to_bias = slopes(run, net, x)  # slopes −1 and 1 at the two outputs
    assert to_x.tolist() == [[[[-1, 0, 0, 1], [0, 0, 0, 0]]]]
    assert (to_weight.item(), to_bias.item()) == (-1 * 1 + 1 * 3, 0)
    assert torch.equal(to_x, slopes(net, net, x)[1])


def test_nothing_passes_where_the_relu_is_shut() -> None:
    net = nn.Sequential(nn.Conv2d(1, 1, 1), nn.MaxPool2d(2), nn.ReLU())
    nn.init.ones_(net[0].weight)  # type: ignore[arg-type]
    nn.init.constant_(net[0].bias, -2.0)  # type: ignore[arg-type]
    out, to_x, to_weight, to_bias = slopes(batch_last(net), net, torch.tensor([[[[1.0, 2.0], [0.0, 1.0]]]]))
    assert out.item() == 0  # exactly on the kink: torch's slope there is nought too
    assert not to_x.any()
    assert to_weight.item() == 0
    assert to_bias.item() == 0


def test_no_record() -> None:
    net = body(1, 5).float()
    assert batch_last(net)(torch.zeros(0, 1, 28, 28)).shape == (0, 80)  # type: ignore[misc]


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(1, 1, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()],
        [nn.Conv2d(1, 1, 3, stride=2), nn.MaxPool2d(2), nn.ReLU()],
        [nn.Conv2d(1, 1, 2), nn.MaxPool2d(2), nn.ReLU()],
        [nn.Conv2d(1, 1, (3, 5)), nn.MaxPool2d(2), nn.ReLU()],
        [nn.Conv2d(2, 2, 3, groups=2), nn.MaxPool2d(2), nn.ReLU()],
        [nn.Conv2d(1, 1, 3, bias=False), nn.MaxPool2d(2), nn.ReLU()],
        [nn.Conv2d(1, 1, 3), nn.MaxPool2d(3), nn.ReLU()],
        [nn.Conv2d(1, 1, 3), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()],
        [nn.Conv2d(1, 1, 3), nn.AvgPool2d(2), nn.ReLU()],
        [nn.Conv2d(1, 1, 3), nn.MaxPool2d(2), nn.Tanh()],
        [nn.Conv2d(1, 1, 3), nn.MaxPool2d(2)],
    ],
)
def test_other_layers_are_called_as_they_are(layers: list[nn.Module]) -> None:
    assert not gains(layers)
    assert batch_last(nn.Sequential(*layers)) is None


@pytest.mark.parametrize("problem", [DIGITS, COLOUR])
def test_a_network_on_this_path_is_the_same_network(problem: Problem) -> None:
    chosen = entry("simple-cnn")
    assert chosen.fast == "batch-last"

    def build() -> nn.Module:
        return chosen.build(problem, chosen.settings())

    plain, quick = Network(build, problem), Network(build, problem, fast="batch-last")
    x = torch.randint(256, (8, *problem.shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    found = []
    for net in (plain, quick):
        net.grad.zero_()
        features, logits = net(x)
        (features.square().sum() + logits.exp().sum()).backward()  # type: ignore[no-untyped-call]
        found.append((features.detach(), logits.detach(), net.grad.clone()))
    for ours, theirs in zip(found[1], found[0], strict=True):
        assert float((ours - theirs).norm()) < 1e-5 * float(theirs.norm())
    assert not torch.equal(found[1][2], found[0][2])  # it did go another way


def test_a_part_of_a_larger_network_goes_the_same_way() -> None:
    """MOON puts a projection behind the features, and its network keeps its names, weights and modes."""
    chosen = entry("simple-cnn")
    whole = Projected(chosen.build(DIGITS, chosen.settings()), 84, 16, 10)
    quick = batch_last(whole)
    assert quick is not None
    assert dict(whole.named_parameters()).keys() == {
        *(f"base.body.{layer}.{part}" for layer in (0, 3, 7, 9) for part in ("weight", "bias")),
        *(f"{layer}.{part}" for layer in ("projection.0", "projection.2", "head") for part in ("weight", "bias")),
    }
    x = torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(quick.features(x), whole.features(x))  # type: ignore[operator]
    with torch.no_grad():
        whole.base.body[0].weight.mul_(2)  # type: ignore[union-attr, index]
    torch.testing.assert_close(quick.features(x), whole.features(x))  # type: ignore[operator]


def test_layers_beside_follow_the_mode_of_the_network() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.9))
    quick = batch_last(net)
    assert quick is not None
    x = torch.rand(2, 1, 12, 12)
    net.eval()
    torch.testing.assert_close(quick(x), net(x))
    net.train()
    assert (quick(x) == 0).float().mean() > 0.5


def test_frozen_weights_get_no_gradient() -> None:
    chosen = entry("simple-cnn")
    net = Network(lambda: chosen.build(DIGITS, chosen.settings()), DIGITS, fast="batch-last")
    x = torch.rand(3, 1, 28, 28, requires_grad=True)
    with net.frozen():
        net(x)[1].sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert bool(x.grad.any())
    assert not net.grad.any()


def test_a_second_derivative_is_refused() -> None:
    net = body(1, 3)
    x = torch.rand(2, 1, 12, 12, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(batch_last(net)(x).square().sum(), x, create_graph=True)  # type: ignore[misc]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()  # type: ignore[no-untyped-call]
