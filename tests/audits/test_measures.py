"""AUC, true positives at 1 % and their intervals: by hand, and beside slow, obvious versions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from understudy.audits.measures import reached, resolves
from understudy.errors import UserError


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def scores(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def by_pairs(members: Tensor, others: Tensor) -> float:
    return float(np.mean([(m > o) + (m == o) / 2 for m in members.tolist() for o in others.tolist()]))


def by_thresholds(members: Tensor, others: Tensor, at: float) -> float:
    """The most members above a threshold that lets at most that share of the others through."""
    best = 0.0
    for cut in [*members.tolist(), *others.tolist()]:
        if float((others >= cut).double().mean()) <= at:
            best = max(best, float((members >= cut).double().mean()))
    return best


some = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(some, some, st.sampled_from([0.01, 0.1, 0.25, 0.5]))
def test_auc_and_caught_are_those_of_counting(inside: list[float], outside: list[float], at: float) -> None:
    members, others = scores(*inside), scores(*outside)
    found = reached(members, others, rng(), at)
    assert found.auc.value == pytest.approx(by_pairs(members, others))
    assert found.caught.value == pytest.approx(by_thresholds(members, others, at))
    assert 0 <= found.auc.low <= found.auc.value <= found.auc.high <= 1
    assert 0 <= found.caught.low <= found.caught.value <= found.caught.high <= 1


def test_caught_on_ten_numbers_by_hand() -> None:
    # At 20 % one of the five others may pass: 9. Members above the next, 4: 9.5 and 5. The tie at 4 is not let through.
    members, others = scores(9.5, 5, 4, 4, 1), scores(9, 4, 3, 2, 0)
    assert reached(members, others, rng(), at=0.2).caught.value == pytest.approx(2 / 5)
    # At 1 % none may pass, so only 9.5 is caught.
    assert reached(members, others, rng()).caught.value == pytest.approx(1 / 5)
    # Pairs: 9.5 beats 5; 5 beats 4; each 4 beats 3 and ties once; 1 beats 1.
    assert reached(members, others, rng()).auc.value == pytest.approx((5 + 4 + 3.5 + 3.5 + 1) / 25)


def test_one_in_a_hundred_is_one_percent() -> None:
    others = torch.arange(100, dtype=torch.float64)
    assert reached(scores(98.5, 97.5), others, rng()).caught.value == pytest.approx(1 / 2)


def test_no_opinion_ranks_lowest() -> None:
    found = reached(scores(1, math.nan), scores(0, -5), rng(), at=0.5)
    assert found.auc.value == pytest.approx(1 / 2)


def test_intervals_hold_the_truth_about_95_times_in_100() -> None:
    # Members N(1, 1), others N(0, 1): AUC = Φ(1/√2); 5 % of others lie above 1.6449, 1 − Φ(0.6449) of members.
    auc, caught = (1 + math.erf(0.5)) / 2, math.erfc(0.6449 / 2**0.5) / 2
    draws, held = np.random.default_rng(7), [0, 0]
    for _ in range(100):
        members, others = torch.from_numpy(draws.normal(1, 1, 150)), torch.from_numpy(draws.normal(0, 1, 300))
        found = reached(members, others, draws, at=0.05)
        held[0] += found.auc.low <= auc <= found.auc.high
        held[1] += found.caught.low <= caught <= found.caught.high
        assert found.auc.high - found.auc.low < 0.12
    assert 90 <= held[0] <= 99
    assert 90 <= held[1] <= 99


def test_none_caught_of_few_is_not_certainly_none() -> None:
    # Clopper–Pearson for 0 of 10: up to 1 − 0.025^(1/10) = 0.308.
    found = reached(torch.zeros(10), torch.ones(500), rng())
    assert found.caught.value == 0
    assert found.caught.high == pytest.approx(1 - 0.025**0.1)
    assert reached(torch.ones(10), torch.zeros(500), rng()).caught.low == pytest.approx(0.025**0.1)


def test_the_same_stream_gives_the_same_interval() -> None:
    members, others = torch.arange(50.0), torch.arange(40.0) - 3
    assert reached(members, others, rng()) == reached(members, others, rng())


def test_nothing_to_judge_is_refused() -> None:
    with pytest.raises(UserError, match="0 members and 2 non-members"):
        reached(scores(), scores(1, 2), rng())


def test_numbers_that_cannot_resolve_one_percent_say_so() -> None:
    assert resolves(1000, 400) is None
    assert "50 non-members cannot resolve 1% false positives" in str(resolves(50, 400))
    assert "2.0% at best" in str(resolves(50, 400))
    assert "1% false positives are 4 of them" in str(resolves(400, 400))
    assert "each is 2.0% of the true positives" in str(resolves(5000, 50))
    assert "show nothing" in str(resolves(0, 50))
