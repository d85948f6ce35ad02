"""FedReg by hand, beside a slow version, and what its made inputs must be."""

import numpy as np
import pytest
import torch
from numpy_terms import average, by_differences, cross_entropy, layered_net, probabilities
from softmax_by_numpy import Vector
from stage import Body, Stage, batchnorm_net, bound, cloud, image_net, pictures, play, records, sigmoid
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedreg import FedRegSettings, Made, Maker, Reminding, fedreg, input_range
from understudy.methods.shared import precompute
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.network import Network


def settings(local: Local, **more: object) -> FedRegSettings:
    return FedRegSettings.model_validate({"local": local, **more})


class _TwoCoins(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        first = x @ self.w
        return torch.stack([first, 0 * first], 1)


def two_coins() -> Network:
    """Class 0 has probability σ(w·x) with two numbers in x and in w, from w = (1, 1)."""
    return Network(lambda: Body(nn.Identity(), _TwoCoins()), Problem(shape=(2,), classes=2))


def dot(a: Vector, b: Vector) -> float:
    return float(a @ b)


@pytest.mark.parametrize("mask", [False, True])
def test_one_step_by_hand(mask: bool) -> None:
    # w₀ = (1, 1), one record x = (2, −1) of class 0, so inputs lie in [−1, 2]. Its loss −log σ(w·x) has the slope
    # (σ − 1)·w in x, negative in both: ten steps of 0.1 lead to (2 − 1, −1), the second being cut off at −1. There
    # w₀·x̂ = 0, so its soft label is ½. Steps of 0.001 lead to (1.99, −1).
    w0, x, pseudo, perturbed = (np.array(v) for v in ([1.0, 1.0], [2.0, -1.0], [1.0, -1.0], [1.99, -1.0]))
    g1 = (sigmoid(1) - 1) * x  # at γw + (1−γ)w₀ = w₀ in the first step
    if mask:
        # Towards uniform labels the pseudo input has no slope at w₀, being at ½ already: nothing to project off.
        assert sigmoid(dot(w0, pseudo)) == 0.5
    w = w0 - 0.1 * g1
    middle = (w + w0) / 2
    g2 = (sigmoid(dot(middle, pseudo)) - 0.5) * pseudo
    g3 = (sigmoid(dot(middle, perturbed)) - 1) * perturbed
    moved = w - w0
    omega = max(0.0, dot(moved, g2) / dot(g2, g2))
    rest = moved - omega * g2
    omega1 = max(0.0, dot(rest, g3) / dot(g3, g3))
    assert omega > 0
    assert omega1 == 0  # g₃ points against the step: what it learnt helps the record's neighbours too
    expected = w - omega * g2 - omega1 * g3
    method = fedreg(settings(Local(epochs=1, batch=1, lr=0.1), mask=mask))
    after = play(method, two_coins(), {"a": records([[2, -1]], [0])}, 1)
    assert after["model"].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_mask_takes_the_way_to_uniform_labels_out_of_the_step() -> None:
    # As above, but with 5 climbs: x̂ = (1.5, −1) and w₀·x̂ = ½. Towards uniform labels its slope is (σ(½) − ½)·x̂, so
    # g₁ = (σ(1) − 1)·(2, −1) loses its part along (1.5, −1), which is ⟨(2, −1), (1.5, −1)⟩/3.25 = 4/3.25 times that.
    along = np.array([1.5, -1.0])
    g1 = (sigmoid(1) - 1) * (np.array([2.0, -1.0]) - 4 / 3.25 * along)
    w = np.array([1.0, 1.0]) - 0.1 * g1
    # g₂ lies along x̂ too and the step is now at right angles to it: ω = 0. Then g₃ = (σ − 1)·(1.995, −1).
    near = np.array([1.995, -1.0])
    g3 = (sigmoid(dot((w + 1) / 2, near)) - 1) * near
    omega1 = max(0.0, dot(w - 1, g3) / dot(g3, g3))
    method = fedreg(settings(Local(epochs=1, batch=1, lr=0.1), mask=True, climbs=5))
    after = play(method, two_coins(), {"a": records([[2, -1]], [0])}, 1)
    assert after["model"].tolist() == pytest.approx((w - omega1 * g3).tolist(), abs=1e-5)


def test_a_step_that_remembers_better_is_not_pushed_further() -> None:
    # w went from (1, 1) to (2, 1). Of its pseudo input (1, 0) class 1 is what was known: at (1.5, 1) the slope is
    # σ(1.5)·(1, 0), along the way that was gone, and all of the step is taken back. Were it class 0, the slope would be
    # (σ(1.5) − 1)·(1, 0), against it: ω = 0. The perturbed input (0, 1) has its slope at right angles, so ω₁ = 0.
    net, start = two_coins(), torch.tensor([1.0, 1.0])
    for known, expected in ((1, [1.0, 1.0]), (0, [2.0, 1.0])):
        soft = torch.eye(2)[[known]]
        made = Made(torch.tensor([[1.0, 0.0]]), soft, torch.tensor([[0.0, 1.0]]))
        steps = Reminding(settings(Local(epochs=1)), net, start, maker(net, records([[1, 0]], [0])))
        steps._made, steps._y = made, torch.tensor([0])
        net.load(torch.tensor([2.0, 1.0]))
        steps.remind(net.vector[net.trainable])
        assert net.vector.tolist() == pytest.approx(expected)


def slow_climb(w: Vector, x: Vector, targets: Vector, low: float, high: float, size: float) -> Vector:
    x = x.copy()
    for _ in range(10):
        x = np.clip(x + size * np.sign(by_differences(lambda v: cross_entropy(w, v, targets), x)), low, high)
    return x


def slow_fedreg(sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], chosen: FedRegSettings) -> Vector:
    def step(name: str, w0: Vector, w: Vector, x: Vector, targets: Vector) -> Vector:
        low, high = float(sites[name].x.min()), float(sites[name].x.max())
        pseudo = slow_climb(w0, x, targets, low, high, 0.1)
        perturbed = slow_climb(w0, x, targets, low, high, 0.001)
        soft, between = probabilities(w0, pseudo), chosen.gamma * w + (1 - chosen.gamma) * w0
        g1 = by_differences(lambda v: cross_entropy(v, x, targets), between)
        if chosen.mask:
            away = by_differences(lambda v: cross_entropy(v, pseudo, np.full_like(soft, 1 / 3)), between)
            g1 = g1 - dot(g1, away) / dot(away, away) * away
        w = w - chosen.local.lr * g1
        g2 = by_differences(lambda v: cross_entropy(v, pseudo, soft), (w + w0) / 2)
        g3 = by_differences(lambda v: cross_entropy(v, perturbed, targets), (w + w0) / 2)
        omega = max(0.0, dot(w - w0, g2) / dot(g2, g2))
        omega1 = max(0.0, dot(w - w0 - omega * g2, g3) / dot(g3, g3))
        return w - omega * g2 - omega1 * g3

    return average(sites, w, cohorts, chosen.local, step, uniform=chosen.weights == "uniform")


