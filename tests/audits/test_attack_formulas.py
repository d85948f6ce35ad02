"""The attacks' parts by hand and beside slow, obvious versions."""

import math

import pytest
import torch
from known_members import PROBLEM, records
from scipy.stats import norm

from understudy.audits.attacks.calibration import calibrated
from understudy.audits.attacks.density import log_density
from understudy.audits.attacks.embedding import tracing_score
from understudy.audits.attacks.mixture import RECORDS_PER_IMAGE, log_ratio
from understudy.audits.attacks.points import Points, points_of
from understudy.audits.attacks.whitening import whitening
from understudy.randomness import generator


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_scores_are_counted_in_deviations_of_the_class() -> None:
    # Class 0 has mean 10 and deviation 1, class 1 mean 0 and deviation 10.
    around = double(-1, 1) * math.sqrt(9 / 10)  # ten such values deviate by 1
    reference = torch.cat([10 + around.repeat(5), 10 * around.repeat(5)])
    classes = torch.tensor([0] * 10 + [1] * 10)
    found = calibrated(double(12, 12, torch.nan), torch.tensor([0, 1, 1]), reference, classes)
    assert found.tolist() == pytest.approx([2.0, 1.2, 0.0])


def test_a_class_with_few_reference_records_is_held_against_all() -> None:
    reference = torch.arange(20, dtype=torch.float64)
    classes = torch.tensor([0] * 19 + [1])
    found = calibrated(double(9.5), torch.tensor([1]), reference, classes)
    assert found.tolist() == pytest.approx([0.0])


def test_whitened_reference_has_mean_0_and_about_unit_covariance() -> None:
    reference = points_of(records(900, "reference"), PROBLEM)
    white = whitening(reference, 3)
    z = white(reference)
    for c in range(3):
        assert float(z[reference.y == c].mean(0).abs().max()) < 0.05
    products = z.T @ z / 900
    assert float((products - products.diag().diag()).abs().max()) < 0.1
    assert 0.5 < float(products.diag().min()) <= float(products.diag().max()) < 1.15  # the ridge shrinks the smallest


def test_more_columns_than_rows_give_the_same_directions() -> None:
    rows = points_of(records(60, "reference"), PROBLEM)
    padded = Points(torch.cat([rows.x, torch.zeros(60, 200)], 1), rows.y)  # wide: by the other matrix of products
    found, expected = whitening(padded, 3)(padded), whitening(rows, 3)(rows)
    assert torch.allclose(found @ found.T, expected @ expected.T, atol=1e-6)
    # Directions in which nothing varies are dropped, not divided by.
    flat = Points(torch.ones(60, 5), rows.y)
    assert bool(whitening(flat, 3)(flat).isfinite().all())


def test_the_mixture_ratio_is_that_of_the_gaussians() -> None:
    z = torch.randn(7, 4, generator=generator(1), dtype=torch.float64)
    images = torch.randn(3, 4, generator=generator(2), dtype=torch.float64)
    variance = 0.9
    for candidate, found in zip(z, log_ratio(z, images, variance), strict=True):
        ratios = []
        for a in images:
            for m in RECORDS_PER_IMAGE:
                left = max(variance - 1 / m**2, 0.05 * variance)
                inside = norm.pdf(a, candidate / m, math.sqrt(left)).prod()
                ratios.append(inside / norm.pdf(a, 0, math.sqrt(variance)).prod())
        assert float(found) == pytest.approx(math.log(sum(ratios) / len(ratios)))


def test_the_tracing_score_by_hand() -> None:
    # One class, one direction: a = 0.5, so A = 0.25 = 1/n. For z = 2: (0.5 · 2/n − 2²/2n²) / A = 1 − 0.5.
    score = tracing_score(Points(double(2, -2).view(2, 1), torch.tensor([0, 1])), {0: double(0.5)})
    assert float(score[0]) == pytest.approx(0.5)
    assert math.isnan(float(score[1]))


def test_directions_that_were_not_matched_count_less() -> None:
    # 40 directions with a = 0.1 and 40 with a = 1: at the ends A = 0.01 and 1, so weights differ a hundredfold.
    mean = torch.cat([torch.full((40,), 0.1), torch.ones(40)]).double()
    unit = torch.eye(80, dtype=torch.float64)[[0, 79]]
    first, last = tracing_score(Points(unit, torch.zeros(2, dtype=torch.int64)), {0: mean}).tolist()
    assert first == pytest.approx(0.1 - 0.01 / 2)
    assert last == pytest.approx(0.01 * (1 - 0.01 / 2))


def test_the_density_of_two_kernels_by_hand() -> None:
    # Kernels of width 2 at 0 and 4, seen from 0: (1 + e^(−16/8)) / 2; without the equal one e^(−2) / 2.
    at, centres = double(0).view(1, 1), double(0, 4).view(2, 1)
    assert float(log_density(at, centres, 2.0)) == pytest.approx(math.log((1 + math.exp(-2)) / 2))
    assert float(log_density(at, centres, 2.0, others_only=True)) == pytest.approx(-2 - math.log(2))


def test_a_class_without_reference_records_has_the_mean_of_all() -> None:
    x = torch.randn(100, 4, generator=generator(3))
    x -= x.mean(0) - 5
    white = whitening(Points(x, torch.zeros(100, dtype=torch.int64)), classes=2)
    centre = Points(torch.full((1, 4), 5.0), torch.tensor([1]))
    assert float(white(centre).abs().max()) < 1e-5


def test_each_class_is_whitened_by_its_own_covariance_so_far_as_it_is_known() -> None:
    # Two classes correlated by ±0.9 are uncorrelated together. The class itself counts for 0.5 · n/(n + 2)
    # ≈ 1/2: C = (I + R)/2, and C⁻¹R has eigenvalues 1.9/1.45 and 0.1/0.55.
    n = 4000
    e = torch.randn(2 * n, 2, generator=generator(4))
    y = torch.arange(2 * n) % 2
    sign = torch.where(y == 0, 0.9, -0.9)
    reference = Points(torch.stack([e[:, 0], 2 * (sign * e[:, 0] + math.sqrt(0.19) * e[:, 1])], 1), y)
    z = whitening(reference, 2)(reference)[y == 0]
    assert torch.linalg.eigvalsh(z.T @ z / n).tolist() == pytest.approx([0.1 / 0.55, 1.9 / 1.45], abs=0.05)
