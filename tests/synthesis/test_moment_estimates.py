"""Means and covariances from sums: packing, weighing and trimming, with numbers worked by hand."""

import math

import pytest
import torch

from understudy.synthesis.class_sums import (
    Weighing,
    cosines,
    edge,
    packed,
    principal,
    root,
    trimmed,
    unpacked,
)
from understudy.synthesis.moment_estimates import Estimates


def test_the_cosines_of_an_image_are_orthonormal_and_begin_with_its_mean() -> None:
    rows = cosines((2, 4, 6), 3)
    assert rows.shape == (2 * 9, 48)
    torch.testing.assert_close(rows @ rows.T, torch.eye(18), atol=1e-6, rtol=0)
    # The lowest frequency of the first channel: 1/√24 at each of its 24 pixels, nothing in the second.
    torch.testing.assert_close(rows[0], torch.cat([torch.full((24,), 24**-0.5), torch.zeros(24)]))


def test_a_side_has_no_more_frequencies_than_pixels_and_other_records_stay_as_they_are() -> None:
    assert cosines((1, 3, 5), 10).shape == (15, 15)
    assert torch.equal(cosines((7,), 2), torch.eye(7))


def test_packing_keeps_the_norm() -> None:
    # ‖(3, 4)(3, 4)ᵀ‖ = 25: 9, 12·√2 and 16.
    v = torch.tensor([3.0, 4.0])
    torch.testing.assert_close(packed(torch.outer(v, v)), torch.tensor([9, 12 * math.sqrt(2), 16]))
    assert packed(torch.outer(v, v)).norm().item() == pytest.approx(25)
    torch.testing.assert_close(unpacked(packed(torch.outer(v, v)), 2), torch.outer(v, v))


def test_parties_weigh_by_their_counts_and_noise_does_not_count() -> None:
    # With noise of 2, counts up to 4 may be noise. Class 0: weights 30 and 10, so Σ wn = 900 + 100 = 1000.
    # Class 1: nobody.
    counts = torch.tensor([[30.0, 4], [10, -6], [3, 1]], dtype=torch.float64)
    weighing = Weighing.by(counts, 2.0)
    torch.testing.assert_close(weighing.factors[:, 0], torch.tensor([0.03, 0.01, 0], dtype=torch.float64))
    assert weighing.factors[:, 1].tolist() == [0, 0, 0]
    assert weighing.counts.tolist() == [40, 0]
    # Sums 30·2 and 10·6, and a third party's noise: 0.03·60 + 0.01·60 = 2.4.
    sums = torch.tensor([60.0, 60, 99], dtype=torch.float64).view(3, 1, 1).expand(3, 2, 1)
    torch.testing.assert_close(weighing.mean(sums), torch.tensor([[2.4], [0]], dtype=torch.float64))
    assert weighing.noise[0].item() == pytest.approx(math.sqrt(0.03**2 + 0.01**2))
    assert weighing.shares.tolist() == [1, 0]


