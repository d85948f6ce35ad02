"""DENSE beside a slow version in plain numpy: rounds of averaging, the upload, generated images and distillation."""

import numpy as np
import pytest
from numpy_dense import EDGE, WIDTH, SlowDense
from numpy_layers import draws
from stage import Body, Stage, bound, pictures
from torch import nn

from understudy.data.problem import Problem
from understudy.federation.method import State
from understudy.learning.local import Local
from understudy.methods.dense import SPEED, Dense, DenseSettings
from understudy.models.network import Network
from understudy.synthesis import image_network

SIDE = 6  # a generator makes 8 × 8 of it and cuts
SITES = {
    "a": pictures([0, 1, 1, 0, 2, 1, 1], side=SIDE, name="a"),
    "b": pictures([2, 2, 0, 2, 1, 2, 2, 0, 2, 2], side=SIDE, name="b"),
    "c": pictures([0, 1, 0, 0, 0, 1], side=SIDE, name="c"),
    "d": pictures([0, 1, 2], side=SIDE, name="d"),
}
# d is never asked; c is there for a round of averaging and not when models are sent up; the last round asks nobody.
COHORTS = [["a", "b"], ["b", "c"], ["a"], ["a", "b"], ["c"]]


def network(problem: Problem, normed: bool) -> Network:
    def build() -> nn.Module:
        norm = [nn.BatchNorm1d(WIDTH)] if normed else []
        body = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, WIDTH), *norm, nn.Tanh())
        return Body(body, nn.Linear(WIDTH, problem.classes))

    return Network(build, problem)


def slow_and_fast(chosen: DenseSettings, problem: Problem, normed: bool) -> tuple[SlowDense, State]:
    net = network(problem, normed)
    fast = Stage(bound(Dense(chosen), net, len(COHORTS)), SITES, COHORTS).play(len(COHORTS))
    theirs = [draws(fast[f"pool.{epoch:05d}.x"]) for epoch in range(chosen.epochs)]
    slow = SlowDense(chosen, problem, normed, draws(net.initial()), lambda seed: draws(net.redrawn(seed)), theirs)
    for round, cohort in enumerate(COHORTS, 1):
        if round <= chosen.pre_rounds:
            slow.average(SITES, cohort, round)
            continue
        if not slow.members:
            slow.gather(SITES, cohort, round)
        slow.distil(round, chosen.epochs_a_round)
    return slow, fast


@pytest.mark.parametrize("normed", [False, True], ids=["no norm", "BatchNorm"])
@pytest.mark.parametrize("start", ["fresh", "server"])
def test_averaging_and_one_shot_match_a_slow_version(start: str, normed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # A narrow generator: among 10⁵ weights a few have slopes that are nothing but rounding, which Adam makes large.
    monkeypatch.setattr(image_network, "WIDE", 8)
    monkeypatch.setattr(image_network, "NARROW", 4)
    words = {"pre_rounds": 3, "student_init": start, "epochs": 4, "epochs_a_round": 2, "images": 6}
    rates = {"generator_steps": 4, "generator_lr": 0.002, "adversarial_weight": 1.5, "statistics_weight": 0.3}
    training = {
        "local": Local(epochs=2, batch=4, lr=0.1),
        "alone": Local(epochs=3, batch=4, lr=0.1, momentum=0.9),
        "student": Local(epochs=1, batch=4, lr=0.02, momentum=0.9),
    }
    chosen = DenseSettings.model_validate({**words, **rates, **training})
    problem = Problem(shape=(1, SIDE, SIDE), classes=3, mean=(0.4,), std=(0.3,))
    slow, fast = slow_and_fast(chosen, problem, normed)
    for name in ("a", "b"):
        np.testing.assert_allclose(draws(fast[f"client.{name}"]), slow.members[name], atol=1e-5)
    assert {part for part in fast if part.startswith("client.")} == {"client.a", "client.b"}
    for epoch, (levels, eight_bits) in enumerate(zip(slow.levels, slow.pool(), strict=True)):
        assert np.abs(slow.theirs[epoch] - levels).max() < 0.5 + EDGE
        said = [slow.network(w).forward(slow.scaled(eight_bits / 255), training=False) for w in slow.members.values()]
        np.testing.assert_allclose(draws(fast[f"pool.{epoch:05d}.logits"]), (said[0] + said[1]) / 2, atol=2e-5)
    np.testing.assert_allclose(draws(fast["model"]), slow.w, atol=2e-5)
    # A slope is T·(q − p), so the rounding of q and p counts T = 20 times, and momentum sums it up.
    np.testing.assert_allclose(draws(fast[SPEED]), slow.speed, atol=1e-4)
