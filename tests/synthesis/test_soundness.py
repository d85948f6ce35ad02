"""When a generator is complained about, from its images alone."""

import pytest
import torch
from torch import Tensor

from understudy.data.digits import read_digits, read_mnist_5k
from understudy.data.examples import Examples
from understudy.randomness import generator
from understudy.synthesis.soundness import complaint, diversity, diversity_of_numbers, roughness, within_channels


def digits(n: int = 200) -> Examples:
    return read_digits().train.take(range(n))


def noise(*shape: int, of: int = 256) -> Tensor:
    drawn = torch.randint(0, of, shape, generator=generator("noise", *shape))
    return (drawn * (255 // (of - 1))).to(torch.uint8)


LABELS = torch.arange(40) % 4


def test_real_digits_are_fine() -> None:
    some, larger = digits(), read_mnist_5k().train.take(range(200))
    assert complaint(some.x, some.y) is None
    assert complaint(larger.x, larger.y) is None


@pytest.mark.parametrize("digit", range(10))
def test_each_digit_alone_is_fine(digit: int) -> None:
    train = read_digits().train
    ones = train.x[train.y == digit]
    assert complaint(ones, torch.full((len(ones),), digit)) is None


def test_no_image_is_no_complaint() -> None:
    assert complaint(torch.empty(0, 1, 8, 8, dtype=torch.uint8), torch.empty(0, dtype=torch.int64)) is None


@pytest.mark.parametrize("shade", [0, 90, 255])
def test_constant_images_have_no_contrast(shade: int) -> None:
    flat = torch.full((40, 3, 8, 8), shade, dtype=torch.uint8)
    assert "without contrast: 100% of them" in str(complaint(flat, LABELS))


def colours() -> Tensor:
    """(40, 3, 1, 1): a colour of its own for each image, whose three channels lie far apart."""
    return torch.randint(60, 196, (40, 3, 1, 1), generator=generator("colours"))


def test_flat_colours_have_no_contrast_however_colourful() -> None:
    flat = colours().expand(40, 3, 8, 8).to(torch.uint8)
    assert "100% of them are a flat colour" in str(complaint(flat, LABELS))


@pytest.mark.parametrize("one", [True, False])  # around one colour, and around one for each image
def test_white_noise_around_a_colour_is_recognised(one: bool) -> None:
    around = colours()[:1] if one else colours()
    shaken = around + torch.randint(-20, 21, (40, 3, 8, 8), generator=generator("shaken"))
    assert "made noise" in str(complaint(shaken.to(torch.uint8), LABELS))


def test_digits_in_colour_are_fine() -> None:
    some = digits(40)
    painted = 0.4 * some.x + 0.6 * colours()
    assert complaint(painted.to(torch.uint8), some.y) is None


def test_half_of_the_images_may_be_flat() -> None:
    some = digits(40)
    x = some.x.clone()
    x[:20] = 0
    assert complaint(x, some.y) is None
    x[:21] = 0
    assert "52% of them are a flat colour" in str(complaint(x, some.y))


def test_one_image_a_class_repeated_is_a_collapse() -> None:
    train = read_digits().train
    one_each = torch.stack([train.x[train.y == c][0] for c in range(4)])
    repeated = one_each[LABELS]
    shaken = (repeated.int() + torch.randint(-3, 4, repeated.shape, generator=generator(0))).clamp(0, 255)
    for x in (repeated, shaken.to(torch.uint8)):
        assert "40 of its 40 images lie in classes whose images are nearly all the same" in str(complaint(x, LABELS))


def test_one_collapsed_class_among_others_is_let_pass() -> None:
    some = digits(100)
    x = some.x.clone()
    x[some.y == 3] = x[some.y == 3][:1]
    assert complaint(x, some.y) is None


@pytest.mark.parametrize("of", [2, 256])  # black or white, and every shade
@pytest.mark.parametrize("shape", [(40, 1, 8, 8), (40, 3, 32, 32)])
def test_white_noise_is_recognised(shape: tuple[int, ...], of: int) -> None:
    assert "made noise" in str(complaint(noise(*shape, of=of), LABELS))


def test_a_class_with_one_image_is_fine() -> None:
    some = digits(1)
    assert complaint(some.x, some.y) is None
    one_each = read_digits().train.take(range(30))
    assert complaint(one_each.x, torch.arange(30)) is None


def test_records_with_several_labels_are_grouped_by_all_of_them() -> None:
    train = read_digits().train
    two = train.x[:2].repeat(10, 1, 1, 1)  # two images by turns; apart they are copies, together they are not
    apart = torch.tensor([[1.0, 0, 1], [0, 1, 1]]).repeat(10, 1)
    assert "20 of its 20" in str(complaint(two, apart))
    assert complaint(two, torch.ones(20, 3)) is None


def test_variance_is_that_within_channels() -> None:
    # (0, 2) and (5, 5): 1 and 0, though the four numbers together vary by 4.5.
    assert within_channels(torch.tensor([[[[0.0, 2.0]], [[5.0, 5.0]]]])).tolist() == [0.5]


def test_roughness_by_hand() -> None:
    # Columns 0 1 0 1: neighbours across differ by 1 (2 rows × 3), down by 0 (4): 6/10 on average; the variance is 1/4.
    stripes = torch.tensor([0.0, 1.0, 0.0, 1.0]).expand(1, 1, 2, 4)
    assert roughness(stripes) == pytest.approx(0.6 / (2 * 0.25))
    # A step in the middle: 2 of 10 pairs differ by 1.
    assert roughness(torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(1, 1, 2, 4)) == pytest.approx(0.2 / 0.5)
    assert roughness(torch.ones(3, 1, 1, 1)) is None
    # A second channel with the same stripes, but brighter by 7, changes nothing.
    assert roughness(torch.cat([stripes, stripes + 7], 1)) == pytest.approx(0.6 / (2 * 0.25))


def test_diversity_by_hand() -> None:
    # Two images of two pixels, (0, 1) and (1, 0): their squared distance is 1 a pixel, the variance of each 1/4:
    # 1 over √2·½ is √2.
    pair = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).view(2, 1, 1, 2)
    assert diversity(pair) == pytest.approx(2**0.5)
    # (0, 1) and (0, 0.5): 1/8 a pixel; half of it over the mean of the variances, 1/4 and 1/16: (1/16)/(5/32) = 2/5.
    other = torch.tensor([[0.0, 1.0], [0.0, 0.5]]).view(2, 1, 1, 2)
    assert diversity(other) == pytest.approx((2 / 5) ** 0.5)
    assert diversity(pair[:1]) is None
    # A second channel that is 9 more: distances and variances of a channel are as before.
    assert diversity(torch.cat([pair, pair + 9], 1)) == pytest.approx(2**0.5)


def test_float_records_that_differ_are_fine_whatever_their_size() -> None:
    x = torch.randn(40, 6, generator=generator("rows"))
    for made in (x, 1000 * x, x.view(40, 2, 3), x + 5):
        assert complaint(made, LABELS) is None


def test_float_records_all_alike_or_not_finite_are_complained_about() -> None:
    rows = torch.arange(4.0)[LABELS][:, None] + torch.ones(40, 6)
    nearly = rows + 0.01 * torch.randn(40, 6, generator=generator("nearly"))
    assert "40 of its 40 records lie in classes whose records are nearly all the same" in (
        complaint(nearly, LABELS) or ""
    )
    rows[3, 2] = torch.inf
    assert "1 of its 40 records are not finite" in (complaint(rows, LABELS) or "")
    assert complaint(torch.ones(1, 6), torch.tensor([0])) is None


def test_the_diversity_of_numbers_by_hand() -> None:
    # (1, 0) and (3, 0): variances 2 and 0, mean 1; squares 1, 9, 0, 0, mean 2.5.
    assert diversity_of_numbers(torch.tensor([[1.0, 0.0], [3.0, 0.0]])) == pytest.approx((1 / 2.5) ** 0.5)
