"""Likelihood ratios from shadows: how the observed score compares with what it is when a record is in, and when not.

After "Membership Inference Attacks From First Principles" (LiRA), in its form with records both in and out. A few
shadows cannot tell a record's own variances, and barely its means. So variances are pooled over all candidates, a
record's mean is drawn towards that of all, and its mean inside towards its mean outside plus the usual effect, each as
far as the shadows' noise demands. A record that was never inside, or never outside, gets what is usual.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.errors import UserError

TINY = 1e-12


@dataclass(frozen=True)
class _Groups:
    """Of each candidate, over the shadows in which it was on one side."""

    count: Tensor  # (n,)
    mean: Tensor  # (n,), 0 where the count is
    variance: float  # within candidates, pooled


@dataclass(frozen=True)
class _Belief:
    """About each candidate's score: a Gaussian."""

    mean: Tensor
    variance: Tensor


def lira(observed: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """(n,) log-likelihood ratios, in against out.

    ``observed``: (n,) scores of a base attack; ``shadows``: (S, n) its scores on shadows; ``inside``: (S, n) bool,
    whether the candidate was in. Scores that are not finite do not count. If no candidate was ever inside, how far the
    observed score lies above those outside; without any score outside, 0.
    """
    if shadows.shape != inside.shape or shadows.shape[1:] != observed.shape:
        raise UserError(
            f"shadows {tuple(shadows.shape)} and inside {tuple(inside.shape)} must both have a row per shadow and a "
            f"column for each of the {len(observed)} candidates."
        )
    scores, here = shadows.to(torch.float64), observed.to(torch.float64)
    usable, inside = scores.isfinite(), inside.to(torch.bool)
    without, within = _grouped(scores, usable & ~inside), _grouped(scores, usable & inside)
    if not bool(without.count.any()):
        return torch.zeros_like(here)
    outside = _around_the_usual(without)
    spread_out = outside.variance + without.variance
    if not bool(within.count.any()):
        return ((here - outside.mean) / spread_out.sqrt()).nan_to_num(0.0, posinf=0.0, neginf=0.0)
    member = _with_the_usual_effect(outside, without, within)
    ratio = _ratio(here, member.mean, member.variance + within.variance, outside.mean, spread_out)
    return ratio.nan_to_num(0.0, posinf=0.0, neginf=0.0)


def _grouped(scores: Tensor, chosen: Tensor) -> _Groups:
    count = chosen.sum(0).to(torch.float64)
    kept = scores.where(chosen, torch.zeros_like(scores))
    mean = kept.sum(0) / count.clamp(min=1)
    squares = (scores - mean).square().where(chosen, torch.zeros_like(scores)).sum()
    freedom = float((count - 1).clamp(min=0).sum())
    if freedom:
        return _Groups(count, mean, max(float(squares) / freedom, TINY))
    some = mean[count > 0]  # one shadow each: at most as uncertain as candidates differ
    return _Groups(count, mean, max(float(some.var()), TINY) if len(some) > 1 else 1.0)


def _around_the_usual(group: _Groups) -> _Belief:
    """Means of candidates, drawn towards the mean of all."""
    known = group.count > 0
    usual = group.mean[known].mean()
    noise = group.variance / group.count.clamp(min=1)
    apart = float(((group.mean - usual).square() - noise)[known].mean().clamp(min=TINY))
    precision = group.count / group.variance
    variance = 1 / (1 / apart + precision)
    return _Belief(variance * (usual / apart + group.mean * precision), variance)


def _with_the_usual_effect(outside: _Belief, without: _Groups, within: _Groups) -> _Belief:
    """Means inside, drawn towards the mean outside plus the mean effect over candidates seen on both sides."""
    both = (within.count > 0) & (without.count > 0)
    if bool(both.any()):
        effects = (within.mean - without.mean)[both]
        noise = within.variance / within.count[both] + without.variance / without.count[both]
        usual = float((effects / noise).sum() / (1 / noise).sum())
        apart = float(((effects - usual).square() - noise).mean().clamp(min=TINY))
    else:
        usual, apart = float(within.mean[within.count > 0].mean() - outside.mean.mean()), TINY
    expected, doubt = outside.mean + usual, outside.variance + apart
    precision = within.count / within.variance
    variance = 1 / (1 / doubt + precision)
    return _Belief(variance * (expected / doubt + within.mean * precision), variance)


def _ratio(x: Tensor, mean_in: Tensor, var_in: Tensor, mean_out: Tensor, var_out: Tensor) -> Tensor:
    """With unequal variances the ratio turns round beyond a point, where it would call outliers on the wrong side
    members; from there on it stays as it is there."""
    turn = (mean_out * var_in - mean_in * var_out) / (var_in - var_out)
    upwards, rising = mean_in >= mean_out, var_in > var_out  # rising: the turn is a lowest point, else a highest one
    at_least, at_most = upwards == rising, upwards != rising
    x = torch.where(at_least & turn.isfinite(), torch.maximum(x, turn), x)
    x = torch.where(at_most & turn.isfinite(), torch.minimum(x, turn), x)
    return ((x - mean_out).square() / var_out - (x - mean_in).square() / var_in - (var_in / var_out).log()) / 2
