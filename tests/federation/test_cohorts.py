"""Who takes part in a round: how many, and in which order."""

import pytest

from understudy.errors import UserError
from understudy.federation.cohorts import cohort_size, draw_cohort, in_order
from understudy.randomness import generator


@pytest.mark.parametrize(
    ("cohort", "clients", "size"),
    [(3, 10, 3), (1.0, 10, 10), (0.4, 10, 4), (0.37, 10, 4), (0.33, 10, 3), (0.01, 10, 1)],
)
def test_a_share_of_clients_is_rounded_to_the_nearest_and_never_none(cohort: float, clients: int, size: int) -> None:
    assert cohort_size(cohort, clients) == size


@pytest.mark.parametrize("cohort", [0, 11, 1.5, 0.0, -0.1])
def test_more_than_all_and_fewer_than_one_are_refused(cohort: float) -> None:
    with pytest.raises(UserError, match=r"method\.cohort is"):
        cohort_size(cohort, 10)


def test_numbers_in_names_count_as_numbers() -> None:
    assert in_order(["client-10", "client-2", "ash", "client-1"]) == ["ash", "client-1", "client-2", "client-10"]


def test_a_draw_keeps_the_order_and_takes_nobody_twice() -> None:
    everybody = [f"client-{number}" for number in range(6)]
    drawn = [draw_cohort(everybody, 3, generator("draw", times)) for times in range(60)]
    assert all(len(set(some)) == 3 and in_order(some) == some for some in drawn)
    assert len({tuple(some) for some in drawn}) > 15, "of twenty ways to choose three of six"
