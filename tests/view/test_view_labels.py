from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.view.label_places import push_apart


def test_labels_with_room_stay_where_they_are() -> None:
    assert push_apart([10, 50, 30], 5, 0, 100) == [10, 50, 30]


def test_two_that_meet_give_way_by_half_the_gap_each() -> None:
    assert push_apart([50, 50], 4, 0, 100) == [48, 52]
    assert push_apart([51, 49], 4, 0, 100) == [52, 48]


def test_a_pair_pushed_apart_pushes_the_next_one() -> None:
    # With gap 4 the three want 50, 46, 46 once gaps are taken off: their mean 47⅓ is shared.
    assert push_apart([50, 50, 54], 4, 0, 100) == pytest.approx([47 + 1 / 3, 51 + 1 / 3, 55 + 1 / 3])
    assert push_apart([50, 50, 60], 4, 0, 100) == pytest.approx([48, 52, 60])


def test_at_the_edges_they_move_inwards() -> None:
    assert push_apart([100, 100], 4, 0, 100) == [96, 100]
    assert push_apart([0, 1], 4, 0, 100) == [0, 4]


def test_without_room_for_all_they_are_spread_evenly() -> None:
    assert push_apart([7, 7, 7], 50, 0, 10) == [0, 5, 10]


def test_nothing_and_one_alone() -> None:
    assert push_apart([], 4, 0, 100) == []
    assert push_apart([120], 4, 0, 100) == [100]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=2, max_size=12))
def test_they_never_overlap_nor_change_order_nor_leave(wanted: list[float]) -> None:
    places = push_apart(wanted, 5, 0, 100)
    assert all(-1e-9 <= place <= 100 + 1e-9 for place in places)
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    assert all(places[b] - places[a] >= 5 - 1e-9 for a, b in pairwise(order))
