"""Likelihood ratios from few shadows."""

import numpy as np
import pytest
import torch
from torch import Tensor

from understudy.audits.attacks.lira import lira
from understudy.audits.measures import reached
from understudy.errors import UserError
from understudy.randomness import generator

SHADOWS, CANDIDATES = 16, 1000


def planted(effect: float, differ: float = 3.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores that differ more between candidates than through membership: observed, shadows, inside, truth."""
    rng = generator(3)
    usual = differ * torch.randn(CANDIDATES, generator=rng)
    truth = torch.arange(CANDIDATES) % 2 == 0
    inside = torch.rand(SHADOWS, CANDIDATES, generator=rng) < 0.5
    noise = torch.randn(SHADOWS + 1, CANDIDATES, generator=rng)
    return usual + effect * truth + noise[0], usual + effect * inside + noise[1:], inside, truth


def auc(scores: Tensor, truth: Tensor) -> float:
    return reached(scores[truth], scores[~truth], np.random.default_rng(0)).auc.value


def test_shadows_take_out_what_differs_between_records() -> None:
    observed, shadows, inside, truth = planted(2.0)
    assert auc(observed, truth) < 0.7
    assert auc(lira(observed, shadows, inside), truth) > 0.88  # Φ(2/√2) = 0.92 if all means were known


def test_two_shadows_are_better_than_none() -> None:
    observed, shadows, inside, truth = planted(2.0)
    few = lira(observed, shadows[:2], inside[:2])
    assert bool(few.isfinite().all())
    assert auc(few, truth) > auc(observed, truth) + 0.05


def test_records_that_do_not_differ_are_judged_by_what_all_have_in_common() -> None:
    # With two shadows each, a record's own means would be off by as much as the effect; pooled, Φ(2/√2) = 0.92 is left.
    observed, shadows, inside, truth = planted(2.0, differ=0.0)
    assert auc(lira(observed, shadows[:2], inside[:2]), truth) > 0.9


def test_without_an_effect_there_is_no_ratio() -> None:
    observed, shadows, inside, truth = planted(0.0)
    found = lira(observed, shadows, inside)
    interval = reached(found[truth], found[~truth], np.random.default_rng(0)).auc
    assert interval.low < 0.5 < interval.high
    assert float(found.abs().median()) < 0.1


def test_known_gaussians_give_their_ratio() -> None:
    # Many shadows of one kind of record: out N(0, 1), in N(2, 1), so the ratio at x is 2x − 2.
    rng = generator(4)
    inside = torch.arange(4000)[:, None].expand(4000, 5) % 2 == 0
    shadows = torch.randn(4000, 5, generator=rng) + 2.0 * inside
    found = lira(torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0]), shadows, inside)
    assert found.tolist() == pytest.approx([-4.0, -2.0, 0.0, 2.0, 4.0], abs=0.25)


def test_a_record_that_was_never_in_gets_the_usual_effect() -> None:
    observed, shadows, inside, _ = planted(4.0)
    inside, shadows = inside.clone(), shadows.clone()
    shadows[:, 0] -= 4.0 * inside[:, 0]
    inside[:, 0] = False
    usual = float(shadows[:, 0].mean())
    found = [float(lira(torch.cat([torch.tensor([usual + by]), observed[1:]]), shadows, inside)[0]) for by in (0, 2, 4)]
    assert found[0] < -2
    assert abs(found[1]) < 1.5
    assert found[2] > 2


def test_outliers_on_the_wrong_side_are_no_members() -> None:
    # Inside scores spread four times as far: the plain ratio calls both tails members.
    rng = generator(5)
    inside = torch.arange(400)[:, None].expand(400, 3) % 2 == 0
    shadows = torch.randn(400, 3, generator=rng) * (1 + 3.0 * inside) + 3.0 * inside
    low, middle, high = lira(torch.tensor([-9.0, 0.0, 9.0]), shadows, inside).tolist()
    assert low <= middle < 0 < high


def test_only_records_outside_leave_how_far_the_score_stands_out() -> None:
    rng = generator(6)
    shadows = torch.randn(200, 3, generator=rng)
    found = lira(torch.tensor([-2.0, 0.0, 2.0]), shadows, torch.zeros(200, 3, dtype=torch.bool))
    assert found.tolist() == pytest.approx([-2.0, 0.0, 2.0], abs=0.3)
    assert lira(torch.ones(3), shadows, torch.ones(200, 3, dtype=torch.bool)).tolist() == [0.0] * 3


def test_scores_that_are_not_finite_do_not_count() -> None:
    observed, shadows, inside, _ = planted(2.0)
    broken = torch.cat([shadows, torch.full((2, CANDIDATES), torch.nan)])
    sides = torch.cat([inside, inside[:2]])
    assert torch.allclose(lira(observed, broken, sides), lira(observed, shadows, inside))
    observed[3] = torch.nan
    assert float(lira(observed, shadows, inside)[3]) == 0.0


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match=r"shadows \(2, 4\) and inside \(2, 4\)"):
        lira(torch.zeros(3), torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.bool))
