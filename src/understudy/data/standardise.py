"""Floats of very different size on one scale: minus their mean, divided by their standard deviation.

Pixels need none of this: they lie between 0 and 255, and the network scales them (`Problem.scale`).
"""

from dataclasses import replace
from typing import Literal

import torch

from understudy.data.federation import Federation, Holding
from understudy.data.spread import Spread
from understudy.errors import UserError

ScaleBy = Literal["none", "given", "site"]
UNLIKE = 100  # features whose spreads differ by more than this factor are worth a warning


def by_itself(holding: Holding) -> Holding:
    """By the statistics of the records to learn from; those kept back are scaled alike."""
    if not len(holding.own):
        return holding
    spread = Spread.of(holding.own.x)
    return Holding(spread.applied(holding.own), spread.applied(holding.held_out))


def each_by_itself(data: Federation) -> Federation:
    """Every site by its own statistics. Then a model means something only where its records were scaled."""
    if data.test is not None or data.validation is not None:
        raise UserError(
            "data.scale: with 'site', each site has a scale of its own and a test or validation set has none; leave "
            "those out and score at home, with data.held_out: 0.2."
        )
    return replace(data, sites={name: by_itself(holding) for name, holding in data.sites.items()})


def times_apart(data: Federation) -> float:
    """How many times the largest spread of a feature is the smallest; 1 for pixels, and where nothing is known."""
    if data.population is not None:
        parts = [data.population.train.x]
    else:
        parts = [holding.own.x for holding in data.sites.values() if len(holding.own)]
    if not parts or parts[0].dtype == torch.uint8:
        return 1.0
    std = Spread.of(torch.cat(parts)).std
    changing = std[std > 0]
    return float(changing.max() / changing.min()) if len(changing) else 1.0


def advice(data: Federation, *, in_python: bool = False) -> str | None:
    """A warning, if features differ much in size."""
    apart = times_apart(data)
    if apart <= UNLIKE:
        return None
    how = "pass mean= and std=" if in_python else "write data.scale: site, or data.mean and data.std"
    return f"Some features vary {apart:,.0f} times as much as others, so a network hardly learns: {how}."
