"""One Gaussian per class, on images of two pixels."""

import math
from typing import Any

import pytest
import torch

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import generator
from understudy.synthesis.class_sums import cosines
from understudy.synthesis.gaussian import Gaussian, GaussianSettings

PROBLEM = Problem(shape=(1, 1, 2), classes=3)
# Class 0: the second pixel is 0 or 0.8. Class 2: always (0.2, 0.6). Class 1 has no record.
RECORDS = Examples(
    torch.tensor([[0, 0], [0, 204], [51, 153], [51, 153]], dtype=torch.uint8).view(4, 1, 1, 2),
    torch.tensor([0, 0, 2, 2]),
)


def gaussian(**settings: Any) -> Gaussian:
    return Gaussian(GaussianSettings(**settings))


def images(made: Gaussian, label: int, many: int) -> torch.Tensor:
    """(many, 2), from 0 to 255."""
    learnt = made.fit(RECORDS, PROBLEM, generator("fit"))
    labels = torch.full((many,), label)
    drawn = made.sample(learnt, labels, PROBLEM, generator("draw"))
    assert drawn.shape == (many, 1, 1, 2)
    assert drawn.dtype == torch.uint8
    return drawn.view(many, 2).to(torch.float64)


def test_mean_and_spread_of_a_class_by_hand() -> None:
    # Mean (0, 0.4); the second pixel is 0.4 away in both records: variance 2 · 0.16 / (2 − 1) = 0.32, the first: 0.
    learnt = gaussian(axes=1).fit(RECORDS, PROBLEM, generator("fit"))
    basis = cosines(PROBLEM.shape, 8)
    torch.testing.assert_close(learnt["mean"] @ basis, torch.tensor([[0.0, 0.4], [0, 0], [0.2, 0.6]]))
    torch.testing.assert_close(
        (learnt["spread"][0].T @ basis).abs(), torch.tensor([[0.0, math.sqrt(0.32)]]), atol=1e-5, rtol=0
    )
    assert float(learnt["spread"][2].abs().max()) < 1e-3
    assert learnt["count"].tolist() == [2, 0, 2]


def test_images_have_that_mean_and_spread_and_are_clipped_to_pixels() -> None:
    first, second = images(gaussian(axes=1, noise=0), 0, 4000).unbind(1)
    assert first.max() == 0
    # N(0.4, 0.32): below 0 with probability Φ(−0.4/√0.32) = 0.24, above 1 with 1 − Φ(0.6/√0.32) = 0.144
    assert float((second == 0).double().mean()) == pytest.approx(0.24, abs=0.03)
    assert float((second == 255).double().mean()) == pytest.approx(0.144, abs=0.03)
    assert float(second.median()) == pytest.approx(102, abs=10)
    assert images(gaussian(noise=0), 2, 3).tolist() == [[51, 153]] * 3


def test_without_axes_all_images_of_a_class_are_its_mean() -> None:
    assert images(gaussian(axes=0, noise=0), 0, 3).tolist() == [[0, 102]] * 3


def test_only_low_frequencies_are_kept() -> None:
    # The lowest is the mean of the image: (0.2 + 0.6) / 2.
    assert images(gaussian(frequencies=1, noise=0), 2, 2).tolist() == [[102, 102]] * 2


def test_noise_is_in_every_pixel_by_itself() -> None:
    drawn = images(gaussian(axes=0, noise=0.05), 2, 4000)
    torch.testing.assert_close(drawn.mean(0), torch.tensor([51.0, 153.0], dtype=torch.float64), atol=1, rtol=0)
    assert drawn.std(0).tolist() == pytest.approx([12.75, 12.75], rel=0.06)  # 0.05 · 255
    assert abs(float(torch.corrcoef(drawn.T)[0, 1])) < 0.07


def test_classes_are_drawn_each_from_its_own() -> None:
    made = gaussian(axes=0, noise=0)
    learnt = made.fit(RECORDS, PROBLEM, generator("fit"))
    drawn = made.sample(learnt, torch.tensor([2, 0, 2]), PROBLEM, generator("draw"))
    assert drawn.view(3, 2).tolist() == [[51, 153], [0, 102], [51, 153]]
    assert made.sample(learnt, torch.tensor([], dtype=torch.int64), PROBLEM, generator("draw")).shape == (0, 1, 1, 2)


def test_what_it_cannot_do_is_refused() -> None:
    made = gaussian()
    learnt = made.fit(RECORDS, PROBLEM, generator("fit"))
    with pytest.raises(UserError, match="seen no record of class 1"):
        made.sample(learnt, torch.tensor([1]), PROBLEM, generator("draw"))
    steps = PrivateSteps(0.5, 3, 1.0, 1.0, 4.0, *(generator("private", i) for i in range(3)))
    with pytest.raises(UserError, match="cannot be private; choose vae, gan or diffusion"):
        made.fit(RECORDS, PROBLEM, generator("fit"), steps)
    rows = Examples(torch.zeros(3, 4, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(UserError, match=r"but the records have shape \(4,\)"):
        made.fit(rows, Problem(shape=(4,), classes=1), generator("fit"))
