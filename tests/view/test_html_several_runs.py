"""What a report on several runs works out by itself."""

import pytest

from understudy.view.html.several_runs import around_shares


def test_an_axis_of_percentages_ends_at_100_and_at_0() -> None:
    low, high = around_shares([96.4])
    assert low == pytest.approx(96.4 - 0.08 * 96.4)
    assert high == 100  # 104.1 otherwise
    assert around_shares([90.0, 80.0]) == pytest.approx((79.2, 90.8))
    assert around_shares([0.0, 50.0]) == (0, 54)
