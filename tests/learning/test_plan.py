"""Batches as a table of indices."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.learning.plan import EMPTY, passes, steps_of_epochs
from understudy.randomness import generator

sizes = st.integers(1, 40)


def test_ten_records_in_fours_make_three_rows_of_which_the_last_is_half_empty() -> None:
    plan = passes(10, 3, 4, generator("plan"))
    assert plan.shape == (3, 4)
    assert (plan == EMPTY).tolist() == [[False] * 4, [False] * 4, [False, False, True, True]]
    assert sorted(i for i in plan.flatten().tolist() if i >= 0) == list(range(10))


def test_with_the_last_dropped_two_rows_are_left_and_two_records_wait() -> None:
    plan = passes(10, 2, 4, generator("plan"), drop_last=True)
    assert (plan != EMPTY).all()
    assert len(set(plan.flatten().tolist())) == 8


def test_fewer_records_than_a_batch_are_not_dropped() -> None:
    plan = passes(3, 2, 4, generator("plan"), drop_last=True)
    assert [sorted(row) for row in plan.tolist()] == [[EMPTY, 0, 1, 2]] * 2


@settings(max_examples=60, deadline=None)
@given(pool=sizes, steps=st.integers(1, 30), batch=sizes, drop=st.booleans(), seed=st.integers(0, 99))
def test_every_pass_is_a_permutation_and_empty_places_come_at_its_end(
    pool: int, steps: int, batch: int, drop: bool, seed: int
) -> None:
    plan = passes(pool, steps, batch, generator(seed), drop_last=drop)
    assert plan.shape == (steps, batch)
    rows = max(1, pool // batch) if drop else math.ceil(pool / batch)
    for start in range(0, steps, rows):
        once = plan[start : start + rows].flatten().tolist()
        there = [i for i in once if i != EMPTY]
        assert once == there + [EMPTY] * (len(once) - len(there)), "an empty place before a record"
        assert len(set(there)) == len(there), "a record twice in one pass"
        assert all(0 <= i < pool for i in there)
        if len(once) == rows * batch and not drop:
            assert sorted(there) == list(range(pool)), "a whole pass leaves nobody out"
        if drop and pool >= batch:
            assert EMPTY not in once


def test_passes_are_shuffled_anew() -> None:
    plan = passes(20, 2, 20, generator("plan"))
    assert plan[0].tolist() != plan[1].tolist()


def test_the_generator_alone_decides() -> None:
    assert torch.equal(passes(9, 7, 4, generator(1)), passes(9, 7, 4, generator(1)))
    assert not torch.equal(passes(9, 7, 4, generator(1)), passes(9, 7, 4, generator(2)))


def test_no_records_or_no_steps_make_an_empty_table() -> None:
    assert passes(0, 5, 4, generator(0)).shape == passes(5, 0, 4, generator(0)).shape == (0, 4)


def test_steps_of_epochs_by_hand() -> None:
    # 10 records in fours: 3 batches a pass, 2 with the last one dropped; 3 records: 1 either way.
    assert steps_of_epochs(10, 5, 4) == 15
    assert steps_of_epochs(10, 5, 4, drop_last=True) == 10
    assert steps_of_epochs(3, 5, 4) == steps_of_epochs(3, 5, 4, drop_last=True) == 5
    assert steps_of_epochs(0, 5, 4) == 0
