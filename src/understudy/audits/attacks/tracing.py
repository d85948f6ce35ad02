"""Membership by tracing: whether a record is one of those behind a sum.

A client sends s = Σ g(x) + noise over its n records. For a record of class c, which adds g, the log-likelihood ratio of
"x is among them" against "another record of its class is in its place" is, with A the inverse covariance of s,

    (g − μ_c)ᵀ A (s − Σ n_c μ_c) − ½ (g − μ_c)ᵀ A (g − μ_c).

The means μ_c and the main directions in which records differ come from reference records, the counts n_c from s itself;
in all other directions the variance is that of the noise and of what is left of the records'.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.audits.attacks.calibration import calibrated
from understudy.audits.attacks.points import class_count, classes_of
from understudy.audits.sighting import Seen, SumsSent, View
from understudy.data.examples import Examples

RECORDS = 2000  # of the reference, for means and directions
DIRECTIONS = 100
AT_ONCE = 500  # rows in memory
RIDGE = 1e-9  # of the mean variance: sums of few records without noise have directions with none


@dataclass(frozen=True)
class Usual:
    """What records of each class add, as the reference shows it."""

    means: Tensor  # (classes, d)
    axes: Tensor  # (d, k), orthonormal
    variances: Tensor  # (k,) along them
    rest: float  # in any other direction


def by_tracing(seen: Seen, candidates: Examples, view: View) -> Tensor | None:
    """Summed over rounds, against reference records."""
    sent = [one.sums for one in seen.sightings if one.sums is not None]
    if not sent or len(view.reference) < DIRECTIONS:
        return None
    problem, known = view.net.problem, _to_compare_with(view.reference)
    y, reference_y = classes_of(candidates, problem), classes_of(known, problem)
    own, reference = torch.zeros(len(y), dtype=torch.float64), torch.zeros(len(reference_y), dtype=torch.float64)
    for sums in sent:
        trace = _Trace(sums, view)
        own += trace.scores(candidates, y)
        reference += trace.scores(known, reference_y)
    return calibrated(own, y, reference, reference_y)


def _to_compare_with(reference: Examples) -> Examples:
    """Reference records that means and directions do not come from, if there are enough."""
    others = torch.arange(len(reference))[RECORDS : 2 * RECORDS]
    return reference.take(others) if len(others) == RECORDS else reference


class _Trace:
    """One sum, and what it says about any record."""

    def __init__(self, sums: SumsSent, view: View):
        self.sums = sums
        self.usual = view.once(("tracing", sums.key), lambda: _usual(sums, view))
        means = self.usual.means
        counts = (torch.linalg.pinv(means @ means.T) @ (means @ sums.total)).clamp(min=0)
        records = float(counts.sum().clamp(min=1))
        self.flat = sums.noise**2 + records * self.usual.rest
        self.flat += RIDGE * records * float(self.usual.variances.mean()) + 1e-30
        self.along = records * (self.usual.variances - self.usual.rest).clamp(min=0)
        self.filter = self._inverse(sums.total - counts @ means)

    def _inverse(self, rows: Tensor) -> Tensor:
        """(…, d) times A, which is flat but for the main directions."""
        along = rows @ self.usual.axes
        return (rows - (along * (self.along / (self.along + self.flat))) @ self.usual.axes.T) / self.flat

    def scores(self, records: Examples, y: Tensor) -> Tensor:
        found = []
        for part in torch.split(torch.arange(len(y)), AT_ONCE):
            rows = self.sums.rows(records.take(part)).to(torch.float64) - self.usual.means[y[part]]
            found.append(rows @ self.filter - (rows * self._inverse(rows)).sum(1) / 2)
        return torch.cat(found) if found else torch.empty(0, dtype=torch.float64)


def _usual(sums: SumsSent, view: View) -> Usual:
    some = view.reference.take(torch.arange(min(RECORDS, len(view.reference))))
    y, classes = classes_of(some, view.net.problem), class_count(view.net.problem)
    parts = torch.split(torch.arange(len(some)), AT_ONCE)
    rows = torch.cat([sums.rows(some.take(part)).to(torch.float64) for part in parts])
    means = torch.stack([rows[y == c].mean(0) if bool((y == c).any()) else rows.mean(0) for c in range(classes)])
    apart = rows - means[y]
    most = min(DIRECTIONS, *apart.shape)
    values, turns = torch.linalg.eigh(apart @ apart.T if len(apart) < apart.shape[1] else apart.T @ apart)
    values, turns = values.flip(0)[:most].clamp(min=0), turns.flip(1)[:, :most]
    axes = apart.T @ turns if len(apart) < apart.shape[1] else turns
    axes = axes / axes.norm(dim=0).clamp(min=1e-30)
    variances = values / len(apart)
    left = max(float(apart.square().sum()) / len(apart) - float(variances.sum()), 0.0)
    return Usual(means, axes, variances, left / max(apart.shape[1] - most, 1))
