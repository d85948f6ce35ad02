"""Noise from a public seed: the same everywhere, a distribution a class, and the arithmetic of styles."""

import pytest
import torch
from torch.nn import functional as F

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.randomness import generator
from understudy.synthesis.noise_sets import StyleGenerator, modulated, noise_set

GREY = Problem(shape=(1, 6, 8), classes=3)


@pytest.mark.parametrize("noise", ["style", "gaussian"])
def test_the_same_seed_gives_the_same_set_and_another_one_another(noise: str) -> None:
    first = noise_set.__wrapped__(noise, GREY, 4, 0.3, 0)
    assert torch.equal(first.x, noise_set.__wrapped__(noise, GREY, 4, 0.3, 0).x)
    assert not torch.equal(first.x, noise_set.__wrapped__(noise, GREY, 4, 0.3, 1).x)
    assert first.x.shape == (12, 1, 6, 8)
    assert first.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_nothing_global_is_drawn_from() -> None:
    before = torch.get_rng_state()
    noise_set.__wrapped__("style", GREY, 4, 0.3, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_gaussian_records_have_a_mean_of_their_class_and_the_spread_around_it() -> None:
    made = noise_set.__wrapped__("gaussian", Problem(shape=(2000,), classes=2), 50, 0.3, 0)
    means = torch.stack([made.x[made.y == c].mean(0) for c in (0, 1)])
    within = torch.stack([made.x[made.y == c].std(0) for c in (0, 1)])
    assert within.mean().item() == pytest.approx(0.3, rel=0.02)
    # A class mean has 0.3 of its own and 0.3/√50 from its 50 records: √(0.09 + 0.0018) = 0.303.
    assert means.std().item() == pytest.approx(0.303, rel=0.05)


def test_pictures_are_bytes_that_use_their_range_and_differ_by_class() -> None:
    made = noise_set("style", Problem(shape=(3, 16, 16), classes=4), 50, 0.3, 0)
    assert made.x.dtype == torch.uint8
    assert made.x.float().mean().item() == pytest.approx(127.5, abs=4)
    assert made.x.float().std().item() == pytest.approx(60, abs=6)  # 64, less what is cut off
    pixels = made.x.flatten(1).float()
    centres = torch.stack([pixels[made.y == c].mean(0) for c in range(4)])
    nearest = torch.cdist(pixels, centres).argmin(1)
    assert (nearest == made.y).float().mean() > 0.6  # by chance: 0.25


def test_a_styled_convolution_is_that_of_a_styled_kernel_of_unit_length() -> None:
    # The slow way: for each picture its own kernel, style · kernel / ‖style · kernel‖ over each output.
    rng = generator("modulated")
    x, kernel = torch.randn(2, 3, 5, 5, generator=rng), torch.randn(4, 3, 3, 3, generator=rng)
    style = torch.randn(2, 3, generator=rng)
    for n in range(2):
        own = kernel * style[n].view(1, 3, 1, 1)
        own = own / own.flatten(1).norm(dim=1).view(4, 1, 1, 1)
        expected = F.conv2d(x[n : n + 1], own, padding=1)
        assert torch.allclose(modulated(x, kernel, style)[n : n + 1], expected, atol=1e-5)


def test_a_generator_grows_to_the_next_power_of_two() -> None:
    z = torch.randn(2, 64, generator=generator("z"))
    assert StyleGenerator(3, 28, generator("g"))(z).shape == (2, 3, 32, 32)
    assert StyleGenerator(1, 4, generator("g"))(z).shape == (2, 1, 4, 4)
    assert StyleGenerator(1, 3, generator("g"))(z).shape == (2, 1, 4, 4)


def test_pictures_of_rows_of_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="use gaussian noise"):
        noise_set("style", Problem(shape=(5,), classes=3), 2, 0.3, 0)
