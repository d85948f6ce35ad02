"""FedPVR by hand, beside a slow version, and which block it means."""

import numpy as np
import pytest
import torch
from numpy_terms import by_differences, cross_entropy, layered_net, one_hot
from softmax_by_numpy import Numbers, Vector
from stage import Body, Stage, batchnorm_net, bound, cloud, play, records, sigmoid
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedpvr import FedPvrSettings, block_of, fedpvr
from understudy.methods.scaffold import ScaffoldSettings, scaffold
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.network import Network
from understudy.models.zoo import entry

TWO_STEPS = Local(epochs=2, batch=10, lr=0.1)


def settings(local: Local = TWO_STEPS, **more: object) -> FedPvrSettings:
    return FedPvrSettings.model_validate({"local": local, **more})


class _Times(nn.Module):
    def __init__(self, versus_zero: bool) -> None:
        super().__init__()
        self.w, self.versus_zero = nn.Parameter(torch.ones(1)), versus_zero

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.w * x, torch.zeros_like(x)], 1) if self.versus_zero else self.w * x


def two_factors() -> Network:
    """Class 0 has probability σ(h·u·x): u is the body, h the head, both begin at 1."""
    return Network(lambda: Body(_Times(False), _Times(True)), Problem(shape=(1,), classes=2))


def test_two_rounds_by_hand() -> None:
    # p = σ(h·u·x); slopes (p − t)·h·x for u and (p − t)·u·x for h. a: x=1 of class 0, t=1. b: x=2 of class 1, t=0.
    u = h = 1.0
    c, kept = 0.0, {"a": 0.0, "b": 0.0}
    for _ in range(2):
        ends, news = [], []
        for name, x, t in (("a", 1.0, 1.0), ("b", 2.0, 0.0)):
            body, head = u, h
            for _ in range(2):
                off = (sigmoid(head * body * x) - t) * x
                # Only the head's step is corrected.
                body, head = body - 0.1 * off * head, head - 0.1 * (off * body - kept[name] + c)
            new = kept[name] - c + (h - head) / (2 * 0.1)
            ends.append((body, head))
            news.append(new - kept[name])
            kept[name] = new
        u, h = (ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2
        c += sum(news) / 2
    stage = Stage(bound(fedpvr(settings()), two_factors()), {"a": records([1], [0]), "b": records([2], [1])})
    state = stage.play(2)
    assert state["model"].tolist() == pytest.approx([u, h], rel=1e-5)
    assert state["control"].tolist() == pytest.approx([c], rel=1e-5)
    assert stage.memories["b"]["control"].tolist() == pytest.approx([kept["b"]], rel=1e-5)


def slow_fedpvr(
    sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], chosen: FedPvrSettings, block: list[int]
) -> tuple[Vector, Vector]:
    """The correction is a vector over everything that is zero outside the block."""
    local, c = chosen.local, np.zeros_like(w)
    inside = np.isin(np.arange(len(w)), block)
    kept = {name: np.zeros_like(w) for name in sites}
    for round, cohort in enumerate(cohorts, start=1):
        changes, sizes, news = [], [], []
        for name in cohort:
            own = Numbers.of(sites[name], classes=3)
            y, steps = w.copy(), 0
            for rows in own.batches(name, round, local.epochs or 0, local.batch):
                x, targets = own.x[rows], one_hot(own.y[rows].tolist())
                g = by_differences(lambda v, x=x, t=targets: cross_entropy(v, x, t), y)  # type: ignore[misc]
                y, steps = y - local.lr * (g - kept[name] + c), steps + 1
            new = inside * (kept[name] - c + (w - y) / (steps * local.lr))
            changes.append(y - w)
            sizes.append(len(own.y))
            news.append(new - kept[name])
            kept[name] = new
        w = w + np.average(changes, axis=0, weights=sizes)
        c = c + np.sum(news, axis=0) / len(sites)
    return w, c[inside]


# The network's vector: 12 weights and 4 biases of the body, then 12 and 3 of the head.
BLOCKS = {"head": [*range(16, 31)], "body": [*range(16)], ("body.bias", "head.bias"): [*range(12, 16), *range(28, 31)]}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_three_rounds_equal_a_slow_version_in_numpy(block: str | tuple[str, ...]) -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 3)}
    cohorts = [["a", "b"], ["b", "c"], ["a", "b"]]
    chosen, net = settings(Local(epochs=2, batch=4, lr=0.2), block=block), layered_net()
    w, c = slow_fedpvr(sites, net.initial().double().numpy(), cohorts, chosen, BLOCKS[block])
    state = play(fedpvr(chosen), net, sites, 3, cohorts)
    np.testing.assert_allclose(state["model"].numpy(), w, atol=1e-5)
    np.testing.assert_allclose(state["control"].numpy(), c, atol=1e-5)


def test_with_an_empty_block_it_is_fedavg_to_the_last_bit() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    local = Local(epochs=2, batch=4, lr=0.2, weight_decay=0.01, clip=1.0)
    empty = play(fedpvr(settings(local, block=[])), batchnorm_net(), sites, 3)
    plain = play(fedavg(AveragingSettings(local=local)), batchnorm_net(), sites, 3)
    assert torch.equal(empty["model"], plain["model"])
    assert empty["control"].numel() == 0


def test_with_the_whole_network_as_block_it_is_scaffold_to_the_last_bit() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}
    partial = play(fedpvr(settings(block=["body", "head"])), batchnorm_net(), sites, 3)
    whole = play(scaffold(ScaffoldSettings(local=TWO_STEPS)), batchnorm_net(), sites, 3)
    assert torch.equal(partial["model"], whole["model"])
    assert torch.equal(partial["control"], whole["control"])


def test_control_is_sent_for_the_block_alone() -> None:
    stage = Stage(bound(fedpvr(settings()), layered_net()), {"a": cloud("a", 5)})
    stage.play(1)
    assert {part: t.numel() for part, t in stage.replies[0][2].items()} == {"change": 31, "control": 15, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[0][2].items()} == {"model": 31, "control": 15}
    assert len(stage.memories["a"]["control"]) == 15


def test_the_three_linear_layers_of_vgg11_have_530442_numbers() -> None:
    # 512·512 + 512, twice, and 512·10 + 10; they end the vector, so they are one piece.
    problem, chosen = Problem(shape=(3, 32, 32), classes=10), entry("vgg11")
    net = Network(lambda: chosen.build(problem, chosen.settings()), problem)
    (piece,) = block_of(net, ("fully-connected",))
    assert (piece.stop - piece.start, piece.stop) == (530_442, net.parameters)
    assert block_of(net, ("body.23", "body.26", "head")) == [piece]
    assert block_of(net, ("head",)) == [net.head]


def test_running_statistics_are_never_in_a_block() -> None:
    # body.1 is the BatchNorm: scale and shift are trained, the running statistics of the same name are not.
    net = batchnorm_net()
    (piece,) = block_of(net, ("body.1",))
    assert piece.stop - piece.start == 8
    assert piece.stop <= net.parameters


def test_a_block_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UserError, match=r"'classifier', but no parameter.*body, head"):
        bound(fedpvr(settings(block="classifier")), layered_net())


def test_momentum_is_refused() -> None:
    with pytest.raises(UserError, match="momentum must be 0"):
        fedpvr(settings(Local(momentum=0.9)))
