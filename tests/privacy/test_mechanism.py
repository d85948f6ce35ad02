"""The sampled Gaussian mechanism: what one record can do, and where noise comes from."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import UserError
from understudy.federation.budget import no_budget
from understudy.privacy.mechanism import (
    NoisyMeans,
    clip_rows,
    poisson_rows,
    secret_generator,
    with_noise,
)
from understudy.privacy.promise import PrivacySettings
from understudy.randomness import generator


def private_sum(vectors: torch.Tensor, *, clip: float, noise: float, rng: torch.Generator) -> torch.Tensor:
    """As methods put the steps together."""
    return with_noise(clip_rows(vectors, clip).sum(0), clip=clip, noise=noise, rng=rng)


def private_mean(
    vectors: torch.Tensor, *, clip: float, noise: float, expected: float, rng: torch.Generator
) -> torch.Tensor:
    total = clip_rows(vectors, clip).sum(0)
    return NoisyMeans(total, clip=clip, noise=noise, expected=expected, releases=1, rng=rng)(total)


def streams_of_a_client(seed: int, test_noise: bool, *words: int | str) -> list[torch.Generator]:
    """One for sampling, one for noise."""
    budget = no_budget("a", 1)
    budget.privacy = PrivacySettings(test_noise=test_noise)
    return [budget.secret_stream(seed, *words, purpose) for purpose in ("sampling", "noise")]


def test_long_rows_are_shortened_and_short_ones_stay() -> None:
    # (3, 4) has norm 5, so a clip of 1 divides it by 5; (0.3, 0.4) has norm 0.5; (0, 0) has no direction.
    found = clip_rows(torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 1.0)
    assert torch.allclose(found, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


def test_a_row_that_is_not_finite_is_nought() -> None:
    rows = torch.tensor([[3.0, 4.0], [torch.inf, 0.0], [torch.nan, 1.0], [3e38, 3e38]])
    assert clip_rows(rows, 1.0).tolist() == [pytest.approx([0.6, 0.8]), [0, 0], [0, 0], [0, 0]]


def test_there_are_as_many_releases_as_planned_each_with_noise_of_its_own() -> None:
    total, rng = torch.tensor([1.0, 2.0, 3.0]), generator("noise")
    means = NoisyMeans(total, clip=2.0, noise=0.5, expected=4.0, releases=3, rng=rng)
    found = [means(total) for _ in range(3)]
    # σC = 1: the stream's own numbers, one vector after another.
    drawn = torch.randn(3, 3, generator=generator("noise"), dtype=torch.float64)
    assert torch.equal(torch.stack(found), (total + drawn.float()) / 4)
    with pytest.raises(ValueError, match="more than planned"):
        means(total)


def test_noise_is_drawn_when_it_is_used() -> None:
    total, rng = torch.zeros(5), generator("noise")
    means = NoisyMeans(total, clip=1.0, noise=1.0, expected=1.0, releases=9, rng=rng)
    before = rng.get_state()
    assert torch.equal(before, generator("noise").get_state())
    means(total)
    one = generator("noise")
    torch.randn(5, generator=one, dtype=torch.float64)
    assert torch.equal(rng.get_state(), one.get_state())


def test_a_sum_of_another_shape_is_refused() -> None:
    """One number of noise would spread over all of a longer sum."""
    means = NoisyMeans(torch.zeros(1), clip=1.0, noise=1.0, expected=1.0, releases=1, rng=generator("noise"))
    with pytest.raises(ValueError, match="has shape"):
        means(torch.zeros(3))


def test_a_mean_by_hand() -> None:
    # Clip 5: (3, 4) stays, (6, 8) becomes (3, 4). Their sum (6, 8) is divided by the 4 that were expected, not by 2.
    vectors = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    found = private_mean(vectors, clip=5.0, noise=0.0, expected=4.0, rng=generator("any"))
    assert found.tolist() == pytest.approx([1.5, 2.0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 6), st.integers(1, 5), st.floats(0.01, 10), st.integers(0, 10_000))
def test_neighbours_without_noise_differ_by_at_most_the_clip(n: int, d: int, clip: float, seed: int) -> None:
    vectors = torch.randn(n + 1, d, generator=generator(seed), dtype=torch.float64) * 3
    for left_out in range(n + 1):
        fewer = torch.cat([vectors[:left_out], vectors[left_out + 1 :]])
        whole, without = (private_sum(v, clip=clip, noise=0.0, rng=generator("any")) for v in (vectors, fewer))
        assert float((whole - without).norm()) <= clip * (1 + 1e-9)
        # The divisor is the same for both: means differ by the difference of the sums over it.
        means = [private_mean(v, clip=clip, noise=0.0, expected=7.0, rng=generator("any")) for v in (vectors, fewer)]
        assert torch.allclose(means[0] - means[1], (whole - without) / 7.0)


def test_neighbours_get_the_same_noise_from_the_same_stream() -> None:
    vectors = torch.randn(5, 3, generator=generator("vectors"))
    one = private_sum(vectors, clip=1.0, noise=2.0, rng=generator("noise"))
    other = private_sum(vectors[:4], clip=1.0, noise=2.0, rng=generator("noise"))
    assert torch.allclose(one - other, clip_rows(vectors[4:], 1.0)[0], atol=1e-5)


def test_sizes_of_batches_vary_as_poisson_sampling_makes_them() -> None:
    # Binomial(400, 0.1): mean 40, variance 36. Of 2000 draws the mean is off by 6/√2000 = 0.134 at one standard error,
    # the variance by about 36·√(2/2000) = 1.14.
    rng = generator("sizes")
    sizes = torch.tensor([len(poisson_rows(400, 0.1, rng)) for _ in range(2000)], dtype=torch.float64)
    assert abs(float(sizes.mean()) - 40) < 4 * 0.134
    assert abs(float(sizes.var()) - 36) < 4 * 1.14


def test_every_record_is_drawn_alike_and_alone() -> None:
    # Two records at rate 1/2: the four outcomes have 1/4 each; of 4000 draws the standard error is 0.0068.
    rng = generator("pairs")
    outcomes = [tuple(poisson_rows(2, 0.5, rng).tolist()) for _ in range(4000)]
    for outcome in ((), (0,), (1,), (0, 1)):
        assert abs(outcomes.count(outcome) / 4000 - 0.25) < 4 * 0.0068


def test_rate_one_takes_every_record_and_an_empty_set_gives_none() -> None:
    assert poisson_rows(4, 1.0, generator("all")).tolist() == [0, 1, 2, 3]
    assert poisson_rows(0, 0.5, generator("none")).tolist() == []


def test_an_empty_batch_releases_noise_alone_over_the_expected_size() -> None:
    # σ·C/(q·n̄) = 2·3/(0.1·50) = 1.2; of 40 000 numbers the standard error of the deviation is 1.2/√80000 = 0.0042.
    found = private_mean(torch.zeros(0, 40_000), clip=3.0, noise=2.0, expected=0.1 * 50, rng=generator("empty"))
    assert abs(float(found.std()) - 1.2) < 4 * 0.0042
    assert abs(float(found.mean())) < 4 * 1.2 / 200


def test_noise_has_tails_that_single_precision_would_cut_off() -> None:
    # Single precision makes normals from uniforms of 24 bits: none is beyond √(2·ln 2²⁴) = 5.77. P(|z| > 5.77) is
    # 8e-9, so this asks for the mechanism's own draws to be double, not for one of them.
    drawn = torch.randn(1000, generator=generator("tail"), dtype=torch.float64)
    found = private_sum(torch.zeros(0, 1000, dtype=torch.float64), clip=1.0, noise=1.0, rng=generator("tail"))
    assert torch.equal(found, drawn)


def test_no_other_seed_moves_the_noise() -> None:
    def released() -> list[float]:
        torch.manual_seed(5)
        np.random.seed(5)
        random.seed(5)
        sampling, noise = streams_of_a_client(5, False, "client", 1)
        rows = poisson_rows(64, 0.5, sampling).tolist()
        return rows + private_sum(torch.zeros(0, 8), clip=1.0, noise=1.0, rng=noise).tolist()

    with torch.random.fork_rng():
        assert released() != released()


def test_drawing_does_not_touch_the_global_generator_nor_augmentation() -> None:
    augmentation = generator("augmentation")
    before, beside = torch.default_generator.get_state(), augmentation.get_state()
    sampling, noise = streams_of_a_client(5, False)
    poisson_rows(10, 0.5, sampling)
    private_sum(torch.zeros(0, 8), clip=1.0, noise=1.0, rng=noise)
    assert torch.equal(before, torch.default_generator.get_state())
    assert torch.equal(beside, augmentation.get_state())


def test_seeding_the_augmentation_does_not_move_the_noise() -> None:
    # The same private stream twice; between draws the augmentation is seeded, as in the published code.
    def released(reseed: bool) -> torch.Tensor:
        _, noise = streams_of_a_client(7, True, "client")
        first = private_sum(torch.zeros(0, 4), clip=1.0, noise=1.0, rng=noise)
        if reseed:
            torch.manual_seed(123)
        return torch.cat([first, private_sum(torch.zeros(0, 4), clip=1.0, noise=1.0, rng=noise)])

    with torch.random.fork_rng():
        assert torch.equal(released(False), released(True))


def test_test_noise_repeats_itself_and_has_two_streams() -> None:
    def first_of(*words: int | str) -> list[float]:
        streams = streams_of_a_client(3, True, *words)
        return [float(torch.rand((), generator=stream, dtype=torch.float64)) for stream in streams]

    assert first_of("a", 1) == first_of("a", 1)
    assert len({*first_of("a", 1), *first_of("a", 2), *first_of("b", 1)}) == 6


def test_secret_generators_have_more_than_a_seed_of_their_own() -> None:
    # Of a seed, torch takes the low 32 bits; a secret generator's whole state is drawn, so its words differ as well
    # from those that any seed gives: the second word follows from the first.
    assert torch.equal(
        torch.randn(4, generator=torch.Generator().manual_seed(1)),
        torch.randn(4, generator=torch.Generator().manual_seed(1 + 2**32)),
    )
    words = secret_generator().get_state()[24 : 24 + 8 * 624].view(torch.int64)
    first = int(words[0])
    assert int(words[1]) != (1812433253 * (first ^ (first >> 30)) + 1) % 2**32
    assert 0 <= int(words.min()) <= int(words.max()) < 2**32
    assert len(set(words.tolist())) > 600
    drawn = torch.randn(20_000, generator=secret_generator(), dtype=torch.float64)
    assert abs(float(drawn.mean())) < 5 / 20_000**0.5
    assert abs(float(drawn.std()) - 1) < 5 / 40_000**0.5


def test_impossible_numbers_are_refused_by_name() -> None:
    rng, none = generator("any"), torch.zeros(0, 2)
    with pytest.raises(UserError, match="rate"):
        poisson_rows(3, 0.0, rng)
    with pytest.raises(UserError, match="clip"):
        private_sum(none, clip=0.0, noise=1.0, rng=rng)
    with pytest.raises(UserError, match="noise"):
        private_sum(none, clip=1.0, noise=-1.0, rng=rng)
    with pytest.raises(UserError, match="expected"):
        private_mean(none, clip=1.0, noise=1.0, expected=0.0, rng=rng)
