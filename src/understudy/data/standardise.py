"""Floats of very different size on one scale: minus their mean, divided by their standard deviation.

Pixels need none of this: they lie between 0 and 255, and the network scales them (`Problem.scale`).
"""

from dataclasses import replace

import torch

from understudy.data.federated_scale import FederatedScale, Range
from understudy.data.federation import Federation, Holding
from understudy.data.problem import Problem
from understudy.data.spread import ScaleBy, Spread
from understudy.errors import UserError

UNLIKE = 100  # features whose spreads differ by more than this factor are worth a warning
FAR = 5  # and so are those whose mean is more than this many standard deviations away from 0
LARGE = 20  # and those whose values are larger than this, in the root mean square; scaled ones have 1


def on_scale(
    data: Federation,
    by: ScaleBy | None,
    ranges: tuple[Range, ...] = (),
    noise: float | None = None,
    *,
    constants: bool,  # mean and std were given, and applied
) -> Federation:
    """Records on the scale that was chosen, or to be brought to it in the opening."""
    if by in ("site", "federated") and data.problem.tokens:
        raise UserError("data.scale: token ids are not scaled; leave it out.")
    if by in ("site", "federated") and not data.problem.floats:
        raise UserError("data.scale: pixels are scaled by constants; give data.mean and data.std, or leave it out.")
    if by == "given" and not constants:
        raise UserError("data.scale: 'given' needs data.mean and data.std, one number per channel or feature.")
    if by in ("none", "site", "federated") and constants:
        raise UserError(f"data.scale: '{by}' makes no use of data.mean and data.std; leave them out.")
    for word, given in (("ranges", bool(ranges)), ("scale_noise", noise is not None)):
        if given and by != "federated":
            raise UserError(f"data.{word}: it belongs to data.scale: federated; write that too, or leave it out.")
    if by == "federated":
        scale = FederatedScale(ranges, noise)
        scale.check(data.problem.shape[0])
        return replace(data, scale=scale)
    return each_by_itself(data) if by == "site" else data


def by_itself(holding: Holding, problem: Problem) -> Holding:
    """By the statistics of the records to learn from; those kept back are scaled alike."""
    if not len(holding.own):
        return holding
    spread = Spread.of(holding.own.x).sparing(problem.categories)
    scaled = {"own": spread.applied(holding.own), "held_out": spread.applied(holding.held_out)}
    return replace(holding, **scaled, spread=spread)


def each_by_itself(data: Federation) -> Federation:
    """Every site by its own statistics. Then a model means something only where its records were scaled."""
    if data.test is not None or data.validation is not None:
        raise UserError(
            "data.scale: with 'site', each site has a scale of its own and a test or validation set has none; leave "
            "those out and score at home, with data.held_out: 0.2."
        )
    return replace(data, sites={name: by_itself(holding, data.problem) for name, holding in data.sites.items()})


def by_agreement(data: Federation, spread: Spread) -> Federation:
    """All records by the scale that was agreed on; nothing is left to agree on."""
    sites = {
        name: replace(one, own=spread.applied(one.own), held_out=spread.applied(one.held_out))
        for name, one in data.sites.items()
    }
    test, validation = (None if one is None else spread.applied(one) for one in (data.test, data.validation))
    return replace(data, sites=sites, test=test, validation=validation, scale=None)


def as_if_agreed(data: Federation) -> Federation:
    """Scaled as an opening without noise would have it, where there was none."""
    if data.scale is None:
        return data
    parts = [one.own.x for one in data.sites.values() if len(one.own)]
    if not parts:
        return data
    spread = data.scale.spread(data.scale.rows(torch.cat(parts)).sum(0))
    return by_agreement(data, spread.sparing(data.problem.categories))


def times_apart(data: Federation) -> float:
    """How many times the largest spread of a feature is the smallest; 1 if records are not floats, or not known."""
    std = _of_changing(data).std
    return float(std.max() / std.min()) if len(std) else 1.0


def times_off(data: Federation) -> float:
    """How many of its standard deviations a feature's mean is away from 0, at most; 0 if that is not known."""
    found = _of_changing(data)
    return float((found.mean.abs() / found.std).max()) if len(found.std) else 0.0


def largest(data: Federation) -> float:
    """The root mean square of the feature whose values are largest; 0 if that is not known."""
    found = _of_changing(data)
    return float((found.mean.square() + found.std.square()).max().sqrt()) if len(found.std) else 0.0


def _of_changing(data: Federation) -> Spread:
    """Of features that change; none if records are not floats, or not known."""
    if data.population is not None:
        parts = [data.population.train.x]
    else:
        parts = [holding.own.x for holding in data.sites.values() if len(holding.own)]
    if not parts or parts[0].dtype != torch.float32:
        return Spread(torch.empty(0), torch.empty(0))
    every = Spread.of(torch.cat(parts))
    changing = every.std > 0
    for first, words in data.problem.categories:  # a rare word varies little, and is no reason to scale
        changing[first : first + words] = False
    return Spread(every.mean[changing], every.std[changing])


def advice(data: Federation, *, in_python: bool = False) -> str | None:
    """A warning, if features differ much in size, lie far from 0, or are large."""
    apart, off, large = times_apart(data), times_off(data), largest(data)
    if apart <= UNLIKE and off <= FAR and large <= LARGE:
        return None
    how = "write data.scale: federated, data.scale: site, or data.mean and data.std"
    how = "pass scale='federated', or mean= and std=" if in_python else how
    if apart > UNLIKE:
        return f"Some features vary {apart:,.0f} times as much as others, so a network hardly learns: {how}."
    if off > FAR:
        return f"The mean of some features is {off:,.0f} times their spread, so many networks hardly learn: {how}."
    return f"Values of some features are about {large:,.0f}, so many networks hardly learn: {how}."
