"""How far apart two networks are on the same inputs: Kullback-Leibler and Jensen-Shannon divergence, in nats, from
logits.

If a record has one label, a network gives one distribution over the classes; if it has several, one coin flip per
label. Both are kept as logarithms, which stay finite however certain a network is.
"""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from understudy.data.problem import Problem

Divergence = Literal["exact", "release"]


def log_chances(problem: Problem, logits: Tensor) -> Tensor:
    """(n, classes) log-probabilities of the classes, or (n, classes, 2) of each label's yes and no.

    A network may have more outputs than there are classes; the first ones are the classes.
    """
    of_classes = logits[:, : problem.classes]
    if problem.multilabel:
        return torch.stack([F.logsigmoid(of_classes), F.logsigmoid(-of_classes)], -1)
    return F.log_softmax(of_classes, 1)


def kullback_leibler(log_p: Tensor, log_q: Tensor) -> Tensor:
    """(n,) KL(p ‖ q); it is summed over labels, which is the KL of their joint distribution."""
    return (log_p.exp() * (log_p - log_q)).flatten(1).sum(1)


def jensen_shannon(log_p: Tensor, log_q: Tensor, form: Divergence = "exact") -> Tensor:
    """(n,) ½·KL(p ‖ m) + ½·KL(q ‖ m), m = (p + q)/2: at most ln 2.

    It is averaged over labels, so that it is still at most ln 2 and in proportion to the loss it is weighed against,
    which is a mean over labels too. ``release`` is the form in FedCOG's released code, for comparison: the arguments
    of KL swapped, and probabilities clamped to [0.01, 0.99], so that gradients vanish below one per cent.
    """
    halves = _released_halves(log_p, log_q) if form == "release" else _halves(log_p, log_q)
    return halves if halves.ndim == 1 else halves.mean(1)


def _halves(log_p: Tensor, log_q: Tensor) -> Tensor:
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    return 0.5 * ((log_p.exp() * (log_p - log_m)).sum(-1) + (log_q.exp() * (log_q - log_m)).sum(-1))


def _released_halves(log_p: Tensor, log_q: Tensor) -> Tensor:
    p, q = log_p.exp(), log_q.exp()
    m = (0.5 * (p + q)).clamp(0.01, 0.99)
    p, q = p.clamp(0.01, 0.99), q.clamp(0.01, 0.99)
    return 0.5 * ((m * (m / p).log()).sum(-1) + (m * (m / q).log()).sum(-1))
