"""Scores of logits against labels, as plain numbers."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from understudy.data.problem import Problem
from understudy.learning.losses import per_record_loss

PerClass = tuple[float | None, ...]
BINS = 15  # of confidence


@dataclass(frozen=True)
class Scores:
    """None where a score does not apply: no record, an absent class, logits that are not finite.

    If records have several labels, a label is predicted when its logit is above 0; ``accuracy`` is then the mean
    per-label accuracy, which rewards saying no when labels are rare, and precision and all kinds of F1 are filled in. A
    label that no record has gets no recall; its F1 is 0 if it is predicted, and None otherwise.
    """

    count: int
    accuracy: float | None = None
    loss: float | None = None
    balanced_accuracy: float | None = None  # mean recall of the classes present; several labels: see below
    auroc: float | None = None  # one against the rest, mean over classes with both positives and negatives
    calibration_error: float | None = None  # 15 equal bins of confidence
    recall: PerClass = ()
    precision: PerClass = ()
    f1: PerClass = ()
    macro_f1: float | None = None  # mean of the classes' F1, not the F1 of their mean precision and recall
    sample_f1: float | None = None  # mean over records; 1 for no label and none predicted

    def as_dict(self) -> dict[str, int | float | list[float | None] | None]:
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}


def score(problem: Problem, logits: Tensor, y: Tensor) -> Scores:
    """All scores of (n, classes) logits, in float64, so that none depends on rounding."""
    if not len(y):
        return Scores(0)
    logits, y = logits.detach().to("cpu", torch.float64), y.to("cpu")
    found = _of_sets(logits, y) if problem.multilabel else _of_one_label(problem.classes, logits, y)
    loss = float(per_record_loss(problem, logits, y).mean())
    return replace(found, loss=loss if math.isfinite(loss) else None)


def right_decisions(problem: Problem, logits: Tensor, y: Tensor) -> Tensor:
    """(n,) whether the likeliest class is right; (n, classes) if each label is decided by itself."""
    return (logits > 0) == (y > 0) if problem.multilabel else logits.argmax(1) == y


def _of_one_label(classes: int, logits: Tensor, y: Tensor) -> Scores:
    truth = functional.one_hot(y, classes).bool()
    guess = functional.one_hot(logits.argmax(1), classes).bool()
    right = logits.argmax(1) == y
    recall = _ratios((truth & guess).sum(0), truth.sum(0))
    likely = logits.log_softmax(1)
    return Scores(
        count=len(y),
        accuracy=_share(right),
        balanced_accuracy=_mean(recall),
        auroc=_mean_area(likely, truth),
        calibration_error=_calibration(likely.amax(1).exp(), right),
        recall=recall,
    )


def _of_sets(logits: Tensor, y: Tensor) -> Scores:
    """Here balanced accuracy is the mean of (recall + specificity)/2 over labels with both positives and negatives: the
    mean recall would reward a network that says yes to everything."""
    truth, guess = y > 0, logits > 0
    by_label = LabelScores.of(*label_counts(logits, y))
    specificity = _ratios((~truth & ~guess).sum(0), (~truth).sum(0))
    pairs = zip(by_label.recall, specificity, strict=True)
    both = [(r + s) / 2 for r, s in pairs if r is not None and s is not None]
    probability = logits.sigmoid()
    return Scores(
        count=len(y),
        accuracy=_share(truth == guess),
        balanced_accuracy=_mean(both),
        auroc=_mean_area(logits, truth),
        calibration_error=_calibration(torch.maximum(probability, 1 - probability), truth == guess),
        recall=by_label.recall,
        precision=by_label.precision,
        f1=by_label.f1,
        macro_f1=by_label.macro_f1,
        sample_f1=float(record_f1(logits, y).mean()),
    )


def label_counts(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(classes,) each: how often a label was correctly predicted, predicted at all, and present."""
    truth, guess = y > 0, logits > 0
    return (truth & guess).sum(0), guess.sum(0), truth.sum(0)


def record_f1(logits: Tensor, y: Tensor) -> Tensor:
    """(n,) float64: F1 of the labels predicted for each record; 1 if it has none and none is predicted."""
    truth, guess = y > 0, logits > 0
    both, either = (truth & guess).sum(1).double(), truth.sum(1) + guess.sum(1)
    return torch.where(either > 0, 2 * both / either.clamp(min=1), 1.0)


@dataclass(frozen=True)
class LabelScores:
    """Scores of each label, from counts summed over any number of parts."""

    recall: PerClass
    precision: PerClass
    f1: PerClass
    macro_f1: float | None

    @classmethod
    def of(cls, hits: Tensor, predicted: Tensor, borne: Tensor) -> "LabelScores":
        f1 = _ratios(2 * hits, predicted + borne)
        return cls(_ratios(hits, borne), _ratios(hits, predicted), f1, _mean(f1))


def _share(right: Tensor) -> float:
    return float(right.double().mean())


def _ratios(part: Tensor, whole: Tensor) -> PerClass:
    pairs = zip(part.tolist(), whole.tolist(), strict=True)
    return tuple(some / every if every else None for some, every in pairs)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _mean_area(scores: Tensor, truth: Tensor) -> float | None:
    if not bool(torch.isfinite(scores).all()):
        return None
    return _mean([area_under_roc(s, t) for s, t in zip(scores.T, truth.T, strict=True)])


def _calibration(confidence: Tensor, right: Tensor) -> float | None:
    if not bool(torch.isfinite(confidence).all()):
        return None
    return expected_calibration_error(confidence.flatten(), right.flatten())


def area_under_roc(scores: Tensor, positive: Tensor) -> float | None:
    """The probability that a positive outranks a negative, ties counting half; None if either kind is missing.

    The rank-sum formula: (sum of the positives' ranks − P(P+1)/2) / (P·N), tied scores sharing a mean rank.
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return None
    of_value, tied = torch.unique(scores, return_inverse=True, return_counts=True)[1:]
    ends = tied.cumsum(0).to(torch.float64)
    ranks = (ends - (tied - 1) / 2)[of_value]
    above = float(ranks[positive].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)


def expected_calibration_error(confidence: Tensor, correct: Tensor, bins: int = BINS) -> float:
    """Σ over equal bins of (share of predictions) · |mean confidence − share correct|."""
    sums = torch.zeros(bins, dtype=torch.float64)
    at = (confidence * bins).ceil().long().sub_(1).clamp_(0, bins - 1)  # bins are (lower, upper]
    sums.index_add_(0, at, confidence.to(torch.float64) - correct.to(torch.float64))
    return float(sums.abs().sum()) / len(confidence)
