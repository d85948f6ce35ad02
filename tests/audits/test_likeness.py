"""Measures of likeness on points on a line, by hand, and against a slow version that says what is meant."""

import pytest
import torch
from torch import Tensor

from understudy.audits import likeness as measures
from understudy.audits.likeness import kernel_distance, likeness


@pytest.fixture(autouse=True)
def _one_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "NEIGHBOURS", 1)
    monkeypatch.setattr(measures, "FEWEST", 2)


def test_points_on_a_line_by_hand() -> None:
    # A point reaches as far as its nearest neighbour: 0 and 1 reach 1, and 3 reaches 2.
    real = torch.tensor([[0.0], [1.0], [3.0]])
    made = torch.tensor([[0.5], [0.9], [10.0]])  # reaches: 0.4, 0.4, 9.1
    found = likeness(made, real)
    assert found is not None
    assert found.precision == pytest.approx(2 / 3)  # 10 is beyond 3 + 2
    # 0.5 lies in the reach of 0 (1), of 1 (1), not of 3 (2 < 2.5); 0.9 of 0, 1 and, at 2.1, not of 3.
    assert found.density == pytest.approx(4 / 3)
    assert found.coverage == pytest.approx(2 / 3)
    # 0 is 0.5 from 0.5 (> 0.4) and 10 from 10 (> 9.1); 1 is 0.1 from 0.9; 3 is 7 from 10, within 9.1.
    assert found.recall == pytest.approx(2 / 3)


def test_the_kernel_distance_by_hand() -> None:
    # One number each, d = 1: k(x, y) = (xy + 1)³. Made 0, 1; real 0, 2.
    made, real = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([[0.0], [2.0]]).double()
    # Off the diagonal: k(0, 1) = 1, k(0, 2) = 1. Across: k(0,0)=1, k(0,2)=1, k(1,0)=1, k(1,2)=27; their mean is 7.5.
    assert kernel_distance(made, real) == pytest.approx(1 + 1 - 2 * 7.5)


def test_the_fast_version_is_the_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "NEIGHBOURS", 3)
    rng = torch.Generator().manual_seed(0)
    made, real = (torch.randn(n, 4, generator=rng, dtype=torch.float64) * scale for n, scale in ((30, 0.7), (40, 1.0)))
    found = likeness(made, real)
    assert found is not None
    in_real = [[bool((m - r).norm() <= reach(real, r, 3)) for r in real] for m in made]
    in_made = [[bool((m - r).norm() <= reach(made, m, 3)) for r in real] for m in made]
    assert found.precision == pytest.approx(sum(map(any, in_real)) / 30)
    assert found.coverage == pytest.approx(sum(map(any, zip(*in_real, strict=True))) / 40)
    assert found.recall == pytest.approx(sum(map(any, zip(*in_made, strict=True))) / 40)
    assert found.density == pytest.approx(sum(map(sum, in_real)) / (3 * 30))


def reach(points: Tensor, at: Tensor, k: int) -> float:
    return float((points - at).norm(dim=1).sort().values[k])  # the 0th is itself


def test_too_few_or_broken_points_say_nothing() -> None:
    two = torch.zeros(2, 3)
    assert likeness(two[:1], two) is None
    assert likeness(torch.full((4, 3), torch.nan), two) is None
