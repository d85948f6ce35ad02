"""Membership by distance: who lies near a shared image is likelier to be behind it."""

import torch
from torch import Tensor

from understudy.audits.attacks.calibration import against_reference
from understudy.audits.attacks.points import Points, shared_points
from understudy.audits.sighting import Seen, View
from understudy.data.examples import Examples
from understudy.synthesis.neighbours import nearest

COPY = 1e-6  # of the usual length of an image: nearer than this is a copy


def by_distance(seen: Seen, candidates: Examples, view: View) -> Tensor | None:
    """Minus the log of the distance to the nearest shared image of the class, against reference records.

    The logarithm keeps copies and near-copies on top, whatever distances are usual in their class.
    """
    shared = shared_points(seen, view.net.problem)
    if shared is None:
        return None

    copy = max(COPY * float(shared.x.norm(dim=1).median()), 1e-30)

    def nearness(records: Points) -> Tensor:
        apart = torch.full((len(records),), torch.nan, dtype=torch.float64)
        for c in shared.classes:
            members = records.y == c
            if bool(members.any()):
                apart[members] = nearest(records.x[members], shared.of(c))[0]
        return -apart.clamp(min=copy).log()

    return against_reference(nearness, candidates, view)
