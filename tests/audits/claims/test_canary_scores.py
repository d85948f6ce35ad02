"""Scores of canaries on mechanisms that are known exactly: nothing is claimed that is not so, and little is missed."""

import numpy as np
import pytest
import torch
from torch import Tensor

from understudy.audits.claims.canary_run import fair_coins
from understudy.audits.claims.canary_scores import Filtered, Sketch, decorrelated
from understudy.audits.claims.one_run import OneRun, audit_one_run
from understudy.audits.claims.preparing import claim_of
from understudy.privacy.accounting import Spending
from understudy.randomness import generator, numpy_generator

CANARIES, NUMBERS = 80, 160


def directions(rng: torch.Generator) -> Tensor:
    """Of length 1, with half of it in common."""
    apart = torch.randn(CANARIES, NUMBERS, generator=rng, dtype=torch.float64)
    shared = torch.ones(NUMBERS, dtype=torch.float64)
    normalize = torch.nn.functional.normalize
    return normalize(normalize(apart, dim=1) + normalize(shared, dim=0), dim=1)


def releases(rng: torch.Generator, coins: Tensor, rate: float, steps: int, noise: float) -> list[Filtered]:
    found = []
    for _ in range(steps):
        does = directions(rng)
        drawn = coins * (torch.rand(CANARIES, generator=rng) < rate)
        released = drawn.double() @ does + noise * torch.randn(NUMBERS, generator=rng, dtype=torch.float64)
        found.append(Filtered(does @ released, does.float()))
    return found


def audited(number: int, rate: float, steps: int, noise: float) -> OneRun:
    """Of the sampled Gaussian mechanism that claims σ = 1 and has this ``noise``."""
    rng, ties = generator("scores", number), numpy_generator("ties", number)
    coins = torch.rand(CANARIES, generator=rng) < 0.5
    scores = decorrelated(releases(rng, coins, rate, steps, noise), rate, 1.0)
    claim = claim_of((Spending(rate, 1.0, steps),), 1e-5)
    numbers, ins = ((60, 20), 0.5) if rate == 1 else ((20, 10), 1.0)
    return audit_one_run(scores, coins.numpy(), claim, numbers, ties, 0.05, ins)


@pytest.mark.parametrize(("rate", "steps"), [(1.0, 1), (0.3, 3)])
def test_the_bound_lies_below_the_truth_of_an_exact_gaussian(rate: float, steps: int) -> None:
    claim = claim_of((Spending(rate, 1.0, steps),), 1e-5)
    found = [audited(number, rate, steps, 1.0) for number in range(100)]
    assert sum(one.epsilon_lower <= claim.epsilon for one in found) >= 95
    assert sum(one.refuted for one in found) <= 5


@pytest.mark.parametrize(("rate", "steps"), [(1.0, 1), (0.3, 3)])
def test_without_noise_guesses_are_flawless(rate: float, steps: int) -> None:
    found = audited(0, rate, steps, 1e-3)
    assert found.guesses.right == found.guesses.made
    assert found.epsilon_lower == found.cap
    assert found.refuted or not found.within_reach


def test_unmixed_scores_tell_more_than_products() -> None:
    right: list[tuple[float, float]] = []
    for number in range(10):
        rng = generator("unmixing", number)
        coins = torch.rand(CANARIES, generator=rng) < 0.5
        (release,) = releases(rng, coins, 1.0, 1, 0.1)
        unmixed = torch.from_numpy(decorrelated([release], 1.0, 1.0))
        right.append((_share_right(unmixed, coins), _share_right(release.products, coins)))
    mean = np.mean(right, axis=0)
    assert mean[0] > 0.9
    assert mean[0] > mean[1] + 0.1


def _share_right(scores: Tensor, coins: Tensor) -> float:
    return float(((scores > scores.median()) == coins).float().mean())


def test_canaries_that_do_nothing_score_alike() -> None:
    nothing = Filtered(torch.zeros(4, dtype=torch.float64), torch.zeros(4, 3))
    assert decorrelated([nothing, nothing], 0.2, 1.0).tolist() == [0.0] * 4


def test_a_sketch_keeps_inner_products() -> None:
    rng = generator("sketch")
    a, b = torch.randn(2, 20_000, generator=rng)
    b = a + 0.5 * b
    small, whole = Sketch.of(20_000, 2_000, 0), Sketch.of(20_000, 20_000, 0)
    assert torch.equal(whole(a), a)
    assert small.size == 2_000
    assert float(small(a) @ small(b)) == pytest.approx(float(a @ b), rel=0.1)
    other = Sketch.of(20_000, 2_000, 1)
    assert abs(float(small(a) @ other(b))) < 0.1 * float(a @ b), "another release has other places and signs"


def test_coins_are_fair_and_nobody_who_knows_a_seed_knows_them() -> None:
    torch.manual_seed(1)
    first = fair_coins(4000)
    torch.manual_seed(1)
    second = fair_coins(4000)
    assert 1800 < first.sum() < 2200
    assert 1800 < (first == second).sum() < 2200
