"""Small changes of shape: none at 0, within their bounds, and one per image."""

import torch

from understudy.learning.warping import warped
from understudy.randomness import generator


def test_no_warp_changes_nothing() -> None:
    x = torch.rand(3, 2, 5, 5, generator=generator("x"))
    assert torch.equal(warped(x, 0.0, generator("warp")), x)
    torch.testing.assert_close(warped(x, 1e-7, generator("warp")), x, atol=1e-4, rtol=0)


def test_a_grey_image_stays_grey_since_the_border_goes_on() -> None:
    x = torch.full((4, 1, 6, 6), 0.7)
    torch.testing.assert_close(warped(x, 0.5, generator("warp")), x)


def test_a_dot_moves_no_further_than_the_bounds_and_differently_in_each_image() -> None:
    # In the centre of 21 pixels nothing but the shift moves a dot: up to 0.15 of half the side, 1.6 pixels.
    x = torch.zeros(200, 1, 21, 21)
    x[:, 0, 10, 10] = 1.0
    mass = warped(x, 0.15, generator("warp"))[:, 0]
    where = torch.arange(21.0)
    right = (mass.sum(1) * where).sum(1) / mass.sum((1, 2)) - 10
    assert right.abs().max().item() < 1.6 + 0.6  # a pixel is as wide as one
    assert right.abs().max().item() > 1
    assert right.std().item() > 0.5
