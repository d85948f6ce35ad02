"""Shares, masks, the grid and the graph of secure aggregation, by hand."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import UserError
from understudy.federation.secure import keys
from understudy.federation.secure.graph import neighbours, well_connected
from understudy.federation.secure.grid import Whole, grid_for
from understudy.federation.secure.masks import add_masks, add_stream
from understudy.federation.secure.shares import join, needed_of, split

# ---- keys


def test_two_clients_agree_on_a_key_that_a_third_does_not_find() -> None:
    ash, beech, cedar = (keys.fresh_seed() for _ in range(3))
    common = keys.agreed_key(ash, keys.public_key(beech), "mask")
    assert keys.agreed_key(beech, keys.public_key(ash), "mask") == common
    assert keys.agreed_key(cedar, keys.public_key(ash), "mask") != common
    assert keys.agreed_key(ash, keys.public_key(beech), "boxes") != common, "a key has one purpose"


def test_a_box_opens_only_with_its_key_unchanged_and_for_its_receiver() -> None:
    key = keys.agreed_key(keys.fresh_seed(), keys.public_key(keys.fresh_seed()), "boxes")
    box = keys.seal(key, b"two shares", "from 1 for 2")
    assert keys.unseal(key, box, "from 1 for 2") == b"two shares"
    assert b"two shares" not in box
    spoilt = box[:-1] + bytes([box[-1] ^ 1])
    for wrong in ((key, spoilt, "from 1 for 2"), (key, box, "from 1 for 3"), (bytes(32), box, "from 1 for 2")):
        with pytest.raises(UserError, match="changed in transit"):
            keys.unseal(*wrong)


def test_a_public_key_that_would_make_the_common_key_known_is_refused() -> None:
    with pytest.raises(UserError, match="public key"):
        keys.agreed_key(keys.fresh_seed(), bytes(keys.PUBLIC), "mask")  # all noughts: the product is nought for all


# ---- shares


@given(st.binary(min_size=16, max_size=16), st.integers(2, 7), st.data())
@settings(max_examples=20, deadline=None)
def test_any_t_shares_open_a_seed(seed: bytes, holders: int, data: st.DataObject) -> None:
    needed = data.draw(st.integers(2, holders))
    shares = dict(enumerate(split(seed, holders, needed), 1))
    some = data.draw(st.permutations(sorted(shares)))[:needed]
    assert join({place: shares[place] for place in some}, needed) == seed


def test_one_share_fewer_does_not_open_it() -> None:
    seed = keys.fresh_seed()
    shares = dict(enumerate(split(seed, 5, 3), 1))
    for two in itertools.combinations(shares, 2):
        few = {place: shares[place] for place in two}
        with pytest.raises(UserError, match="There are 2 shares of a seed; 3 are needed"):
            join(few, 3)
        assert join(few, 2) != seed  # what the library makes of them


@given(st.integers(2, 200), st.floats(0.5, 1, exclude_min=True))
@settings(max_examples=50, deadline=None)
def test_more_than_half_of_the_holders_are_always_needed(holders: int, threshold: float) -> None:
    assert holders / 2 < needed_of(holders, threshold) <= holders


def test_thresholds_by_hand() -> None:
    # 0.6 of 3, 4, 5, 10, 31: 1.8, 2.4, 3, 6, 18.6, rounded up. 0.55 of 20 is 11, which binary floats overshoot.
    assert [needed_of(holders, 0.6) for holders in (3, 4, 5, 10, 31)] == [2, 3, 3, 6, 19]
    assert needed_of(20, 0.55) == 11


# ---- masks


def test_masks_of_three_clients_cancel_but_for_their_own() -> None:
    # y_0 = x_0 + b_0 + s_01 + s_02, y_1 = x_1 + b_1 − s_01 + s_12, y_2 = x_2 + b_2 − s_02 − s_12.
    inputs = {0: [5, 1], 1: [7, 0], 2: [2**64 - 4, 3]}  # 2⁶⁴ − 4 stands for −4
    own = {me: keys.fresh_seed() for me in inputs}
    pair = {both: keys.fresh_seed() for both in ((0, 1), (0, 2), (1, 2))}
    total: Whole = np.zeros(2, dtype=np.uint64)
    for me, numbers in inputs.items():
        values = np.array(numbers, dtype=np.uint64)
        others = {other: pair[(min(me, other), max(me, other))] for other in inputs if other != me}
        add_masks(values, me, own[me], others)
        assert values.tolist() != numbers
        total += values
    for seed in own.values():
        add_stream(total, seed, -1)
    assert total.tolist() == [5 + 7 - 4, 1 + 0 + 3]


def test_a_long_stream_is_one_stream_and_has_no_repeats() -> None:
    seed = keys.fresh_seed()
    values: Whole = np.zeros(600_000, dtype=np.uint64)  # more than is made at once
    add_stream(values, seed, 1)
    assert len(np.unique(values)) == len(values)
    short: Whole = np.zeros(10, dtype=np.uint64)
    add_stream(short, seed, 1)
    assert (short == values[:10]).all()


# ---- the grid


def test_the_finest_step_by_hand() -> None:
    # 10 clients within ±2²⁰: 2⁴⁷ / (10 · 2²⁰) = 13 421 772.8, between 2²³ and 2²⁴. In 32 bits: 204.8, so 2⁷.
    assert grid_for(10, range=2.0**20, bits=48).step == 2.0**-23
    assert grid_for(10, range=2.0**20, bits=32).step == 2.0**-7
    # The largest sum in 32 bits is 2³¹ − 1: two clients at 2³⁰ − 1 stay below it, two at 2³⁰ do not.
    assert grid_for(2, range=2.0**30 - 1, bits=32).step == 1
    with pytest.raises(UserError, match="do not fit"):
        grid_for(2, range=2.0**30, bits=32)


def test_numbers_round_to_the_nearest_step_and_negative_ones_come_back() -> None:
    grid = grid_for(2, range=8.0, bits=32)  # 2³¹ / 16 = 2²⁷ − a bit: the step is 2⁻²⁶
    step = grid.step
    numbers = torch.tensor([0.4 * step, 0.6 * step, -0.6 * step, 2.5 * step, -8.0], dtype=torch.float64)
    whole = grid.whole(numbers, part="change", overflow="refuse")
    back = grid.numbers(grid.unpack(grid.pack(whole)))
    assert (back / step).tolist() == [0, 1, -1, 2, -8.0 / step]


@given(
    st.integers(1, 40),
    st.sampled_from([32, 40, 48]),
    st.floats(0.5, 5000),
    st.integers(0, 2**32),
)
@settings(max_examples=40, deadline=None)
def test_a_sum_is_off_by_half_a_step_a_client_at_the_most(clients: int, bits: int, reach: float, seed: int) -> None:
    grid = grid_for(clients, range=reach, bits=bits)
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-reach, reach, (clients, 20))
    inputs[:, 0], inputs[:, 1] = reach, -reach  # all at the same end
    total: Whole = np.zeros(20, dtype=np.uint64)
    for row in inputs:
        total += grid.unpack(grid.pack(grid.whole(torch.from_numpy(row), part="x", overflow="refuse")))
    exact = [math.fsum(column) for column in inputs.T]
    assert np.abs(grid.numbers(total).numpy() - exact).max() <= clients * grid.step / 2 * (1 + 1e-9)


def test_whole_numbers_are_exact() -> None:
    grid = grid_for(3, range=70_000, bits=32)  # 2³¹ / 210 000 ≈ 10 226: the step is 2⁻¹³
    counts = torch.tensor([60_000.0, 1.0, 0.0])
    total = sum((grid.whole(counts, part="weight", overflow="refuse") for _ in range(3)), np.zeros(3, dtype=np.uint64))
    assert grid.numbers(total).tolist() == [180_000, 3, 0]


def test_a_number_beyond_the_range_is_refused_without_saying_what_it_is_or_clipped() -> None:
    grid = grid_for(3, range=10, bits=32)
    numbers = torch.tensor([1.0, -123.0])
    with pytest.raises(UserError, match="its 'change' goes beyond ±10") as refused:
        grid.whole(numbers, part="change", overflow="refuse")
    assert "123" not in str(refused.value)
    assert grid.numbers(grid.whole(numbers, part="change", overflow="clip")).tolist() == [1, -10]


def test_sums_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="sums of 5000 clients"):
        grid_for(5000, range=2.0**20, bits=32)


# ---- the graph


def test_few_clients_are_all_neighbours() -> None:
    assert neighbours([2, 0, 1], 4) == {0: (1, 2), 1: (0, 2), 2: (0, 1)}


def test_many_clients_have_so_many_neighbours_each_and_neighbours_know_one_another() -> None:
    # The ring 5 3 0 4 1 2: beside 0 sit 3 and 4; beside 5 sit 3 and, round the ring, 2.
    graph = neighbours([5, 3, 0, 4, 1, 2], 2)
    assert graph[0] == (3, 4)
    assert graph[5] == (2, 3)
    larger = neighbours(range(50), 8)
    assert {len(near) for near in larger.values()} == {8}
    assert all(one in larger[other] for one, near in larger.items() for other in near)


def test_who_could_not_be_recovered_is_left_out_and_then_who_leaned_on_them() -> None:
    # A ring of five with two neighbours each, of whom one is needed beside oneself. Without 1 and 3, client 2 is alone.
    graph = neighbours(range(5), 2)
    assert well_connected([0, 2, 4], graph, dict.fromkeys(range(5), 2)) == [0, 4]
    assert well_connected([0, 2, 4], graph, dict.fromkeys(range(5), 3)) == []
