"""FedGen beside a slow version in plain numpy: model, generator and the generator's Adam, every slope by hand.

Only draws are the library's: first weights, labels and noise for the generator, the order of records.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from numpy_generators import feature_generator, told
from numpy_layers import Adam, Array, Chain, Linear, Tanh, cross_entropy_slope, draws, log_softmax, softmax
from softmax_by_numpy import Numbers
from stage import SEED, Body, Stage, bound, cloud, play
from torch import nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedgen import GENERATOR, MEAN, SQUARE, STEPS, FedGen, FedGenSettings
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.network import Network
from understudy.randomness import generator

CLASSES, INPUTS, WIDTH = 3, 3, 4
BODY = WIDTH * (INPUTS + 1)
COHORTS = [["a", "b"], ["b"], ["a", "b"]]  # c is never asked
Labels = NDArray[np.int64]


def without(label: int, own: Examples) -> Examples:
    return own.take(torch.nonzero(own.y != label).flatten())


# b has no record of class 1: in round 2, where b is alone, the generator is not taught that class.
SITES = {"a": cloud("a", 7), "b": without(1, cloud("b", 18)), "c": cloud("c", 5)}


def layered() -> Network:
    def build() -> nn.Module:
        return Body(nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.Tanh()), nn.Linear(WIDTH, CLASSES))

    return Network(build, Problem(shape=(INPUTS,), classes=CLASSES))


def read(head: Array, features: Array) -> Array:
    return features @ head[: CLASSES * WIDTH].reshape(CLASSES, WIDTH).T + head[CLASSES * WIDTH :]


def by_features(head: Array, slope: Array) -> Array:
    """What a slope by the logits is by the features."""
    return slope @ head[: CLASSES * WIDTH].reshape(CLASSES, WIDTH)


def sameness_slope(noise: Array, made: Array) -> Array:
    """Of exp(−mean_ij u_ij v_ij) by G: each pair (i, j) pushes its two apart, sign by sign."""
    n, d = made.shape
    total, slope = 0.0, np.zeros_like(made)
    for i in range(n):
        for j in range(n):
            u = np.mean((noise[i] - noise[j]) ** 2)
            total += u * np.mean(np.abs(made[i] - made[j])) / n**2
            slope[i] += u * np.sign(made[i] - made[j]) / (d * n**2)
            slope[j] -= u * np.sign(made[i] - made[j]) / (d * n**2)
    return np.asarray(-np.exp(-total) * slope)


def divergence_slopes(teachers: Array, student: Array) -> tuple[Array, Array]:
    """Of each KL(p ‖ q), by p's logits and by q's: p·(log p/q − KL) and q − p."""
    p, q, apart = softmax(teachers), softmax(student), log_softmax(teachers) - log_softmax(student)
    return p * (apart - (p * apart).sum(1, keepdims=True)), q - p


@dataclass
class Slow:
    chosen: FedGenSettings
    w: Array
    made_by: Chain
    adam: Adam

    # ---- on the client

    def client(self, name: str, own: Examples, round: int) -> Array:
        """Local training; the generator is there from round 2 on."""
        chosen, local, rng = self.chosen, self.chosen.local, generator(SEED, round, name, "fedgen")
        early, size = chosen.early_steps, chosen.generated_batch
        guesses = torch.randint(CLASSES, (early, size), generator=rng).numpy()
        for_guesses = draws(torch.rand(early, size, chosen.noise, generator=rng))
        for_records = draws(torch.rand(early, local.batch, chosen.noise, generator=rng))
        x, y, w = draws(own.x), own.y.numpy(), self.w.copy()
        batches = Numbers(x, y, CLASSES).batches(name, round, 10, local.batch)[: local.steps]
        for step, rows in enumerate(batches):
            extra = None
            if round > 1 and step < early:
                extra = guesses[step], for_guesses[step], for_records[step][: len(rows)]
            w = w - local.lr * local.decay ** (round - 1) * self.slope(w, x[rows], y[rows], extra, round)
        return w

    def slope(self, w: Array, x: Array, y: Labels, extra: tuple[Labels, Array, Array] | None, round: int) -> Array:
        body = Chain(Linear(np.zeros((WIDTH, INPUTS)), np.zeros(WIDTH)), Tanh())
        head = Chain(Linear(np.zeros((CLASSES, WIDTH)), np.zeros(CLASSES)))
        body.load(w[:BODY])
        head.load(w[BODY:])
        of_guesses = np.zeros(head.flat.size)
        logits = head.forward(body.forward(x))
        by_logits = cross_entropy_slope(logits, y) / len(y)
        if extra is not None:
            guess, noise, noise_of_records = extra
            fading = 0.98 ** (round - 1)
            target = softmax(read(w[BODY:], self.make(noise_of_records, y)))  # a constant
            by_logits += max(1e-4, self.chosen.kl_weight * fading) * (softmax(logits) - target) / len(y)
            weight = max(1e-4, self.chosen.label_weight * fading) * len(guess) / self.chosen.local.batch
            made = self.make(noise, guess)
            wrong = weight * cross_entropy_slope(read(w[BODY:], made), guess) / len(guess)
            of_guesses = np.concatenate([(wrong.T @ made).ravel(), wrong.sum(0)])
        body.backward(head.backward(by_logits))
        return np.concatenate([body.slope, head.slope + of_guesses])

    def make(self, noise: Array, y: Labels) -> Array:
        return self.made_by.forward(told(noise, y, CLASSES), training=False)

    # ---- on the server

    def teach(self, heads: list[Array], counts: list[Array], round: int) -> None:
        """α_{k,y} are label counts, begun at 1, brought to 1 over the participants for each label."""
        chosen, rng = self.chosen, generator(SEED, round, "server", "generator")
        have = np.array([c for c in range(CLASSES) if any(count[c] > 1 for count in counts)])
        shares = np.array(counts) / np.sum(counts, axis=0)
        for _ in range(chosen.generator_steps):
            y = have[torch.randint(len(have), (chosen.generator_batch,), generator=rng).numpy()]
            noise = draws(torch.rand(chosen.generator_batch, chosen.noise, generator=rng))
            made = self.made_by.forward(told(noise, y, CLASSES))
            logits = [read(head, made) for head in heads]
            by_made = chosen.diversity * sameness_slope(noise, made)
            # The student term: the mean of −s·KL(Σ_k α_{k,y}·logits_k ‖ broadcast head).
            together = sum(share[y][:, None] * found for share, found in zip(shares, logits, strict=True))
            by_teachers, by_student = divergence_slopes(np.asarray(together), read(self.w[BODY:], made))
            by_made -= chosen.student_weight * by_features(self.w[BODY:], by_student) / len(y)
            for share, head, found in zip(shares, heads, logits, strict=True):
                wrong = cross_entropy_slope(found, y) - chosen.student_weight * by_teachers
                by_made += by_features(head, share[y][:, None] * wrong) / len(y)
            self.made_by.backward(by_made)
            learnt = self.adam.m.size
            flat, rate = self.made_by.flat, chosen.generator_lr * chosen.generator_lr_decay ** (round - 1)
            moved = self.adam.step(flat[:learnt], self.made_by.slope, rate)
            self.made_by.load(np.concatenate([moved, flat[learnt:]]))

    def play(self) -> Array:
        for round, cohort in enumerate(COHORTS, 1):
            models = [self.client(name, SITES[name], round) for name in cohort]
            counts = [np.array([1.0 + int((SITES[name].y == c).sum()) for c in range(CLASSES)]) for name in cohort]
            self.teach([model[BODY:] for model in models], counts, round)  # before it averages
            self.w = np.average(models, axis=0, weights=[len(SITES[name]) for name in cohort])
        return self.w


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"label_weight": 0.3, "kl_weight": 2.0, "diversity": 0.0},
        {"label_weight": 3.0, "kl_weight": 0.5, "diversity": 4.0, "student_weight": 0.7},
    ],
    ids=["the paper's weights", "the divergence above all", "a student"],
)
def test_three_rounds_of_unequal_clients_match_a_slow_version(more: dict[str, object]) -> None:
    # Of five local steps the first three have the generator; b_g / b is 6 / 4.
    sizes = {"noise": 5, "hidden": 6, "generator_steps": 8, "generator_batch": 7, "generated_batch": 6}
    rates = {"early_steps": 3, "generator_lr": 0.01, "generator_lr_decay": 0.9}
    local = Local(steps=5, batch=4, lr=0.05, schedule="exponential", decay=0.9)
    chosen, net = FedGenSettings.model_validate({"local": local, **sizes, **rates, **more}), layered()
    opening = Stage(bound(FedGen(chosen), net), SITES)
    first = opening.method.start(opening)
    made_by = feature_generator(CLASSES, WIDTH, chosen.noise, chosen.hidden)
    made_by.load(draws(first[GENERATOR]))
    adam = Adam(sum(n.size for n in made_by.numbers), decay=chosen.generator_weight_decay)
    slow = Slow(chosen, draws(net.initial()), made_by, adam)
    expected = slow.play()
    fast = play(FedGen(chosen), net, SITES, len(COHORTS), COHORTS)
    np.testing.assert_allclose(draws(fast["model"]), expected, atol=1e-5)
    np.testing.assert_allclose(draws(fast[GENERATOR]), made_by.flat, atol=2e-5)
    np.testing.assert_allclose(draws(fast[MEAN]), adam.m, atol=1e-5)
    np.testing.assert_allclose(draws(fast[SQUARE]), adam.v, atol=1e-6)
    assert int(fast[STEPS]) == adam.steps == 3 * 8
    plain = play(fedavg(AveragingSettings(local=local)), net, SITES, len(COHORTS), COHORTS)["model"]
    assert np.abs(draws(plain) - expected).max() > 1e-2  # the terms did something
    assert np.abs(draws(first[GENERATOR]) - made_by.flat).max() > 1e-2
