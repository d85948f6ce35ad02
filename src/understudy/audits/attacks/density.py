"""Membership by density: where shared images crowd more than records do, a generator has overfitted to a record.

The ratio follows the idea of "Membership Inference Attacks against Synthetic Data through Overfitting Detection"
(DOMIAS): the density of what was shared against that of records of the same distribution. Both are kernel estimates in
the principal components of the reference.
"""

import math

import torch
from torch import Tensor

from understudy.audits.attacks.calibration import against_reference
from understudy.audits.attacks.points import Points, shared_points
from understudy.audits.attacks.whitening import FEWEST_RECORDS, whitened_reference
from understudy.audits.sighting import Seen, View
from understudy.data.examples import Examples
from understudy.synthesis.neighbours import AT_ONCE, nearest, squared_distances

COMPONENTS = 50
WIDTH = 0.3  # of a kernel, as a share of the usual distance between a reference record and its nearest other


def by_density(seen: Seen, candidates: Examples, view: View) -> Tensor | None:
    """log density of shared images − log density of reference records, within the class, against reference records."""
    shared = shared_points(seen, view.net.problem)
    if shared is None or len(view.reference) < FEWEST_RECORDS:
        return None
    reference, fit = whitened_reference(view)
    known = Points(fit.components(reference, COMPONENTS), reference.y)
    sent = Points(fit.components(shared, COMPONENTS), shared.y)

    def ratio(records: Points) -> Tensor:
        at = fit.components(records, COMPONENTS)
        found = torch.full((len(records),), torch.nan, dtype=torch.float64)
        for c in sent.classes:
            members, like = records.y == c, known.of(c)
            if not bool(members.any()):
                continue
            like = like if len(like) >= FEWEST_RECORDS else known.x
            width = _width(like)
            among_records = log_density(at[members], like, width, others_only=True)
            found[members] = log_density(at[members], sent.of(c), width) - among_records
        return found

    return against_reference(ratio, candidates, view)


def _width(records: Tensor) -> float:
    usual, _ = nearest(records, records, others_only=True)
    usual = usual[usual.isfinite()]
    return WIDTH * float(usual.median()) if len(usual) else 1.0


def log_density(at: Tensor, centres: Tensor, width: float, *, others_only: bool = False) -> Tensor:
    """Up to a constant. ``others_only``: equal ones do not count, so no reference record is a witness to itself."""
    found = []
    for part in torch.split(at, AT_ONCE):
        total = torch.full((len(part),), -torch.inf, dtype=torch.float64)
        for _, table in squared_distances(part, centres):
            heights = table.masked_fill(table == 0, torch.inf) if others_only else table
            total = torch.logaddexp(total, torch.logsumexp(-heights / (2 * width**2), 1))
        found.append(total)
    return torch.cat(found) - math.log(len(centres))