def test_noise_alone_reaches_the_edge() -> None:
    noise = torch.randn(5050, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.3
    largest = torch.linalg.eigvalsh(unpacked(noise, 100)).max().item()
    assert largest == pytest.approx(edge(0.3, 100), rel=0.1)


def test_eigenvalues_shrink_towards_zero_and_never_below() -> None:
    square = torch.diag(torch.tensor([4.0, -1, 0.5]))
    torch.testing.assert_close(trimmed(square, 0.75), torch.diag(torch.tensor([3.25, -0.25, 0])))
    axes, values = principal(square, 0.75)
    assert values.tolist() == [3.25, 0, 0]
    assert axes[:, 0].abs().tolist() == [1, 0, 0]
    factor = root(square)
    torch.testing.assert_close(factor @ factor.T, torch.diag(torch.tensor([4.0, 0, 0.5])))


def test_means_and_spread_from_two_parties_by_hand() -> None:
    # One class of one number. Party 1: u = 0.2 and 0.6; party 2: u = 0.4. Weights 2 and 1: Σ wn = 5,
    # mean = (2·0.8 + 1·0.4) / 5 = 0.4; mean of u² = 0.56 / 3; within = 0.56/3 − 0.16.
    estimates = Estimates(classes=1, d=1, width=1, counted=0.5, trim=0.0)
    a, b = 0.5, math.sqrt(0.5)
    sums = torch.tensor([[2 * a, 0.4 * a, 0.8 * b], [a, 0.16 * a, 0.4 * b]], dtype=torch.float64)
    found = estimates.means(sums, 0.0)
    assert found["means"].item() == pytest.approx(0.4)
    assert found["counts"].tolist() == pytest.approx([3])
    assert found["within"].item() == pytest.approx(0.56 / 3 - 0.16)


def test_the_spread_is_less_what_noise_adds_to_the_means() -> None:
    # ‖m‖² holds d·(σ·‖factor‖/b)² of noise; 100 records in one party, so the factor is 1/100.
    estimates = Estimates(classes=1, d=4, width=1, counted=0.5, trim=0.0)
    a, b, noise = 0.5, math.sqrt(0.5), 5.0
    sums = torch.tensor([[100 * a, 50 * a, *[10 * b] * 4]], dtype=torch.float64)
    wanted = 0.5 - (4 * 0.1**2 - 4 * (noise / (100 * b)) ** 2)
    assert estimates.means(sums, noise)["within"].item() == pytest.approx(wanted)


def test_axes_are_those_of_the_shared_covariance() -> None:
    # Two records, v = (1, 0) and (0, ½): Σ v vᵀ / 2 = diag(½, ⅛), times a within of 0.4.
    estimates = Estimates(classes=1, d=2, width=1, counted=0.5, trim=0.0)
    a, b = math.sqrt(0.5), math.sqrt(0.5)
    sums = torch.tensor([[2 * a, b, 0, b / 4]], dtype=torch.float64)
    found = estimates.axes(sums, 0.0, torch.tensor(0.4))
    torch.testing.assert_close(found["variances"], torch.tensor([0.2, 0.05], dtype=torch.float64))
    assert found["axes"].abs().tolist() == [[1, 0], [0, 1]]


def test_images_of_a_class_have_its_mean_and_covariance() -> None:
    estimates = Estimates(classes=2, d=3, width=2, counted=0.1, trim=0.0)
    own = torch.tensor([[[1.0, 0], [0.5, 0.5]]]).expand(2, 2, 2)
    found = {"means": torch.tensor([[0.0, 0, 0], [1, 2, 3]]), "axes": torch.eye(3), "variances": torch.full((3,), 0.25)}
    drawn = estimates.drawn({**found, "own": own}, 1, 40_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(0), torch.tensor([1.0, 2, 3]), atol=0.03, rtol=0)
    wanted = torch.tensor([[1.0, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0.25]])  # L Lᵀ, and the third axis as shared
    torch.testing.assert_close(torch.cov(drawn.T), wanted, atol=0.03, rtol=0)


def test_a_class_that_nobody_holds_keeps_the_shared_covariance() -> None:
    estimates = Estimates(classes=2, d=2, width=2, counted=0.5, trim=0.0)
    found = {"axes": torch.eye(2), "variances": torch.tensor([0.16, 0.01])}
    _, reach = estimates.stretched(found)
    b = math.sqrt(0.5)
    # Class 0 has 4 records, all of them (½, 0) of the reach along the stretched axes; class 1 none.
    sums = torch.tensor([[4 * b, 0, b, 0, 0, 0, 0, 0]], dtype=torch.float64)
    own = estimates.own(sums, 0.0, found)["own"]
    torch.testing.assert_close(own[1] @ own[1].T, torch.diag(found["variances"]).double())
    assert (own[0] @ own[0].T)[0, 0].item() == pytest.approx(reach.item() ** 2 / 4)  # the first axis is not stretched
    assert (own[0] @ own[0].T)[1, 1].item() == pytest.approx(0)
