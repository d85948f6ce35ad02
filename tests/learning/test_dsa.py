"""Differentiable augmentation: each change by hand on a tiny image, and who shares a draw."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from understudy.errors import UserError
from understudy.learning.dsa import ALL, WITHOUT_FLIP, Draw, DsaKind, apply, draw
from understudy.randomness import generator


def image(*rows: list[float]) -> Tensor:
    return torch.tensor([[list(row) for row in rows]]).unsqueeze(0)


def with_numbers(kind: DsaKind, *u: float) -> Draw:
    return Draw(kind, torch.tensor([[*u, *[0.0] * (3 - len(u))]]))


FOUR = torch.arange(1.0, 17.0).view(1, 1, 4, 4)


# ---- one change at a time


def test_brightness_is_added() -> None:
    # u₁ = 0.75: + 0.25. u₂ = ½ and u₃ = ½: saturation and contrast times 1.
    found = apply(with_numbers("colour", 0.75, 0.5, 0.5), image([1.0, -3.0]))
    assert found.flatten().tolist() == pytest.approx([1.25, -2.75])


def test_saturation_stretches_about_the_mean_of_a_pixel_s_channels() -> None:
    # One pixel (1, 2, 6): mean 3. u₂ = 0.75: times 1½, so 3 + 1½·(−2, −1, 3) = (0, 1.5, 7.5).
    pixel = torch.tensor([1.0, 2.0, 6.0]).view(1, 3, 1, 1)
    assert apply(with_numbers("colour", 0.5, 0.75, 0.5), pixel).flatten().tolist() == pytest.approx([0, 1.5, 7.5])
    assert apply(with_numbers("colour", 0.5, 0.0, 0.5), pixel).flatten().tolist() == pytest.approx([3, 3, 3])


def test_contrast_stretches_about_the_mean_of_the_image() -> None:
    # One grey image (1, 3): mean 2. u₃ = 0.9: times 1.4, so 2 ∓ 1.4.
    found = apply(with_numbers("colour", 0.5, 0.5, 0.9), image([1.0, 3.0]))
    assert found.flatten().tolist() == pytest.approx([0.6, 3.4])


def test_colour_is_all_three_in_turn_and_is_not_clamped() -> None:
    # Two channels, one pixel (2, 4). + 0.25: (2.25, 4.25), mean 3.25; times 1.5: (1.75, 4.75); the image's mean is
    # 3.25 too, times 1.4: 3.25 ∓ 2.1.
    found = apply(with_numbers("colour", 0.75, 0.75, 0.9), torch.tensor([2.0, 4.0]).view(1, 2, 1, 1))
    assert found.flatten().tolist() == pytest.approx([1.15, 5.35])


def test_a_crop_shifts_by_whole_pixels_and_lets_zeros_in() -> None:
    # Side 4: at most int(4/8 + ½) = 1 pixel, so −1, 0, 1 with a third of u each. u = (0.9, 0.1): 1 down, 1 to the left.
    found = apply(with_numbers("crop", 0.9, 0.1), FOUR)
    assert found[0, 0].tolist() == [[0, 0, 0, 0], [2, 3, 4, 0], [6, 7, 8, 0], [10, 11, 12, 0]]
    assert torch.equal(apply(with_numbers("crop", 0.5, 0.5), FOUR), FOUR)


def test_a_cutout_is_a_square_of_half_the_side_that_may_overhang() -> None:
    # Side 4: a square of 2, whose start is 0 … 4 (5 places of u, 0.2 each) minus 1. u = (0.5, 0.99): from row 1 and
    # from column 3, where half of it is outside.
    found = apply(with_numbers("cutout", 0.5, 0.99), FOUR)
    assert found[0, 0].tolist() == [[1, 2, 3, 4], [5, 6, 7, 0], [9, 10, 11, 0], [13, 14, 15, 16]]


def test_a_flip_happens_with_even_odds() -> None:
    assert apply(with_numbers("flip", 0.49), image([1.0, 2.0], [3.0, 4.0])).flatten().tolist() == [2, 1, 4, 3]
    assert apply(with_numbers("flip", 0.5), image([1.0, 2.0], [3.0, 4.0])).flatten().tolist() == [1, 2, 3, 4]


def test_scale_and_rotation_at_rest_change_nothing() -> None:
    # 1/1.2 + u(1.2 − 1/1.2) = 1 for u = (1/6)/(11/30) = 5/11; −15° + 30°·u = 0 for u = ½.
    assert torch.allclose(apply(with_numbers("scale", 5 / 11, 5 / 11), FOUR), FOUR, atol=1e-5)
    assert torch.allclose(apply(with_numbers("rotate", 0.5), FOUR), FOUR, atol=1e-5)


def test_scaling_to_the_full_pulls_zeros_in_from_the_side() -> None:
    # Two pixels have their middles at ∓½ of a width from −1 to 1. Seen 1.2 times as far at ∓0.6, which is 0.1 pixels
    # outside of the middle: 0.9 of the pixel and 0.1 of the 0 beside it. Upwards nothing is stretched.
    found = apply(with_numbers("scale", 1.0, 5 / 11), image([10.0, 20.0], [30.0, 40.0]))
    assert found.flatten().tolist() == pytest.approx([9, 18, 27, 36], abs=1e-4)


def test_a_rotation_keeps_the_middle_and_turns_no_further_than_fifteen_degrees() -> None:
    # On 5×5 a dot two pixels right of the middle moves by 2·sin 15° = 0.518 rows and 2·(1 − cos 15°) = 0.068 columns.
    dot = torch.zeros(1, 1, 5, 5)
    dot[0, 0, 2, 4] = dot[0, 0, 2, 2] = 1
    for u, row in ((0.0, 3), (1.0, 1)):  # −15° looks up where it draws, so the dot goes down
        turned = apply(with_numbers("rotate", u), dot)
        assert float(turned[0, 0, 2, 2]) == pytest.approx(1, abs=1e-6)
        assert float(turned[0, 0, row, 4]) == pytest.approx(0.518 - 0.068 * 0.5, abs=0.06)
        assert float(turned[0, 0, 4 - row, 4]) == 0


# ---- draws


SOME = torch.randn(5, 3, 8, 8, generator=generator("some images"))
OTHERS = torch.randn(3, 3, 8, 8, generator=generator("other images"))


@pytest.mark.parametrize("kind", ALL)
def test_a_siamese_draw_does_the_same_to_every_image_of_both_batches(kind: DsaKind) -> None:
    for seed in range(5):
        shared = draw([kind], generator(seed))
        together = apply(shared, torch.cat([SOME, OTHERS]))
        assert torch.allclose(torch.cat([apply(shared, SOME), apply(shared, OTHERS)]), together, atol=1e-6)
        twice = apply(shared, SOME[:1].repeat(3, 1, 1, 1))
        assert torch.equal(twice[0], twice[2])
        assert torch.equal(apply(shared, SOME), apply(shared, SOME))


@pytest.mark.parametrize("kind", ALL)
def test_a_plain_draw_has_parameters_for_each_image(kind: DsaKind) -> None:
    same = SOME[:1].repeat(12, 1, 1, 1)
    apart = draw([kind], generator("plain"), images=12)
    found = apply(apart, same)
    assert len({image.numpy().tobytes() for image in found}) > 1
    for i in range(12):  # and each of them is what a draw for it alone gives
        alone = Draw(kind, apart.u[i : i + 1])
        assert torch.allclose(apply(alone, same[i : i + 1])[0], found[i], atol=1e-6)


def test_kinds_are_chosen_evenly_and_only_among_the_allowed() -> None:
    rng = generator("kinds")
    chosen = [draw(WITHOUT_FLIP, rng).kind for _ in range(1000)]
    for kind in WITHOUT_FLIP:
        assert 140 < chosen.count(kind) < 260  # 200 expected, standard deviation 12.6
    assert "flip" not in chosen


def test_a_draw_takes_from_its_own_generator_alone_and_equally_much_for_each_kind() -> None:
    noise, global_before = generator("noise"), torch.random.get_rng_state()
    before = noise.get_state()
    left = set()
    for kind in ALL:
        rng = generator("augmentation")
        apply(draw([kind], rng), SOME)
        left.add(rng.get_state().numpy().tobytes())
    assert len(left) == 1
    assert torch.equal(noise.get_state(), before)
    assert torch.equal(torch.random.get_rng_state(), global_before)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(ALL), st.integers(0, 10_000), st.booleans())
def test_every_change_is_differentiable_in_the_images(kind: DsaKind, seed: int, siamese: bool) -> None:
    chosen = draw([kind], generator(seed), images=None if siamese else 2)
    x = torch.randn(2, 2, 4, 4, generator=generator(seed, "x"), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: apply(chosen, x), [x])


# ---- mistakes


def test_what_cannot_be_augmented_is_refused() -> None:
    with pytest.raises(UserError, match="at least one kind"):
        draw([], generator(0))
    with pytest.raises(UserError, match="no differentiable augmentation 'blur'"):
        draw(["blur"], generator(0))  # type: ignore[list-item]
    with pytest.raises(UserError, match="scaled images"):
        apply(draw(ALL, generator(0)), torch.zeros(2, 1, 4, 4, dtype=torch.uint8))
    with pytest.raises(UserError, match="drawn for 3 images but applied to 5"):
        apply(draw(ALL, generator(0), images=3), SOME)


@pytest.mark.parametrize("kind", ALL)
def test_an_empty_batch_stays_empty_whatever_is_drawn(kind: DsaKind) -> None:
    assert apply(draw((kind,), generator("empty")), torch.zeros(0, 3, 8, 8)).shape == (0, 3, 8, 8)
