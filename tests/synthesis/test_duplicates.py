"""Copies of training records among made images: distances by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from understudy.errors import UserError
from understudy.randomness import generator
from understudy.synthesis.duplicates import near_duplicates


def two_pixels(*rows: tuple[int, int]) -> Tensor:
    """Images (n, 1, 1, 2)."""
    return torch.tensor(rows, dtype=torch.uint8).view(-1, 1, 1, 2)


# Their nearest others: (0, 0) and (30, 40) lie 50 apart; (200, 0) lies √(170² + 40²) = 174.6 from (30, 40).
REAL = two_pixels((0, 0), (30, 40), (200, 0))


def test_an_image_is_too_near_below_a_third_of_the_records_own_distance() -> None:
    # From (0, 0), whose nearest is 50 away: 16 < 50/3 < 17. From (200, 0): 54 < 58.2 < 60.
    made = two_pixels((0, 16), (0, 17), (200, 54), (200, 60), (100, 100))
    assert near_duplicates(made, REAL).tolist() == [True, False, True, False, False]


def test_the_ratio_can_be_chosen() -> None:
    made = two_pixels((0, 24), (0, 16), (0, 0))
    assert near_duplicates(made, REAL, ratio=1 / 2).tolist() == [True, True, True]
    assert near_duplicates(made, REAL, ratio=0).tolist() == [False, False, True]


def test_records_that_are_there_twice_hide_nothing() -> None:
    # The nearest record that differs counts: 50 away, and not the twin at distance 0.
    twins = torch.cat([REAL, REAL[:1]])
    assert near_duplicates(two_pixels((0, 16), (0, 17), (0, 0)), twins).tolist() == [True, False, True]


def test_of_one_record_only_exact_copies_are_found() -> None:
    made = two_pixels((7, 7), (7, 8))
    assert near_duplicates(made, two_pixels((7, 7))).tolist() == [True, False]
    assert near_duplicates(made, two_pixels((7, 7), (7, 7))).tolist() == [True, False]


def test_without_records_or_images_there_are_none() -> None:
    assert near_duplicates(REAL, REAL[:0]).tolist() == [False] * 3
    assert near_duplicates(REAL[:0], REAL).shape == (0,)


def test_features_find_what_pixels_do_not() -> None:
    # The sum of the pixels: records 0, 70, 200, so 70 apart at (0, 0), (30, 40) and 130 at (200, 0). (35, 35) is 7.1
    # from (30, 40) in pixels, below 50/3; (70, 0) is not (56.6), but its sum is that of (30, 40); (110, 0) lies 40
    # from 70 in sums, not below 70/3.
    made = two_pixels((35, 35), (70, 0), (110, 0))
    assert near_duplicates(made, REAL).tolist() == [True, False, False]
    found = near_duplicates(made, REAL, features=lambda x: x.double().sum((1, 2, 3)).view(-1, 1))
    assert found.tolist() == [True, True, False]


def test_features_that_tell_nothing_apart_accuse_nobody() -> None:
    found = near_duplicates(two_pixels((0, 17), (0, 0)), REAL, features=lambda x: torch.ones(len(x), 4))
    assert found.tolist() == [False, True]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(2, 12), st.integers(0, 10_000))
def test_the_answer_does_not_depend_on_how_much_is_looked_at_at_once(at_once: int, n: int, seed: int) -> None:
    real = torch.randint(0, 256, (n, 3, 2, 2), dtype=torch.uint8, generator=generator(seed))
    other = torch.randint(0, 256, (5, 3, 2, 2), dtype=torch.uint8, generator=generator(seed, "made"))
    near = (real[:1].int() + 3).clamp(max=255).to(torch.uint8)
    made = torch.cat([other, real, near])
    found = near_duplicates(made, real, at_once=at_once)
    assert torch.equal(found, _slowly(made, real))
    assert bool(found[5 : 5 + n].all())


def _slowly(made: Tensor, real: Tensor) -> Tensor:
    def apart(a: Tensor, b: Tensor) -> float:
        return float((a.double() - b.double()).square().sum().sqrt())

    found = []
    for image in made:
        nearest = min(real, key=lambda record: apart(image, record))
        others = [apart(nearest, record) for record in real if apart(nearest, record) > 0]
        distance = apart(image, nearest)
        found.append(distance == 0 or (bool(others) and distance < min(others) / 3))
    return torch.tensor(found)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UserError, match=r"shape \(1, 1, 2\) but the records \(2, 1, 1\)"):
        near_duplicates(REAL, REAL.view(-1, 2, 1, 1))
    with pytest.raises(UserError, match="ratio must be at least 0 and below 1, not 1"):
        near_duplicates(REAL, REAL, ratio=1)
