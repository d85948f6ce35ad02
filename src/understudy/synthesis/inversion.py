"""Inversion: inputs that a network takes for given classes, and on which another network disagrees.

From "Fake It Till Make It: Federated Learning with Consensus-Oriented Generation", equations of the
generation step: x̂ ← argmin CE(θ(x̂), y) + λ_dis · (1 − JS(θ(x̂), θ_prev(x̂))).
"""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from understudy.learning.losses import per_record_loss
from understudy.models.network import Network

Divergence = Literal["exact", "release"]


def invert(
    net: Network,
    labels: Tensor,
    rng: torch.Generator,
    *,
    previous: Network | None,
    steps: int,
    lr: float,
    disagreement: float,
    divergence: Divergence = "exact",
) -> Tensor:
    """(n, …) float inputs in the network's own space; the last iterate, unclamped. Both networks are frozen."""
    x = torch.randn(len(labels), *net.problem.shape, generator=rng).to(net.device).requires_grad_()
    y = labels.to(net.device)
    adam = torch.optim.Adam([x], lr=lr, betas=(0.5, 0.9))
    with net.frozen(), previous.frozen() if previous is not None else torch.enable_grad():
        for _ in range(steps):
            logits = net(x)[1]
            loss = per_record_loss(net.problem, logits, y).mean()
            if previous is not None and disagreement:
                apart = jensen_shannon(logits, previous(x)[1], divergence)
                loss = loss + disagreement * (1 - apart).mean()
            (x.grad,) = torch.autograd.grad(loss, x)
            adam.step()
    return x.detach()


def jensen_shannon(a: Tensor, b: Tensor, form: Divergence = "exact") -> Tensor:
    """(n,) between the class distributions of two sets of logits, in nats: at most ln 2.

    ``release`` is the form in the authors' code, for comparison: arguments of KL the other way round, and
    probabilities clamped to [0.01, 0.99], so that gradients vanish below one per cent.
    """
    if form == "release":
        p, q = (F.softmax(logits, 1) for logits in (a, b))
        m = (0.5 * (p + q)).clamp(0.01, 0.99)
        p, q = p.clamp(0.01, 0.99), q.clamp(0.01, 0.99)
        return 0.5 * ((m * (m / p).log()).sum(1) + (m * (m / q).log()).sum(1))
    log_p, log_q = F.log_softmax(a, 1), F.log_softmax(b, 1)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    return 0.5 * ((log_p.exp() * (log_p - log_m)).sum(1) + (log_q.exp() * (log_q - log_m)).sum(1))
