"""VHL beside a slow version in plain numpy: a hidden layer, a head of 2C outputs, every slope worked out by hand.

Only draws are the library's: first weights, the order of records and of noise, and the style generator's pictures.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from numpy_layers import Array, Chain, Linear, Tanh, cross_entropy_slope, draws
from softmax_by_numpy import Numbers
from stage import SEED, Body, cloud, pictures, play, settings_of
from torch import nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import AveragingSettings
from understudy.methods.vhl import vhl
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.noise_sets import noise_set

CLASSES, WIDTH = 3, 4
COHORTS = [["a", "b"], ["b"], ["a", "b"]]  # c is never asked
ROWS = {"a": cloud("a", 7), "b": cloud("b", 12), "c": cloud("c", 5)}
PICTURES = {
    "a": pictures([0, 1, 1, 2, 0, 0, 1], name="a"),
    "b": pictures([2, 2, 0, 1, 2, 2, 1, 0, 2, 2, 1, 0], name="b"),
    "c": pictures([0, 0, 1], name="c"),
}
Labels = NDArray[np.int64]


def contrast_slope(features: Array, labels: Labels, temperature: float) -> Array:
    """By the features, of the mean over anchors i of −1/|P_i| Σ_{p∈P_i} log(e^{z_i·z_p/τ} / Σ_{a≠i} e^{z_i·z_a/τ}).

    Likeness l_ij = z_i·z_j/τ has the slope (share of j in i's sum) − [j∈P_i]/|P_i|, once for each anchor i; z_i gets
    it times z_j/τ and z_j times z_i/τ. Through z = f/‖f‖ goes what is at right angles to z, divided by ‖f‖.
    """
    lengths = np.sqrt((features**2).sum(1))
    z, by_z = features / lengths[:, None], np.zeros_like(features)
    others = {i: [j for j in range(len(z)) if j != i] for i in range(len(z))}
    partners = {i: [j for j in others[i] if labels[j] == labels[i]] for i in others}
    anchors = [i for i in others if partners[i]]
    for i in anchors:
        e = {j: np.exp(z[i] @ z[j] / temperature) for j in others[i]}
        for j in others[i]:
            by_likeness = (e[j] / sum(e.values()) - (j in partners[i]) / len(partners[i])) / len(anchors)
            by_z[i] += by_likeness * z[j] / temperature
            by_z[j] += by_likeness * z[i] / temperature
    along = (z * by_z).sum(1, keepdims=True)
    return np.asarray((by_z - z * along) / lengths[:, None])


@dataclass
class Slow:
    chosen: Any
    noise_x: Array
    noise_y: Labels
    inputs: int

    def chain(self) -> tuple[Chain, Chain]:
        body = Chain(Linear(np.zeros((WIDTH, self.inputs)), np.zeros(WIDTH)), Tanh())
        return body, Chain(Linear(np.zeros((2 * CLASSES, WIDTH)), np.zeros(2 * CLASSES)))

    def slope(self, w: Array, x: Array, y: Labels, noise: Labels, aligned: bool) -> Array:
        """Of the whole loss of one batch; records and noise pass through the network one after the other."""
        split, chosen = WIDTH * (self.inputs + 1), self.chosen
        (body, head), (noise_body, noise_head) = self.chain(), self.chain()
        for part in (body, noise_body):
            part.load(w[:split])
        for part in (head, noise_head):
            part.load(w[split:])
        noise_x, noise_y = self.noise_x[noise], self.noise_y[noise]
        f, noise_f = body.forward(x), noise_body.forward(noise_x)
        by_f = head.backward(cross_entropy_slope(head.forward(f), y) / len(y))
        by_noise_logits = cross_entropy_slope(noise_head.forward(noise_f), CLASSES + noise_y) / len(noise)
        by_noise_f = noise_head.backward(chosen.noise_weight * by_noise_logits)
        if aligned:
            both = contrast_slope(np.vstack([f, noise_f]), np.append(y, noise_y), chosen.temperature)
            by_f = by_f + chosen.alignment * both[: len(f)]  # noise is a constant here
            by_noise_f = by_noise_f + chosen.noise_alignment * contrast_slope(noise_f, noise_y, chosen.temperature)
        body.backward(by_f)
        noise_body.backward(by_noise_f)
        return np.concatenate([body.slope + noise_body.slope, head.slope + noise_head.slope])

    def client(self, name: str, own: Examples, w: Array, round: int) -> Array:
        local, x, y = self.chosen.local, seen(own.x), own.y.numpy()
        order = torch.randperm(len(self.noise_y), generator=generator(SEED, round, name, "vhl noise")).numpy()
        batches = Numbers(x, y, CLASSES).batches(name, round, local.epochs or 0, local.batch)
        an_epoch = len(batches) // (local.epochs or 1)
        for step, rows in enumerate(batches):
            noise = order[(step * self.chosen.noise_batch + np.arange(self.chosen.noise_batch)) % len(order)]
            aligned = step // an_epoch < self.chosen.align_epochs
            w = w - local.lr * self.slope(w, x[rows], y[rows], noise, aligned)
        return w

    def play(self, sites: dict[str, Examples], w: Array) -> Array:
        for round, cohort in enumerate(COHORTS, 1):
            sizes = [len(sites[name]) for name in cohort]
            w = np.average([self.client(name, sites[name], w, round) for name in cohort], axis=0, weights=sizes)
        return w


def seen(x: torch.Tensor) -> Array:
    """Records as rows; pixels run from 0 to 1."""
    return draws(x.flatten(1)) / (255 if x.dtype == torch.uint8 else 1)


def gaussian_noise(problem: Problem, chosen: Any) -> tuple[Array, Labels]:
    """Class after class: a mean of its own, and records around it."""
    rng = generator("noise set", "gaussian", chosen.noise_seed)
    means = draws(torch.randn(CLASSES, 1, *problem.shape, generator=rng))
    around = draws(torch.randn(CLASSES, chosen.noise_images, *problem.shape, generator=rng))
    x = [chosen.noise_spread * (means[c, 0] + around[c, i]) for c in range(CLASSES) for i in range(len(around[0]))]
    return np.array(x).reshape(len(x), -1), np.array([c for c in range(CLASSES) for _ in range(len(around[0]))])


def styled_noise(problem: Problem, chosen: Any) -> tuple[Array, Labels]:
    made = noise_set("style", problem, chosen.noise_images, chosen.noise_spread, chosen.noise_seed)
    return seen(made.x), made.y.numpy()


def dressed(chosen: Any, problem: Problem) -> Network:
    inputs, method = int(np.prod(problem.shape)), vhl(chosen)

    def build() -> nn.Module:
        body = nn.Sequential(nn.Flatten(), nn.Linear(inputs, WIDTH), nn.Tanh())
        return method.adapt_network(Body(body, nn.Linear(WIDTH, CLASSES)), problem)

    return Network(build, problem)


@pytest.mark.parametrize("noise", ["gaussian", "style"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"noise_weight": 0.6, "alignment": 0.0, "noise_alignment": 0.8},
        {"noise_weight": 0.0, "alignment": 2.0, "noise_alignment": 0.0},
    ],
    ids=["the paper's weights", "noise alone", "records to noise alone"],
)
def test_three_rounds_of_unequal_clients_match_a_slow_version(more: dict[str, object], noise: str) -> None:
    # Two epochs of alignment of three. Fifteen noise records in batches of 6 are gone through more than once.
    words = {"noise": noise, "noise_images": 5, "noise_batch": 6, "align_epochs": 2, "temperature": 0.07, **more}
    chosen = settings_of("vhl", local=Local(epochs=3, batch=4, lr=0.05), **words)
    sites = ROWS if noise == "gaussian" else PICTURES
    problem = Problem(shape=(3,) if noise == "gaussian" else (1, 4, 4), classes=CLASSES)
    net = dressed(chosen, problem)
    made = gaussian_noise(problem, chosen) if noise == "gaussian" else styled_noise(problem, chosen)
    slow = Slow(chosen, *made, inputs=int(np.prod(problem.shape)))
    expected = slow.play(sites, draws(net.initial()))
    fast = play(vhl(chosen), net, sites, len(COHORTS), COHORTS)["model"]
    np.testing.assert_allclose(draws(fast), expected, atol=1e-5)
    plain = play(fedavg(AveragingSettings(local=chosen.local)), net, sites, len(COHORTS), COHORTS)["model"]
    assert np.abs(draws(plain) - expected).max() > 1e-2  # the terms did something
    # A prediction is the largest of the first C outputs.
    body, head = slow.chain()
    body.load(expected[: body.flat.size])
    head.load(expected[body.flat.size :])
    net.load(fast)
    said = head.forward(body.forward(seen(sites["c"].x)))[:, :CLASSES]
    np.testing.assert_allclose(draws(net.logits(sites["c"].x)), said, atol=1e-4)
