"""Flips, crops and warps on images small enough to see."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from understudy.errors import UserError
from understudy.learning.augmentation import Augmentation, changed, draw_changes
from understudy.learning.warping import drawn_warps, warped, warped_by
from understudy.randomness import generator


def augment(x: Tensor, kinds: list[Augmentation], rng: torch.Generator) -> Tensor:
    return changed(x, kinds, draw_changes(len(x), kinds, rng))


def counting(n: int, channels: int, high: int, wide: int, dtype: torch.dtype = torch.uint8) -> Tensor:
    """Images in which no two pixels are alike, and none is black."""
    return (torch.arange(n * channels * high * wide).view(n, channels, high, wide) + 1).to(dtype)


def test_a_flip_mirrors_an_image_or_leaves_it() -> None:
    x = torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8).repeat(200, 1, 1, 1)
    flipped = augment(x, ["flip"], generator("flip"))
    mirrored = torch.tensor([[2, 1], [4, 3]], dtype=torch.uint8)
    as_it_was = (flipped == x).all(-1).all(-1)
    assert bool((as_it_was | (flipped == mirrored).all(-1).all(-1)).all())
    assert 70 < int(as_it_was.sum()) < 130  # half of 200, give or take four standard errors


def test_a_flip_follows_the_draws_of_its_generator() -> None:
    x = counting(8, 1, 1, 3)
    drawn = torch.rand(8, generator=generator("same")) < 0.5
    flipped = augment(x, ["flip"], generator("same"))
    for image, before, turned in zip(flipped, x, drawn, strict=True):
        assert torch.equal(image, before.flip(-1) if turned else before)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.sampled_from([1, 3]), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_a_crop_is_a_slice_of_the_padded_image(n: int, channels: int, high: int, wide: int, seed: int) -> None:
    x = counting(n, channels, high, wide, torch.float32)
    cropped = augment(x, ["crop"], generator(seed))
    tops, lefts = torch.randint(0, 9, (2, n), generator=generator(seed)).tolist()
    padded = functional.pad(x, (4, 4, 4, 4))
    for image, whole, top, left in zip(cropped, padded, tops, lefts, strict=True):
        assert torch.equal(image, whole[:, top : top + high, left : left + wide])


def test_every_window_is_drawn_and_the_border_is_black() -> None:
    # One white pixel, so that a crop shows where it went: 9 × 9 windows, one of them has it.
    x = torch.full((4000, 1, 1, 1), 255, dtype=torch.uint8)
    kept = (augment(x, ["crop"], generator("border")) == 255).sum()
    assert 25 < int(kept) < 80  # 4000/81 = 49, give or take four standard errors


def test_a_warp_is_drawn_for_each_image_and_is_that_of_the_moments() -> None:
    x = torch.rand(5, 2, 6, 7, generator=generator("x"))
    after = augment(x, ["warp"], generator("warp"))
    assert torch.equal(after, warped(x, 0.15, generator("warp")))
    alone = [warped_by(x[i : i + 1], drawn_warps(5, 0.15, generator("warp"))[:, i : i + 1]) for i in range(5)]
    torch.testing.assert_close(after, torch.cat(alone))


def test_a_shift_to_the_right_by_hand() -> None:
    # Two pixels, centres at −½ and ½ of half the side. Looking ¼ further right: at −¼ and ¾, that is a quarter of a
    # pixel's distance (1) from the left centre, and beyond the right one, where the border goes on.
    x = torch.tensor([[[[0.0, 100.0]]]])
    looked = torch.tensor([[0.0], [0.0], [0.0], [0.0], [0.25], [0.0]])
    torch.testing.assert_close(warped_by(x, looked), torch.tensor([[[[25.0, 100.0]]]]))
    assert changed(x.to(torch.uint8), ["warp"], [looked]).flatten().tolist() == [25, 100]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_shape_and_kind_of_number_stay(dtype: torch.dtype) -> None:
    x = counting(3, 3, 5, 4, dtype)
    after = augment(x, ["crop", "flip", "warp"], generator(0))
    assert after.shape == x.shape
    assert after.dtype == dtype
    assert after.is_contiguous()


def test_the_same_generator_gives_the_same_images_and_the_original_is_untouched() -> None:
    x = counting(5, 1, 4, 4)
    before = x.clone()
    kinds: list[Augmentation] = ["crop", "flip"]
    assert torch.equal(augment(x, kinds, generator(1)), augment(x, kinds, generator(1)))
    assert not torch.equal(augment(x, kinds, generator(1)), augment(x, kinds, generator(2)))
    assert torch.equal(x, before)


def test_no_kind_changes_nothing_and_no_image_is_no_trouble() -> None:
    x = torch.rand(3, 7)
    assert augment(x, [], generator(0)) is x
    assert augment(counting(0, 1, 4, 4), ["crop", "flip", "warp"], generator(0)).shape == (0, 1, 4, 4)


def test_records_that_are_no_images_are_refused() -> None:
    with pytest.raises(UserError, match=r"crop needs images .* shape \(7,\); leave augmentation empty"):
        augment(torch.rand(3, 7), ["crop"], generator(0))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match="no augmentation 'spin'; choose flip, crop or warp"):
        augment(counting(1, 1, 2, 2), ["spin"], generator(0))  # type: ignore[list-item]
