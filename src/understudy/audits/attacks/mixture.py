"""Membership by "one of m records in this image": averages of records, which hide each from distance.

If a shared image s is the mean of m records of a class, x among them, then s ~ N(μ + (x − μ)/m, (m − 1)/m² · Σ); if x
is not among them, s ~ N(μ, Σ/m). In whitened coordinates a = s − μ and z = x − μ, with v the variance of a that is
seen (1/m, or more where there is noise as well), the log-likelihood ratio is

    (‖a‖²/v − ‖a − z/m‖²/u − k·log(u/v)) / 2,    u = v − 1/m².

m is unknown, and so is the image: the ratio is averaged over a few m and over all shared images of the class.
"""

import math

import torch
from torch import Tensor

from understudy.audits.attacks.calibration import against_reference
from understudy.audits.attacks.points import Points, shared_points
from understudy.audits.attacks.whitening import FEWEST_RECORDS, whitened_reference
from understudy.audits.sighting import Seen, View
from understudy.data.examples import Examples
from understudy.synthesis.neighbours import AT_ONCE

RECORDS_PER_IMAGE = (1, 2, 4, 8, 16, 32)  # m
LEFT_OVER = 0.05  # of the variance: no image is exactly a mean of what a Gaussian allows


def by_mixture(seen: Seen, candidates: Examples, view: View) -> Tensor | None:
    """log of the mean likelihood ratio over m and shared images of the class, against reference records."""
    shared = shared_points(seen, view.net.problem)
    if shared is None or len(view.reference) < FEWEST_RECORDS:
        return None
    _, white = whitened_reference(view)
    images = Points(white(shared), shared.y)
    variance = max(float(images.x.square().mean(1).median()), 1e-12)

    def ratio(records: Points) -> Tensor:
        z = white(records)
        found = torch.full((len(records),), torch.nan, dtype=torch.float64)
        for c in images.classes:
            members = records.y == c
            if bool(members.any()):
                found[members] = log_ratio(z[members], images.of(c), variance)
        return found

    return against_reference(ratio, candidates, view)


def log_ratio(z: Tensor, images: Tensor, variance: float) -> Tensor:
    """(n,): for candidates (n, k) and images (s, k) of one class, in whitened coordinates."""
    found = [_of_some(part, images, variance) for part in torch.split(z, AT_ONCE)]
    return torch.cat(found) - math.log(len(images) * len(RECORDS_PER_IMAGE))


def _of_some(z: Tensor, images: Tensor, variance: float) -> Tensor:
    total = torch.full((len(z),), -torch.inf, dtype=torch.float64)
    lengths = z.square().sum(1, keepdim=True)
    for a in torch.split(images, AT_ONCE):
        products, of_images = z @ a.T, a.square().sum(1)
        for m in RECORDS_PER_IMAGE:
            rest = max(variance - 1 / m**2, LEFT_OVER * variance)
            apart = of_images - 2 / m * products + lengths / m**2
            twice = of_images / variance - apart / rest - a.shape[1] * math.log(rest / variance)
            total = torch.logaddexp(total, torch.logsumexp(twice / 2, 1))
    return total
