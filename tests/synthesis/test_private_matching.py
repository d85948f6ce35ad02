"""Private class means by hand, neighbours, and the published clipping."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.matching import (
    ImageSteps,
    Look,
    Neighbourhood,
    RealClasses,
    looks_near,
    match_distributions,
    match_means,
)
from understudy.synthesis.private_matching import PlannedRelease, PrivateMeans, PublishedNoise, clip_from_noise


def flat_net() -> Network:
    """v(x) = (x₁, x₂, 0, 0): features are the two numbers of a record, the head is nought."""

    def build() -> nn.Module:
        head = nn.Linear(2, 2)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        return Classifier(nn.Flatten(), head)

    return Network(build, Problem(shape=(2,), classes=2))


def released(real: Examples, release: PlannedRelease, planned: tuple[int, ...] = ()) -> torch.Tensor:
    net = flat_net()
    means = PrivateMeans(net, RealClasses(real, (0, 1)), release, lambda purpose: generator(purpose), planned=planned)
    with net.frozen(), torch.no_grad():
        return means(means.draw(), None)


def some(rows: list[tuple[float, float]], labels: list[int]) -> Examples:
    return Examples(torch.tensor(rows, dtype=torch.float32).view(-1, 2), torch.tensor(labels, dtype=torch.int64))


def test_a_release_by_hand() -> None:
    # C = 5: (3, 4) is as long as that and stays, (6, 8) becomes (3, 4); their sum (6, 8) over q·n̄ = 1·4 is (1.5, 2).
    # Class 1 has (0, 1) alone: (0, 0.25), by the same divisor.
    real = some([(3, 4), (0, 1), (6, 8)], [0, 1, 0])
    found = released(real, PlannedRelease(rate=1, records=4, clip=5, noise=0))
    assert found.tolist() == [[pytest.approx(1.5), 2, 0, 0], [0, 0.25, 0, 0]]


def test_records_that_were_dealt_count_in_the_divisor_of_their_class() -> None:
    # Two own records a class are planned; class 0 was dealt two more: (1+3+5+7)/(2+2) = 4 and (2+4)/2 = 3.
    real = some([(1, 0), (3, 0), (0, 2), (0, 4), (5, 0), (7, 0)], [0, 0, 1, 1, 0, 0])
    found = released(real, PlannedRelease(rate=1, records=2, clip=100, noise=0), planned=(4, 2))
    assert found.tolist() == [[4, 0, 0, 0], [0, 3, 0, 0]]


rows = st.tuples(st.floats(-20, 20, width=32), st.floats(-20, 20, width=32))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(rows, st.integers(0, 1)), max_size=6), rows, st.integers(0, 1), st.floats(0.5, 10))
def test_one_record_more_moves_one_class_by_no_more_than_the_clip(
    held: list[tuple[tuple[float, float], int]], extra: tuple[float, float], label: int, clip: float
) -> None:
    # σ = 0, every record sampled: neighbours differ by at most C / (q·(n̄ + m)), and only in the record's own class; the
    # divisor is planned, so no other number moves, however many records there are. Three of class 1 were dealt.
    release = PlannedRelease(rate=1, records=7, clip=clip, noise=0)
    xs, ys = [row for row, _ in held], [y for _, y in held]
    before, after = (
        released(some([*xs, *more, *[(9, 9)] * 3], [*ys, *[label] * len(more), 1, 1, 1]), release, planned=(7, 10))
        for more in ([], [extra])
    )
    assert (after - before)[label].norm() <= clip / (7, 10)[label] * (1 + 1e-4) + 1e-6
    assert torch.equal(after[1 - label], before[1 - label])


def test_a_class_without_records_releases_noise_of_the_planned_size() -> None:
    # std σC/(q·n̄) = 2·3/(0.25·40) = 0.6, over 4 numbers in each of 3000 releases of 2 classes.
    net, release = flat_net(), PlannedRelease(rate=0.25, records=40, clip=3, noise=2)
    means = PrivateMeans(net, RealClasses(some([], []), (0, 1)), release, lambda purpose: generator(purpose))
    with net.frozen(), torch.no_grad():
        found = torch.cat([means(means.draw(), None) for _ in range(3000)])
    assert found.std().item() == pytest.approx(0.6, rel=0.02)
    assert abs(found.mean().item()) < 0.02


def test_records_are_drawn_one_by_one_and_numbers_vary() -> None:
    # 40 records of (1, 0) at q = ¼: on average 10 of them, binomial with variance 7.5; the divisor 0.25·40 stays.
    net, release = flat_net(), PlannedRelease(rate=0.25, records=40, clip=1, noise=0)
    real = RealClasses(some([(1, 0)] * 40, [0] * 40), (0,))
    means = PrivateMeans(net, real, release, lambda purpose: generator(purpose))
    with net.frozen(), torch.no_grad():
        drawn = torch.stack([means(means.draw(), None)[0, 0] * 10 for _ in range(2000)])
    assert drawn.mean().item() == pytest.approx(10, abs=0.3)
    assert drawn.var().item() == pytest.approx(7.5, rel=0.15)
    assert torch.allclose(drawn, drawn.round(), atol=1e-4)


def test_without_noise_and_with_all_records_it_is_plain_matching() -> None:
    # A radius that float32 does not see; the batch is the whole class and n̄ the true number.
    net, real = flat_net(), some([(1, 2), (3, 1), (0, 1), (2, 2)], [0, 0, 1, 1])
    x = torch.randn(4, 2, generator=generator("x"))
    classes, steps = RealClasses(real, (0, 1)), ImageSteps(lr=0.1, momentum=0.5)
    plain = match_distributions(net, x, classes, 2, Neighbourhood(net.initial(), 1e-12, 3, generator("a")), steps)
    means = PrivateMeans(net, classes, PlannedRelease(rate=1, records=2, clip=100, noise=0), lambda _: generator("b"))
    looks = looks_near(net, Neighbourhood(net.initial(), 1e-12, 3, generator("c")), means, 2)
    private = match_means(net, x, looks, 2, steps)
    assert torch.allclose(plain, private, atol=1e-6)


def test_looks_can_be_used_again() -> None:
    # One look, two steps: v̄ = mean of the two images m, wanted (1, 1); the slope for each is m − (1, 1). From m = 0 at
    # rate 0.5: m = (0.5, 0.5), then (0.75, 0.75).
    net = flat_net()
    look = Look(net.initial(), None, torch.tensor([[1.0, 1.0, 0.0, 0.0]]))
    after = match_means(net, torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), [look, look], 2, ImageSteps(0.5, momentum=0.0))
    assert after.tolist() == [[1.75, 0.75], [-0.25, 0.75]]


def test_the_clip_is_the_median_length_of_noise() -> None:
    # ‖v‖ of two normal numbers has the median √(2 ln 2) = 1.177.
    net = flat_net()
    assert clip_from_noise(net, net.initial(), generator("clip"), images=20_000) == pytest.approx(
        math.sqrt(2 * math.log(2)), rel=0.02
    )


def test_the_published_clipping_is_of_the_mean_gradient_of_a_class() -> None:
    # Class 0: (3, 0) and (0, 4) together have the length 5, clipped to 1: a fifth. Class 1 is short enough.
    grad = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.1, 0.0], [0.0, 0.2]])
    found = PublishedNoise(grad, 2, clip=1.0, noise=0.0, steps=1, rng=generator("none"))(grad)
    assert torch.allclose(found, torch.tensor([[0.6, 0.0], [0.0, 0.8], [0.1, 0.0], [0.0, 0.2]]))
    large = torch.zeros(2000, 5)
    noised = PublishedNoise(large, 2, clip=4.0, noise=0.5, steps=1, rng=generator("some"))(large)
    assert noised.std().item() == pytest.approx(2.0, rel=0.03)  # noise · C
