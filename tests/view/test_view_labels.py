from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.view.label_places import LabelBox, beside_dots, push_apart


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


ROOM = (0.0, 0.0, 100.0, 100.0)


def overlap(one: LabelBox, other: LabelBox) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_a_lonely_dot_has_its_label_at_its_right() -> None:
    # A gap of 2, and a twentieth of the height of 4: from 52.2 on; as high above the dot as below.
    (box,) = beside_dots([(50, 50)], [(20, 4)], 2, ROOM)
    assert box == pytest.approx((52.2, 48, 72.2, 52))


def test_at_the_right_edge_it_stands_at_the_left() -> None:
    (box,) = beside_dots([(95, 50)], [(20, 4)], 2, ROOM)
    assert box == pytest.approx((72.8, 48, 92.8, 52))


def test_a_label_is_nearer_to_its_own_dot_than_to_another_if_it_can_be() -> None:
    # A dot at 24 would be as near to a label from 3 to 23 at its left as the dot at 0 that it belongs to.
    first, _ = beside_dots([(1, 50), (24, 50)], [(20, 4), (20, 4)], 2, ROOM)
    assert first[1] > 52 or first[3] < 48


def test_where_nothing_is_free_a_label_still_has_a_place() -> None:
    boxes = beside_dots([(5, 5)] * 3, [(9, 9)] * 3, 1, (0, 0, 10, 10))
    assert boxes == [pytest.approx((6.45, 0.5, 15.45, 9.5))] * 3


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=12))
def test_labels_cover_neither_each_other_nor_dots(dots: list[tuple[float, float]]) -> None:
    boxes = beside_dots(dots, [(12, 2)] * len(dots), 1, ROOM)
    for at, box in enumerate(boxes):
        assert all(0 <= edge <= 100 for edge in box)
        assert not any(overlap(box, other) for other in boxes[:at])
        assert not any(overlap(box, (x, y, x, y)) for x, y in dots)
