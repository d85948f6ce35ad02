"""Scores of logits against labels, as plain numbers."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from understudy.data.problem import Problem
from understudy.learning.losses import per_record_loss
from understudy.learning.ranking import area_under_roc, expected_calibration_error

PerClass = tuple[float | None, ...]


@dataclass(frozen=True)
class Scores:
    """None stands where a score does not apply: no record, an absent class, logits that are not finite.

    Where a record has several labels, a label is predicted when its logit is above 0; ``accuracy`` is then
    the mean per-label accuracy, and precision and both kinds of F1 are filled in.
    """

    count: int
    accuracy: float | None = None
    loss: float | None = None
    balanced_accuracy: float | None = None  # mean recall of the classes present; several labels: see below
    auroc: float | None = None  # one against the rest, mean over classes of which there are both kinds
    calibration_error: float | None = None  # 15 equal bins of confidence
    recall: PerClass = ()
    precision: PerClass = ()
    f1: PerClass = ()
    sample_f1: float | None = None  # mean over records; no label, none predicted: 1

    def as_dict(self) -> dict[str, int | float | list[float | None] | None]:
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}


def score(problem: Problem, logits: Tensor, y: Tensor) -> Scores:
    """All that can be said of (n, classes) logits; in float64, so that no score hangs on rounding."""
    if not len(y):
        return Scores(0)
    logits, y = logits.detach().to("cpu", torch.float64), y.to("cpu")
    found = _of_sets(logits, y) if problem.multilabel else _of_one_label(problem.classes, logits, y)
    loss = float(per_record_loss(problem, logits, y).mean())
    return replace(found, loss=loss if math.isfinite(loss) else None)


def right_decisions(problem: Problem, logits: Tensor, y: Tensor) -> Tensor:
    """(n,) True where the class is the likeliest; (n, classes) where each label is decided by itself."""
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
    """Here balanced accuracy is the mean of (recall + specificity)/2 over labels of which there are both
    kinds: the mean recall would reward a network that says yes to everything."""
    truth, guess = y > 0, logits > 0
    hits, said, real = (truth & guess).sum(0), guess.sum(0), truth.sum(0)
    recall = _ratios(hits, real)
    specificity = _ratios((~truth & ~guess).sum(0), (~truth).sum(0))
    both = [(r + s) / 2 for r, s in zip(recall, specificity, strict=True) if r is not None and s is not None]
    in_record, of_record = (truth & guess).sum(1), truth.sum(1) + guess.sum(1)
    record_f1 = torch.where(of_record > 0, 2 * in_record.double() / of_record.clamp(min=1), 1.0)
    probability = logits.sigmoid()
    return Scores(
        count=len(y),
        accuracy=_share(truth == guess),
        balanced_accuracy=_mean(both),
        auroc=_mean_area(logits, truth),
        calibration_error=_calibration(torch.maximum(probability, 1 - probability), truth == guess),
        recall=recall,
        precision=_ratios(hits, said),
        f1=_ratios(2 * hits, said + real),
        sample_f1=float(record_f1.mean()),
    )


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
