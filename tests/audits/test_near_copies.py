"""Near-copies by hand, on images of two pixels."""

import math

import pytest
import torch

from understudy.audits.near_copies import near_copies, near_copies_by_own, nearest
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError

PROBLEM = Problem((1, 1, 2), 2)


def images(*rows: tuple[float, float]) -> Examples:
    """Floats, which are compared as they are."""
    x = torch.tensor(rows).view(-1, 1, 1, 2)
    return Examples(x, torch.zeros(len(rows), dtype=torch.int64))


def pixels(examples: Examples) -> Examples:
    return Examples(examples.x.to(torch.uint8), examples.y)


OWN = images((0, 0), (100, 0), (0, 100), (100, 0))
HELD_OUT = images((10, 0), (0, 20), (100, 30), (60, 0), (0, 150))  # 10, 20, 30, 40 and 50 away


def test_images_nearer_than_the_quantile_of_held_out_records_are_near_copies() -> None:
    # Half of the held-out records are nearer than 30. (103, 4) is 5 from the second record, (0, 130) 30 from the third.
    found = near_copies(images((103, 4), (0, 130), (0, 129), (200, 0)), OWN, HELD_OUT, PROBLEM, at=0.5)
    assert found.threshold == 30
    assert found.near.tolist() == [True, False, True, False]
    assert found.distance.tolist() == [5, 30, 29, 100]
    assert found.quantile.tolist() == pytest.approx([0, 3 / 5, 2 / 5, 1])
    assert found.record.tolist() == [1, 2, 2, 1]  # of the twins (100, 0) the first
    assert found.share == pytest.approx(1 / 2)
    assert found.nearest_first(2) == [0, 2]


def test_one_percent_lies_just_above_the_nearest_of_few() -> None:
    # Between 10 and 20, a twenty-fifth of the way: 10.4.
    found = near_copies(images((10, 0), (11, 0)), OWN, HELD_OUT, PROBLEM)
    assert found.threshold == pytest.approx(10.4)
    assert found.near.tolist() == [True, False]


def test_floats_are_compared_as_the_network_sees_records() -> None:
    problem = Problem((1, 1, 2), 2, mean=(0.5,), std=(0.5,))
    sent = Examples(problem.scale(pixels(images((100, 3))).x), torch.tensor([1]))
    distance, record = nearest(sent, pixels(OWN), problem)
    assert distance.tolist() == pytest.approx([3 / 255 / 0.5])
    assert record.tolist() == [1]


def test_an_image_that_is_not_finite_is_near_nothing() -> None:
    sent = Examples(torch.tensor([[math.nan, 0.0], [0.0, 0.0]]).view(2, 1, 1, 2), torch.tensor([0, 0]))
    found = near_copies(sent, OWN, HELD_OUT, PROBLEM)
    assert found.near.tolist() == [False, True]
    assert found.quantile.tolist() == [1.0, 0.0]


def test_nothing_shared_and_nothing_to_judge_by() -> None:
    found = near_copies(OWN.none(), OWN, HELD_OUT, PROBLEM)
    assert (len(found.near), found.share, found.nearest_first(10)) == (0, 0.0, [])
    with pytest.raises(UserError, match="0 held-out and 4 training records"):
        near_copies(OWN, OWN, HELD_OUT.none(), PROBLEM)


def test_where_nothing_was_held_out_records_are_compared_with_one_another() -> None:
    # To the nearest other one it is 10, 10, 30 and 50; twins do not count as near to one another.
    own = images((0, 0), (10, 0), (40, 0), (90, 0), (90, 0))
    found = near_copies_by_own(images((1, 0), (60, 0), (200, 0)), own, PROBLEM, at=0.5)
    assert found is not None
    assert found.distance.tolist() == [1, 20, 110]
    assert found.record.tolist() == [0, 2, 3]
    assert found.threshold == 30  # the middle of 10, 10, 30, 50 and 50
    assert found.near.tolist() == [True, True, False]
    assert found.quantile.tolist() == pytest.approx([0, 2 / 5, 1])
    assert near_copies_by_own(images((1, 0)), images((5, 5), (5, 5)), PROBLEM) is None
