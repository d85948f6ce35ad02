"""Membership by loss: a model is surer of the records it was trained on.

How sure it is of a record says as much about the record as about membership. So the confidence under the client's model
is held against what the broadcast model's lets expect, where that was kept, and against records of the class.
"""

import torch
from torch import Tensor

from understudy.audits.attacks.calibration import calibrated
from understudy.audits.attacks.points import classes_of
from understudy.audits.sighting import Seen, Sighting, View
from understudy.data.examples import Examples

PASS = 500  # records through the network at a time
ENOUGH = 2000  # reference records: each client's model is another pass over them


def by_loss(seen: Seen, candidates: Examples, view: View) -> Tensor | None:
    """Confidence in the true label under the client's models, against reference records, averaged over rounds."""
    some = torch.linspace(0, len(view.reference) - 1, min(len(view.reference), ENOUGH)).round().to(torch.int64)
    reference = view.reference.take(some)
    rounds = [_surprising(sighting, candidates, reference, view) for sighting in seen.sightings]
    scores = [found for found in rounds if found is not None]
    return torch.stack(scores).mean(0) if scores else None


def _surprising(sighting: Sighting, candidates: Examples, reference: Examples, view: View) -> Tensor | None:
    if sighting.model is None or not bool(sighting.model.isfinite().all()):
        return None
    own, known = (confidence(some, sighting.model, view) for some in (candidates, reference))
    before = sighting.broadcast
    if before is not None and bool(before.isfinite().all()) and len(reference) > 2:
        own_before, known_before = (confidence(some, before, view) for some in (candidates, reference))
        slope = _slope(known_before, known)
        own, known = own - slope * own_before, known - slope * known_before
    problem = view.net.problem
    return calibrated(own, classes_of(candidates, problem), known, classes_of(reference, problem))


def confidence(examples: Examples, w: Tensor, view: View) -> Tensor:
    """(n,): log-odds of the true label; of several labels their mean. Near-normal, which losses are not."""
    net = view.net.twin(w, "audit")
    x = examples.x if examples.x.dtype == torch.uint8 else examples.x.to(torch.float32)
    parts = [net.logits(part).cpu().to(torch.float64) for part in torch.split(x, PASS)]
    logits = torch.cat(parts)
    if view.net.problem.multilabel:
        return ((2 * examples.y.to(torch.float64) - 1) * logits).mean(1)
    own = examples.y.to(torch.int64)[:, None]
    return logits.gather(1, own)[:, 0] - logits.scatter(1, own, -torch.inf).logsumexp(1)


def _slope(before: Tensor, after: Tensor) -> float:
    """Of the least-squares line through reference records."""
    centred = before - before.mean()
    return float((centred * after).sum() / centred.square().sum().clamp(min=1e-30))
