"""Membership by what the server really knows: mean embeddings under the model it sent out.

Images made to match a class's mean features and logits carry that mean, whatever they look like. If v̄ is the mean
embedding of n records, x among them, v̄ ~ N(μ + (x − μ)/n, Σ(n − 1)/n²), else v̄ ~ N(μ, Σ/n). The images match v̄ only
roughly, in some directions better than in others. In whitened coordinates a = v̄ − μ and z = v(x) − μ, with A_i the
variance of a_i that is seen (1/n, and what is missing in matching), the log-likelihood ratio is, to first order in 1/n,

    Σ_i (a_i z_i / n − z_i² / 2n²) / A_i.

A is estimated from a itself, over the classes that were shared and over neighbouring directions; 1/n, which nobody
tells, by the smallest A_i.
"""

import hashlib

import torch
from torch import Tensor
from torch.nn import functional

from understudy.audits.attacks.calibration import calibrated
from understudy.audits.attacks.points import Points, class_count, classes_of
from understudy.audits.attacks.whitening import FEWEST_RECORDS, Whitening, whitening
from understudy.audits.sighting import Seen, Sighting, View
from understudy.data.examples import Examples
from understudy.synthesis.matching import embedding

PASS = 500  # records through the network at a time
NEIGHBOURS = 31  # directions over which variances are averaged


def by_embedding(seen: Seen, candidates: Examples, view: View) -> Tensor | None:
    """The log-likelihood ratio for "one of the records behind the class's mean", averaged over rounds, against
    reference records."""
    if len(view.reference) < FEWEST_RECORDS:
        return None
    rounds = [_traced(sighting, candidates, view) for sighting in seen.sightings]
    scores = [found for found in rounds if found is not None]
    if not scores:
        return None
    own, reference = (torch.stack(some).nanmean(0) for some in zip(*scores, strict=True))
    problem = view.net.problem
    return calibrated(own, classes_of(candidates, problem), reference, classes_of(view.reference, problem))


def _traced(sighting: Sighting, candidates: Examples, view: View) -> tuple[Tensor, Tensor] | None:
    """Scores of candidates and of the reference in one round, NaN for classes that were not shared."""
    w, sent = sighting.broadcast, sighting.examples
    if w is None or sent is None or not len(sent) or not bool(w.isfinite().all()):
        return None
    images = embedded(sent, w, view)
    whole = images.x.isfinite().all(1)
    if not bool(whole.any()):
        return None
    white, reference = _whitened(w, view)
    images = Points(images.x[whole], images.y[whole])
    means = class_means(Points(white(images), images.y))
    known = embedded(candidates, w, view)
    return tracing_score(Points(white(known), known.y), means), tracing_score(reference, means)


def class_means(images: Points) -> dict[int, Tensor]:
    return {c: images.of(c).mean(0) for c in images.classes}


def tracing_score(records: Points, means: dict[int, Tensor]) -> Tensor:
    """(n,) from whitened embeddings of records and whitened means of what was shared."""
    seen = torch.stack(list(means.values())).square().mean(0)
    half = min(NEIGHBOURS, len(seen)) // 2
    smooth = functional.avg_pool1d(seen[None], 2 * half + 1, 1, padding=half, count_include_pad=False)[0]
    smooth = smooth.clamp(min=1e-12)
    inverse_n = float(smooth.min().clamp(max=1.0))
    weights = inverse_n / smooth
    found = torch.full((len(records),), torch.nan, dtype=torch.float64)
    for c, mean in means.items():
        z = records.of(c)
        found[records.y == c] = z @ (weights * mean) - inverse_n / 2 * z.square() @ weights
    return found


def embedded(examples: Examples, w: Tensor, view: View) -> Points:
    """Features and logits under the weights ``w``."""
    net = view.net.twin(w, "audit")
    x = examples.x if examples.x.dtype == torch.uint8 else examples.x.to(torch.float32)
    with net.scoring():
        found = [embedding(net, part).cpu() for part in torch.split(x, PASS)]
    return Points(torch.cat(found), classes_of(examples, view.net.problem))


def _whitened(w: Tensor, view: View) -> tuple[Whitening, Points]:
    """What whitens embeddings under ``w``, and the reference so whitened; once for all clients of a round."""

    def make() -> tuple[Whitening, Points]:
        reference = embedded(view.reference, w, view)
        white = whitening(reference, class_count(view.net.problem))
        return white, Points(white(reference), reference.y)

    return view.once(("embedding", hashlib.sha256(w.cpu().numpy().tobytes()).hexdigest()), make)
