"""Examples from arrays of every kind, and draws in which every class gives its share."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data.examples import Examples
from understudy.data.strata import Indices, draw_exactly, draw_share, largest_remainder
from understudy.errors import UserError


def test_grey_images_get_a_channel_and_labels_become_int64() -> None:
    made = Examples.from_arrays(np.zeros((2, 4, 5), np.uint8), np.array([1, 0], np.uint8))
    assert made.x.shape == (2, 1, 4, 5)
    assert made.y.dtype == torch.int64


def test_read_only_and_big_endian_arrays_are_taken() -> None:
    x = np.array([[1.5, 2.0]], dtype=">f8")
    x.flags.writeable = False
    made = Examples.from_arrays(x, [0])
    assert made.x.tolist() == [[1.5, 2.0]]
    assert made.x.dtype == torch.float32


def test_a_column_of_class_numbers_is_not_taken_for_multi_label() -> None:
    assert not Examples.from_arrays(np.zeros((3, 2)), np.array([[0], [1], [2]])).multilabel


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (np.zeros((2, 3)), [0], "2 records came with 1 labels"),
        (np.zeros((2, 3)), [0.5, 1], "not whole numbers"),
        (np.zeros((2, 3)), [float("nan"), 1], "not whole numbers"),
        (np.zeros((2, 3)), ["cat", "dog"], "labels are of type"),
        ([[1], [2, 3]], [0, 1], "records are not an array"),
        (np.zeros(2), [0, 1], "records have shape (2,)"),
        (np.zeros((2, 8, 8, 3), np.uint8), [0, 1], "put channels first"),
        (np.zeros((2, 3)), np.zeros((2, 3, 4)), "labels have shape (2, 3, 4)"),
        (3.0, [0], "a single number"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(x: object, y: object, says: str) -> None:
    with pytest.raises(UserError) as wrong:
        Examples.from_arrays(x, y)
    assert says in str(wrong.value)


def test_saved_examples_come_back(tmp_path: Path) -> None:
    made = Examples.from_arrays(np.arange(8, dtype=np.uint8).reshape(2, 2, 2), [1, 0])
    made.save(tmp_path / "a.npz")
    back = Examples.load(tmp_path / "a.npz")
    assert torch.equal(back.x, made.x)
    assert torch.equal(back.y, made.y)


def test_a_file_cut_in_half_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    Examples.from_arrays(np.random.default_rng(0).random((50, 4)), [0] * 50).save(path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(UserError, match=r"a\.npz cannot be read"):
        Examples.load(path)


def test_largest_remainder_by_hand() -> None:
    # Quotas 1.4, 1.3, 0.3 of 3: floors 1, 1, 0, and the one left goes to 0.4.
    assert largest_remainder(np.array([1.4, 1.3, 0.3]), 3).tolist() == [2, 1, 0]
    # A tie goes to the first.
    assert largest_remainder(np.array([0.5, 0.5]), 1).tolist() == [1, 0]


def test_equal_strata_give_equal_shares() -> None:
    strata = np.repeat(np.arange(12), 64)
    drawn, left = draw_share(strata, 0.1, np.random.default_rng(0))
    assert np.bincount(strata[drawn]).tolist() == [6] * 12
    assert np.bincount(strata[left]).tolist() == [58] * 12


def test_a_share_of_a_stratum_is_rounded_to_the_nearest() -> None:
    # A quarter of 5, 6 and 7: 1.25, 1.5 and 1.75.
    strata = np.repeat([0, 1, 2], [5, 6, 7])
    drawn, _ = draw_share(strata, 0.25, np.random.default_rng(0))
    assert np.bincount(strata[drawn]).tolist() == [1, 2, 2]


@pytest.mark.parametrize(
    "draw", [lambda some, rng: draw_share(some, 0.25, rng), lambda some, rng: draw_exactly(some, 10, rng)]
)
def test_any_record_of_a_stratum_may_be_drawn(draw: Callable[..., tuple[Indices, Indices]]) -> None:
    strata, met = np.repeat([0, 1], 20), set[int]()
    for seed in range(40):
        drawn, _ = draw(strata, np.random.default_rng(seed))
        assert len(drawn) == 10
        met |= set(drawn.tolist())
    assert met == set(range(40))


@settings(max_examples=40, deadline=None)
@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=60), data=st.data())
def test_an_exact_draw_is_a_partition_in_proportion(labels: list[int], data: st.DataObject) -> None:
    strata = np.array(labels)
    total = data.draw(st.integers(0, len(labels)))
    drawn, left = draw_exactly(strata, total, np.random.default_rng(1))
    assert len(drawn) == total
    assert sorted([*drawn, *left]) == list(range(len(labels)))
    quota = np.bincount(strata, minlength=6) * total / len(labels)
    assert (np.abs(np.bincount(strata[drawn], minlength=6) - quota) < 1 + 1e-9).all()
