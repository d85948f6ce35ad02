"""FedCOG beside a slow version in plain numpy: softmax regression, and a coin a label, every slope in closed form.

Only draws are the library's: noise, target labels, the order of records and images.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from softmax_by_numpy import Numbers, Vector
from stage import SEED, Stage, bound, cloud, softmax_net

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedcog import FedCogSettings, fedcog
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.randomness import generator
from understudy.synthesis.labels import label_sets, labels_from_counts, largest_remainder

CLASSES, FEATURES = 3, 3
LOCAL = Local(epochs=2, batch=4, lr=0.1)
COHORTS = [["a", "b"], ["a"], ["a", "b"], ["b"]]  # in round 4, b's last model is its last but one round's
SITES = {"a": cloud("a", 7), "b": cloud("b", 12)}
OF_A = [[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 1], [1, 1, 0], [1, 0, 0]]
OF_B = [[0, 1, 1], [0, 0, 1], [1, 0, 1]] * 4
TOPICS = {name: Examples(SITES[name].x, torch.tensor(y).float()) for name, y in (("a", OF_A), ("b", OF_B))}


@dataclass
class Slow:
    """Weights (classes, features + 1), the last column the bias."""

    chosen: FedCogSettings
    several: bool

    def chances(self, w: Vector, x: Vector) -> Vector:
        z = x @ w[:, :-1].T + w[:, -1]
        if self.several:
            return np.asarray(1 / (1 + np.exp(-z)))
        e = np.exp(z - z.max(1, keepdims=True))
        return np.asarray(e / e.sum(1, keepdims=True))

    def disagreement_slope(self, p: Vector, q: Vector) -> Vector:
        """∂JS/∂z at the logits z of p. By p it is ½·ln(p/m): the terms by m cancel."""
        m = (p + q) / 2
        if self.several:  # two sides of each coin; the mean over labels
            away = np.log(p / m) - np.log((1 - p) / (1 - m))
            return np.asarray(0.5 * p * (1 - p) * away / CLASSES)
        away = np.log(p / m)
        return np.asarray(0.5 * p * (away - (p * away).sum(1, keepdims=True)))

    def invert(self, w: Vector, before: Vector | None, x: Vector, y: Vector) -> Vector:
        first, second = np.zeros_like(x), np.zeros_like(x)
        labels = CLASSES if self.several else 1
        for step in range(1, self.chosen.steps + 1):
            p = self.chances(w, x)
            g = (p - y) / labels @ w[:, :-1]
            if before is not None:
                q = self.chances(before, x)
                g -= self.chosen.disagreement * self.disagreement_slope(p, q) @ w[:, :-1]
                g -= self.chosen.disagreement * self.disagreement_slope(q, p) @ before[:, :-1]
            g /= len(x)
            first, second = 0.5 * first + 0.5 * g, 0.9 * second + 0.1 * g * g
            corrected = np.sqrt(second / (1 - 0.9**step)) + 1e-8
            x = x - self.chosen.lr * first / (1 - 0.5**step) / corrected
        return x

    def client(self, name: str, own: Examples, w: Vector, before: Vector | None, round: int) -> Vector:
        held = own.label_counts(CLASSES)
        rng = generator(SEED, round, name, "fedcog images")
        y = self.targets(name, own, held, round)
        noise = torch.randn(len(y), FEATURES, generator=rng).numpy().astype(np.float64)
        x = self.invert(w, before, noise, y)
        order = torch.randperm(len(x), generator=rng).numpy()
        x, y = x[order], y[order]
        goal = y if self.chosen.targets == "hard" else self.chances(w, x)
        real, lacking = int(held.sum()), int((held.max() - held).sum())
        fixed = self.chosen.kd_weighting == "fixed"
        a, b = (1.0, self.chosen.kd_weight) if fixed else (real / (real + lacking), lacking / (real + lacking))
        return self.train(name, own, w, x, goal, (a, b), round)

    def targets(self, name: str, own: Examples, held: torch.Tensor, round: int) -> Vector:
        lacking = held.max() - held
        if self.several:
            drawn = label_sets(6, int(held.sum()) / len(own), lacking, generator(SEED, round, name, "fedcog labels"))
            return drawn.numpy().astype(np.float64)
        return self.as_chances(labels_from_counts(largest_remainder(6, lacking)).numpy())

    def as_chances(self, y: NDArray[np.int64] | NDArray[np.float32]) -> Vector:
        return y.astype(np.float64) if self.several else np.eye(CLASSES)[y.astype(np.int64)]

    def train(
        self, name: str, own: Examples, w: Vector, x: Vector, goal: Vector, weights: tuple[float, float], round: int
    ) -> Vector:
        numbers, y = Numbers.of(own, CLASSES), self.as_chances(own.y.numpy())
        for step, rows in enumerate(numbers.batches(name, round, 2, 4)):
            at = (step * 4 + np.arange(4)) % len(x)
            real, made = numbers.x[rows], x[at]
            labels = CLASSES if self.several else 1
            by_data = weights[0] * (self.chances(w, real) - y[rows]) / (len(rows) * labels)
            by_images = weights[1] * (self.chances(w, made) - goal[at]) / len(at)
            with_one = [np.hstack([part, np.ones((len(part), 1))]) for part in (real, made)]
            w = w - 0.1 * (by_data.T @ with_one[0] + by_images.T @ with_one[1])
        return w

    def play(self, sites: dict[str, Examples], w: Vector) -> Vector:
        before: dict[str, Vector] = {}
        for round, cohort in enumerate(COHORTS, 1):
            use = before if self.chosen.source == "both" else {}
            made = {name: self.client(name, sites[name], w, use.get(name), round) for name in cohort}
            before |= made
            total = sum(len(sites[name]) for name in cohort)
            w = w + sum(len(sites[name]) * (made[name] - w) for name in cohort) / total
        return w


def several_net() -> Network:
    problem, chosen = Problem((FEATURES,), CLASSES, multilabel=True), entry("softmax")
    return Network(lambda: chosen.build(problem, chosen.settings()), problem)


def as_matrix(model: torch.Tensor) -> Vector:
    flat, split = model.numpy().astype(np.float64), CLASSES * FEATURES
    return np.hstack([flat[:split].reshape(CLASSES, FEATURES), flat[split:, None]])


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several labels"])
@pytest.mark.parametrize(
    "more",
    [
        {"kd_weighting": "fixed", "kd_weight": 0.7},
        {"kd_weighting": "balanced"},
        {"kd_weighting": "balanced", "targets": "hard"},
        {"kd_weighting": "balanced", "source": "global"},
    ],
    ids=lambda more: " ".join(map(str, more.values())),
)
def test_four_rounds_of_unequal_clients_match_a_slow_version(more: dict[str, object], several: bool) -> None:
    given = {"images": 6, "steps": 5, "lr": 0.05, "disagreement": 2.0, **more}
    chosen = FedCogSettings.model_validate(given)
    net, sites = several_net() if several else softmax_net(FEATURES, CLASSES), TOPICS if several else SITES
    joined = fedcog(chosen, fedavg(AveragingSettings(local=LOCAL)))
    assert isinstance(joined, Averaging)
    found = Stage(bound(joined, net), sites, COHORTS).play(len(COHORTS))["model"]
    expected = Slow(chosen, several).play(sites, as_matrix(net.initial()))
    np.testing.assert_allclose(as_matrix(found), expected, atol=2e-5)
    alone = Stage(bound(fedavg(AveragingSettings(local=LOCAL)), net), sites, COHORTS).play(len(COHORTS))["model"]
    assert np.abs(as_matrix(alone) - expected).max() > 1e-3  # the term did something