@pytest.mark.parametrize("mask", [False, True])
def test_three_rounds_equal_a_slow_version_in_numpy(mask: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 10), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "b"]]
    chosen, net = settings(Local(epochs=1, batch=4, lr=0.2), gamma=0.3, mask=mask), layered_net()
    slow = slow_fedreg(sites, net.initial().double().numpy(), cohorts, chosen)
    for most in (precompute.MOST, 0):  # made once before training, and batch by batch
        monkeypatch.setattr(precompute, "MOST", most)
        fast = play(fedreg(chosen), net, sites, 3, cohorts)
        np.testing.assert_allclose(fast["model"].numpy(), slow, atol=1e-4)


def maker(net: Network, own: Examples, **more: object) -> Maker:
    chosen = settings(Local(epochs=2, batch=4, lr=0.1), **more)
    stage = Stage(bound(fedreg(chosen), net), {"a": own})
    return Maker(chosen, stage.client("a", 1), net, net.initial())


def test_records_are_not_touched_and_inputs_stay_between_black_and_white() -> None:
    own, net = pictures([0, 1, 2, 0, 1]), image_net()
    before = own.x.clone()
    made = maker(net, own)._kept
    assert made is not None
    assert torch.equal(own.x, before)
    low, high = input_range(net, own)
    assert (low.min().item(), high.max().item()) == (0, 1)
    scaled = net.problem.scale(own.x)
    for inputs, farthest in ((made.pseudo, 1.0), (made.perturbed, 0.01)):
        assert bool(((inputs >= low) & (inputs <= high)).all())
        assert 0 < float((inputs - scaled).abs().max()) <= farthest + 1e-6
    assert not torch.allclose(made.pseudo, made.perturbed)
    assert torch.allclose(made.soft, net.logits(made.pseudo).softmax(1), atol=1e-6)


