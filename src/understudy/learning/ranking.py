"""AUROC and calibration error, exactly, from scores and outcomes."""

import torch
from torch import Tensor

BINS = 15


def area_under_roc(scores: Tensor, positive: Tensor) -> float | None:
    """The probability that a positive outranks a negative, ties counting half; None if either kind is missing.

    The rank-sum formula: (sum of the positives' ranks − P(P+1)/2) / (P·N), tied scores sharing a mean rank.
    """
    of_value, tied = torch.unique(scores, return_inverse=True, return_counts=True)[1:]
    ends = tied.cumsum(0).to(torch.float64)
    ranks = (ends - (tied - 1) / 2)[of_value]
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return None
    above = float(ranks[positive].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)


def expected_calibration_error(confidence: Tensor, correct: Tensor, bins: int = BINS) -> float:
    """Σ over equal bins of (share of predictions) · |mean confidence − share correct|."""
    sums = torch.zeros(bins, dtype=torch.float64)
    at = (confidence * bins).ceil().long().sub_(1).clamp_(0, bins - 1)  # bins are (lower, upper]
    sums.index_add_(0, at, confidence.to(torch.float64) - correct.to(torch.float64))
    return float(sums.abs().sum()) / len(confidence)
