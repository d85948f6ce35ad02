"""One scale from sums over columns: the numbers by hand, the norm of a record, and what noise does to them."""

import math

import pytest
import torch

from understudy.data.federated_scale import FederatedScale
from understudy.data.spread import Spread
from understudy.errors import UserError

ROWS = torch.tensor([[0.0, 100], [2, 300], [4, 500]])
RANGES = ((-10.0, 10.0), (0.0, 1000.0))


def test_a_record_adds_itself_its_numbers_and_their_squares() -> None:
    assert FederatedScale().rows(ROWS[1:2]).tolist() == [[1, 2, 300, 4, 90000]]


def test_with_ranges_a_record_adds_where_it_lies_between_them() -> None:
    # (2 − 0) / 10 and (300 − 500) / 500; then the squares less a half.
    [row] = FederatedScale(RANGES).rows(ROWS[1:2]).tolist()
    assert row == pytest.approx([1, 0.2, -0.4, 0.04 - 0.5, 0.16 - 0.5])


def test_sums_of_parts_give_the_statistics_of_the_whole() -> None:
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 30, 0.01]) + 5
    whole, scale = Spread.of(x), FederatedScale()
    found = scale.spread(torch.stack([scale.rows(part).sum(0) for part in torch.split(x, 7)]).sum(0))
    assert found.mean.tolist() == pytest.approx(whole.mean.tolist(), rel=1e-12)
    assert found.std.tolist() == pytest.approx(whole.std.tolist(), rel=1e-6)
    ranged = FederatedScale(((-20, 20), (-200, 200), (4, 6)))
    found = ranged.spread(ranged.rows(x).sum(0))
    assert found.mean.tolist() == pytest.approx(whole.mean.tolist(), rel=1e-9)
    assert found.std.tolist() == pytest.approx(whole.std.tolist(), rel=1e-6)


def test_series_count_with_their_mean_over_time() -> None:
    x = torch.tensor([[[1.0, 3.0]], [[5.0, 7.0]]])
    scale = FederatedScale()
    assert scale.rows(x).tolist() == [[1, 2, 5], [1, 6, 37]]
    found = scale.spread(scale.rows(x).sum(0))
    assert (found.mean.item(), found.std.item()) == pytest.approx((4, math.sqrt(5)))


def test_no_record_moves_the_sums_by_more_than_the_norm() -> None:
    corners = torch.tensor([[a, b] for a in (-1e30, -10, 0, 3, 10, 1e30) for b in (-5, 0, 1, 1000, 1e9)])
    scale = FederatedScale(RANGES)
    lengths = scale.rows(corners).norm(dim=1)
    assert float(lengths.max()) == pytest.approx(scale.norm(2)) == pytest.approx(math.sqrt(1 + 1.25 * 2))


def test_a_column_that_never_changes_has_no_spread_in_spite_of_rounding() -> None:
    x = torch.full((7, 1), 0.1)
    assert FederatedScale().spread(FederatedScale().rows(x).sum(0)).std.item() == 0
    ranged = FederatedScale(((0.0, 1.0),))
    assert ranged.spread(ranged.rows(x).sum(0)).std.item() == 0


def test_the_noisier_the_sums_the_more_the_ranges_say() -> None:
    scale = FederatedScale(((0.0, 8.0),))
    sums = scale.rows(torch.full((100, 1), 6.0)).sum(0)  # v = ½ everywhere: mean 6, no spread
    exact, little, much = (scale.spread(sums, noise) for noise in (0.0, 1.0, 1e9))
    assert (exact.mean.item(), exact.std.item()) == (6, 0)
    assert much.mean.item() == pytest.approx(4)  # the middle
    assert much.std.item() == pytest.approx(2)  # a quarter of the width
    # Noise of 0.01 on means: v = ½ · ¼ / (¼ + 10⁻⁴); a variance is not known better than to 0.01.
    assert little.mean.item() == pytest.approx(4 + 4 * 0.5 * 0.25 / (0.25 + 1e-4))
    assert little.std.item() == pytest.approx(4 * math.sqrt(0.01), rel=0.05)


def test_sums_of_nothing_leave_records_as_they_are() -> None:
    found = FederatedScale().spread(torch.zeros(5))
    assert found.mean.tolist() == found.std.tolist() == [0, 0]


def test_there_is_a_range_for_every_feature() -> None:
    with pytest.raises(UserError, match=r"data\.ranges: 2 ranges for 3 features"):
        FederatedScale(RANGES).check(3)
