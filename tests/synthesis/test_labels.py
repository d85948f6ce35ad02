"""Whole numbers of images a class, by largest remainder."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.synthesis.labels import labels_from_counts, largest_remainder


def test_what_is_left_goes_to_the_largest_remainders() -> None:
    # 10 · (5, 3, 1)/9 = 5.56, 3.33, 1.11: whole parts 5, 3, 1; the tenth goes to .56.
    assert largest_remainder(10, torch.tensor([5, 3, 1])).tolist() == [6, 3, 1]


def test_among_equals_the_smaller_class_comes_first() -> None:
    assert largest_remainder(8, torch.tensor([1, 1, 1])).tolist() == [3, 3, 2]


def test_equal_remainders_are_equal_whatever_stands_before_the_point() -> None:
    # 2 · (4, 1, 1)/6 = 1⅓, ⅓, ⅓: three equal remainders, one image left, for the smallest class number.
    assert largest_remainder(2, torch.tensor([4, 1, 1])).tolist() == [2, 0, 0]


def test_no_shares_are_equal_shares() -> None:
    assert largest_remainder(5, torch.tensor([0, 0])).tolist() == [3, 2]


def test_nothing_is_nothing() -> None:
    assert largest_remainder(0, torch.tensor([4, 1])).tolist() == [0, 0]


def test_labels_stand_in_order() -> None:
    assert labels_from_counts(torch.tensor([2, 0, 1])).tolist() == [0, 0, 2]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 5000), st.lists(st.integers(0, 10_000), min_size=1, max_size=20))
def test_counts_sum_exactly_and_are_within_one_of_their_quota(total: int, shares: list[int]) -> None:
    counts = largest_remainder(total, torch.tensor(shares)).tolist()
    assert sum(counts) == total
    whole = sum(shares)
    if whole:
        for count, share in zip(counts, shares, strict=True):
            assert abs(count - total * share / whole) < 1 + 1e-9
            assert share > 0 or count == 0, "an image of a class that nobody has"
