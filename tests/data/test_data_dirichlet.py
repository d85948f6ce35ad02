"""Dirichlet splits: the published rules in numbers, and that they always end."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.splits.dirichlet import Dirichlet, cut_class, draw_counts, draw_shares, fill_up, published_block
from understudy.data.splits.make import make_split
from understudy.data.splits.split import Split
from understudy.errors import UserError


def toy(labels: list[int], classes: int = 10) -> Dataset:
    y = torch.tensor(labels, dtype=torch.int64)
    return Dataset("toy", Problem((1,), classes), Examples(torch.zeros(len(y), 1), y), test=None)


def everything_in(split: Split) -> list[int]:
    parts = [*split.clients.values(), *split.held_out.values(), split.validation]
    return sorted(torch.cat(parts).tolist())


any_labels = st.lists(st.integers(0, 4), min_size=0, max_size=80)
any_alpha = st.sampled_from([5e-324, 1e-300, 1e-6, 0.01, 0.1, 0.999, 1.0, 3.0, 1e6, 1e300])


@settings(max_examples=80, deadline=None)
@given(
    labels=any_labels,
    clients=st.integers(1, 100),
    alpha=any_alpha,
    style=st.sampled_from(["niid-bench", "fedssyn"]),
    equalise=st.booleans(),
    block=st.none() | st.integers(1, 12),
    held_out=st.sampled_from([0.0, 0.2, 0.9]),
    seed=st.integers(0, 3),
)
def test_a_dirichlet_split_always_ends_and_uses_every_record_once(
    labels: list[int],
    clients: int,
    alpha: float,
    style: str,
    equalise: bool,
    block: int | None,
    held_out: float,
    seed: int,
) -> None:
    kind = Dirichlet.model_validate({"alpha": alpha, "style": style, "equalise": equalise, "block": block})
    split = make_split(toy(labels, 5), kind, clients=clients, seed=seed, held_out=held_out)
    assert list(split.clients) == [f"client-{k}" for k in range(clients)]
    assert everything_in(split) == list(range(len(labels)))
    sizes = [len(split.clients[name]) + len(split.held_out[name]) for name in split.clients]
    if equalise:
        assert max(sizes) - min(sizes) <= 1
    elif style == "niid-bench":
        assert min(sizes) >= min(10, len(labels) // clients)
    again = make_split(toy(labels, 5), kind, clients=clients, seed=seed, held_out=held_out)
    assert again.digest == split.digest


def test_a_class_is_cut_by_cumulative_share_and_a_zero_share_gets_nothing() -> None:
    # Shares 0, 1/3, 0, 2/3, 0 of 10 records: cuts at 0, 3.33, 3.33, 10, 10.
    assert cut_class(np.array([0, 1, 0, 2, 0.0]), 10).tolist() == [0, 3, 0, 7, 0]


def test_shares_at_a_tiny_alpha_are_all_or_nothing_and_skip_full_clients() -> None:
    open_ = np.array([[False, True, True]] * 200)
    shares = draw_shares(1e-9, open_, np.random.default_rng(0))
    assert set(np.unique(shares)) == {0.0, 1.0}
    assert shares.sum(0)[0] == 0
    assert 60 < shares.sum(0)[1] < 140


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_shares_have_the_moments_of_a_dirichlet(alpha: float) -> None:
    shares = draw_shares(alpha, np.ones((20000, 4), bool), np.random.default_rng(0))
    p = shares / shares.sum(1, keepdims=True)
    # Dir(α·1_4): mean 1/4, variance (1/4)(3/4)/(4α + 1).
    assert p.mean(0) == pytest.approx([0.25] * 4, abs=0.01)
    assert p.var(0) == pytest.approx([0.1875 / (4 * alpha + 1)] * 4, rel=0.05)


def test_a_client_that_is_full_gets_no_more() -> None:
    # 2 clients, 20 records: with α tiny a class goes to one client whole; who has 10 is full.
    counts = draw_counts(np.array([10, 10]), 2, 1e-9, 50, np.random.default_rng(0))
    assert (counts.sum(1) == 10).all()


def test_filling_up_takes_from_the_largest() -> None:
    parts, filled = fill_up([np.arange(0), np.arange(10, 18), np.arange(20, 25)], 3)
    assert [part.tolist() for part in parts] == [[15, 16, 17], [10, 11, 12, 13, 14], [20, 21, 22, 23, 24]]
    assert filled == 1


def test_a_split_that_had_to_be_filled_up_says_so() -> None:
    data = toy([n % 2 for n in range(200)], 2)
    split = make_split(data, Dirichlet(alpha=1e-6), clients=10, seed=0)
    assert "filled up" in split.notes[0]
    assert min(len(part) for part in split.clients.values()) == 10


@pytest.mark.parametrize(
    ("clients", "alpha", "classes", "block"),
    [(10, 0.1, 10, 10), (40, 0.1, 10, 20), (40, 0.01, 10, 10), (100, 0.01, 10, 10), (100, 0.01, 100, 20)],
)
def test_blocks_are_as_published(clients: int, alpha: float, classes: int, block: int) -> None:
    assert published_block(clients, alpha, classes) == block


def test_fedssyn_keeps_the_last_tenth_back_and_equal_chunks() -> None:
    data = toy([n % 10 for n in range(500)])
    kind = Dirichlet(alpha=0.1, style="fedssyn", equalise=True)
    split = make_split(data, kind, clients=9, seed=0, validation=0.1)
    assert split.validation.tolist() == list(range(450, 500))
    assert {len(part) for part in split.clients.values()} == {50}


def test_fedssyn_refuses_to_lose_a_class_to_validation() -> None:
    data = toy([n // 50 for n in range(500)])
    with pytest.raises(UserError, match="all of class 9"):
        make_split(data, Dirichlet(style="fedssyn"), clients=5, seed=0, validation=0.1)


def test_fedssyn_blocks_work_on_their_own_records() -> None:
    data = toy([n % 10 for n in range(400)])
    split = make_split(data, Dirichlet(style="fedssyn", block=2, alpha=0.1), clients=4, seed=0)
    sizes = [len(part) for part in split.clients.values()]
    assert sizes[0] + sizes[1] == sizes[2] + sizes[3] == 200
    assert min(sizes) >= 50  # half of a block's mean
    # Five clients in blocks of two: two, two and one, each with its share of the records.
    split = make_split(data, Dirichlet(style="fedssyn", block=2, alpha=0.1), clients=5, seed=0)
    sizes = [len(part) for part in split.clients.values()]
    assert (sizes[0] + sizes[1], sizes[2] + sizes[3], sizes[4]) == (160, 160, 80)


def test_other_styles_draw_validation_from_every_class() -> None:
    data = toy([n // 50 for n in range(500)])
    split = make_split(data, Dirichlet(), clients=5, seed=0, validation=0.1)
    assert data.train.y[split.validation].bincount().tolist() == [5] * 10
