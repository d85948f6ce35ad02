"""Sets of labels for generated images: how many each has, and which."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.randomness import generator
from understudy.synthesis.labels import label_sets


def test_every_image_has_as_many_labels_as_a_record_on_average() -> None:
    # 10 images of 1.3 labels are 13 labels: three images with two, seven with one.
    drawn = label_sets(10, 1.3, torch.tensor([1, 1, 1, 1]), generator(0))
    assert drawn.shape == (10, 4)
    assert drawn.dtype == torch.float32
    assert drawn.sum(1).tolist() == [2] * 3 + [1] * 7


def test_an_image_has_at_least_one_label_and_at_most_all() -> None:
    assert label_sets(4, 0.0, torch.tensor([1, 2]), generator(0)).sum(1).tolist() == [1] * 4
    assert label_sets(4, 9.0, torch.tensor([1, 2]), generator(0)).sum(1).tolist() == [2] * 4


def test_a_label_without_a_share_comes_last() -> None:
    # One label each: never the first. Two each of three, with one share: that one, and the smallest number besides.
    assert not label_sets(200, 1.0, torch.tensor([0, 1, 2]), generator(0))[:, 0].any()
    assert label_sets(3, 2.0, torch.tensor([0, 0, 5]), generator(0)).tolist() == [[1, 0, 1]] * 3


def test_labels_come_in_proportion_to_their_shares() -> None:
    # 4000 draws with chances ¼ and ¾: 1000 ± 4·√(4000·3/16) = 1000 ± 110.
    counts = label_sets(4000, 1.0, torch.tensor([1, 3]), generator(0)).sum(0)
    assert abs(counts[0] - 1000) < 110


def test_no_shares_are_equal_shares() -> None:
    # 3000 draws of three: 1000 ± 4·√(3000·2/9) = 1000 ± 103.
    assert (label_sets(3000, 1.0, torch.tensor([0, 0, 0]), generator(0)).sum(0) - 1000).abs().max() < 103


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.floats(0, 6), st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(0, 99))
def test_the_same_generator_gives_the_same_sets_of_the_right_size(
    images: int, a_record: float, shares: list[int], word: int
) -> None:
    drawn = label_sets(images, a_record, torch.tensor(shares), generator(word))
    assert torch.equal(drawn, label_sets(images, a_record, torch.tensor(shares), generator(word)))
    total = min(max(round(images * a_record), images), images * len(shares))
    assert drawn.sum() == total
    assert drawn.sum(1).max() - drawn.sum(1).min() <= 1
