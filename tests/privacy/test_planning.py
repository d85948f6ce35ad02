"""Rate, steps and noise of a client are planned: from what is public, for all rounds, after what was spent before."""

import pytest

from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.planning import NoisePlan, planned, planned_records
from understudy.privacy.promise import PrivacySettings

ROUND = Spending(0.0256, 1.0, 200)  # ε = 2.787 at δ = 1e-5
STEPS = Local(steps=200, batch=256)


def promise(**more: object) -> PrivacySettings:
    return PrivacySettings.model_validate({"delta": 1e-5, "records": 10_000, **more})


def test_a_plan_by_hand() -> None:
    # 256 of 10 000 records a step. An epoch is ⌊10 000/256⌋ = 39 steps, five are 195.
    assert planned(promise(), Local(epochs=5, batch=256), 1.0, 3, 10) == NoisePlan(10_000, 0.0256, 195, 1.0)
    assert planned(promise(records=100), Local(epochs=5, batch=256), 1.0, 3, 10) == NoisePlan(100, 1.0, 5, 1.0)


@pytest.mark.parametrize("own", [0, 3, 20_000])
def test_the_real_number_of_records_counts_only_where_it_is_public(own: int) -> None:
    assert planned_records(promise(), own) == 10_000
    assert planned_records(promise(public=["counts"]), own) == 10_000
    assert planned_records(promise(records=None, public=["counts"]), own) == max(1, own)
    with pytest.raises(UserError, match=r"privacy\.records: write how many records"):
        planned_records(promise(records=None), own)


def test_noise_is_solved_for_all_rounds_after_what_was_spent_before() -> None:
    for before in ((), (ROUND,)):
        plan = planned(promise(epsilon=4.0), STEPS, None, 3, 5, before)
        cost = [epsilon([*before, Spending(0.0256, noise, 5 * 200)], 1e-5) for noise in (plan.noise, plan.noise - 1e-3)]
        assert cost[0] <= 4.0 < cost[1]


def test_a_first_round_beyond_the_budget_is_refused_with_what_was_spent_before() -> None:
    # One round is 2.787, two are about 3.7.
    planned(promise(epsilon=3.0), STEPS, 1.0, 3, 5)
    with pytest.raises(UserError, match=r"privacy\.epsilon is 2, but one round alone would cost 2\.79"):
        planned(promise(epsilon=2.0), STEPS, 1.0, 3, 5)
    with pytest.raises(UserError, match=r"one round after what was spent before it would cost 3\.\d"):
        planned(promise(epsilon=3.0), STEPS, 1.0, 3, 5, (ROUND,))