def test_the_range_is_that_of_pixels_as_the_network_sees_them() -> None:
    # (0 − ½)/¼ = −2 and (1 − ½)/¼ = 2 in the first channel, −1 and 1 in the second with std ½.
    problem = Problem(shape=(2, 4, 4), classes=3, mean=(0.5, 0.5), std=(0.25, 0.5))
    net = Network(lambda: Body(nn.Flatten(), nn.Linear(32, 3)), problem)
    low, high = input_range(net, pictures([0, 1], channels=2))
    assert low[0, :, 0, 0].tolist() == [-2, -1]
    assert high[0, :, 0, 0].tolist() == [2, 1]


def test_running_statistics_follow_the_records_once_a_step() -> None:
    sites, local, net = {"a": cloud("a", 7)}, Local(epochs=1, batch=10, lr=0.2), batchnorm_net()
    reminded = play(fedreg(settings(local, mask=True)), net, sites, 1)["model"]
    plain = play(fedavg(AveragingSettings(local=local)), net, sites, 1)["model"]
    assert torch.equal(reminded[net.buffers], plain[net.buffers])
    assert not torch.allclose(reminded[net.trainable], plain[net.trainable])


def test_augmented_records_and_several_labels_are_taken() -> None:
    local = Local(epochs=2, batch=4, lr=0.1, augment=("flip",))
    after = play(fedreg(settings(local)), image_net(), {"a": pictures([0, 1, 2, 0, 1])}, 2)
    assert bool(torch.isfinite(after["model"]).all())
    net = Network(lambda: Body(nn.Linear(3, 4), nn.Linear(4, 2)), Problem(shape=(3,), classes=2, multilabel=True))
    several = Examples(cloud("a", 6).x, torch.tensor([[0.0, 1.0], [1.0, 1.0]] * 3))
    after = play(fedreg(settings(Local(epochs=2, batch=4), mask=True)), net, {"a": several}, 2)
    assert bool(torch.isfinite(after["model"]).all())


def test_clients_count_equally_and_empty_ones_do_not() -> None:
    sites = {"a": cloud("a", 4), "b": cloud("b", 12)}
    method = fedreg(settings(Local(epochs=1, batch=4, lr=0.1)))
    together = play(method, layered_net(), {**sites, "empty": sites["a"].none()}, 1)["model"]
    alone = [play(method, layered_net(), {name: own}, 1)["model"] for name, own in sites.items()]
    assert torch.allclose(together, (alone[0] + alone[1]) / 2, atol=1e-6)


@pytest.mark.parametrize(("field", "value"), [("momentum", 0.9), ("weight_decay", 1e-4), ("clip", 1.0)])
def test_anything_but_plain_sgd_is_refused(field: str, value: float) -> None:
    with pytest.raises(UserError, match=f"fedreg: method.local.{field} cannot be used"):
        fedreg(settings(Local.model_validate({field: value})))
