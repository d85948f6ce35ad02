"""Scores against those of reference records of the same class.

A 1 lies nearer to anything than an 8 does. What counts is how a record's score compares with scores that records of its
class get without being members, and that makes classes and clients comparable. A class that a client never shared says
nothing about its records: they get 0, the score of an average non-member, and not a low one that would tell on all
clients without the class.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from understudy.audits.attacks.points import Points, points_of
from understudy.audits.sighting import View
from understudy.data.examples import Examples

FEWEST_OF_A_CLASS = 10  # reference records, below which all classes are used together

ScoreOfPoints = Callable[[Points], Tensor]  # (n,), NaN: nothing to say about this record


def against_reference(score: ScoreOfPoints, candidates: Examples, view: View) -> Tensor:
    """A score of rows, applied to candidates and to the reference."""
    own, reference = (points_of(examples, view.net.problem) for examples in (candidates, view.reference))
    known = score(reference) if len(reference) else torch.empty(0, dtype=torch.float64)
    return calibrated(score(own), own.y, known, reference.y)


def calibrated(scores: Tensor, y: Tensor, of_reference: Tensor, reference_y: Tensor) -> Tensor:
    """(n,) in standard deviations above the mean of reference records of the class; 0 where there is no score."""
    scores = scores.to(torch.float64).clone()
    usable = of_reference.isfinite()
    reference, reference_y = of_reference[usable].to(torch.float64), reference_y[usable]
    everybody = reference if len(reference) >= 2 else scores[scores.isfinite()]
    for c in y.unique().tolist():  # type: ignore[no-untyped-call]
        own, of_class = y == c, reference[reference_y == c]
        scores[own] = _standing(scores[own], of_class if len(of_class) >= FEWEST_OF_A_CLASS else everybody)
    return scores.nan_to_num(0.0, posinf=0.0, neginf=0.0)


def _standing(scores: Tensor, among: Tensor) -> Tensor:
    if len(among) < 2:
        return scores
    mean = among.mean()
    return (scores - mean) / among.std().clamp(min=1e-9 * (1 + float(mean.abs())))
