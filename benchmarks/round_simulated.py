"""A round of a federation as queues: sites on their own links, one server (or a tree of them) with one core and one
link. Everything that is not measured is an assumption, and is printed with the result."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from benchmarks.server_costs import MB, ServerCosts
from understudy.randomness import numpy_generator

Times = NDArray[np.float64]  # seconds since the round began, by site


@dataclass(frozen=True)
class MethodFamily:
    """What a site sends and gets in a round, at the size of a paper."""

    name: str
    up: float  # bytes per site
    down: float
    summed: bool = True  # whether replies are added up; otherwise they are gathered


@dataclass(frozen=True)
class World:
    """What is assumed, not measured."""

    sites: int = 10_000
    server_link: float = 1.25e9  # bytes per second: 10 Gbit/s
    site_down: float = 12.5e6  # 100 Mbit/s
    site_up: float = 2.5e6  # 20 Mbit/s
    work: float = 60.0  # seconds of a site's work: the median
    spread: float = 0.5  # of the logarithm of that time
    poll: float = 3.0  # seconds between a SuperNode's questions for work


def queued(arrivals: Times, service: float) -> Times:
    """When each is done that is served one after another, in the order of arrival."""
    order, done = np.argsort(arrivals, kind="stable"), np.empty_like(arrivals)
    free = 0.0
    for at in order:
        free = max(free, float(arrivals[at])) + service
        done[at] = free
    return done


def when_sent(family: MethodFamily, world: World, sites: int, seed: int = 0) -> Times:
    """When each site has its reply at the server's door: the brief comes down the server's link one by one."""
    rng = numpy_generator("benchmark", "scale", seed)
    asked = rng.uniform(0, world.poll, sites)
    briefed = queued(asked, family.down / world.server_link) + family.down / world.site_down
    worked = briefed + world.work * np.exp(world.spread * rng.standard_normal(sites))
    return worked + family.up / world.site_up


def served(arrivals: Times, family: MethodFamily, world: World, costs: ServerCosts) -> Times:
    """When each reply has come in over the server's link and has been read, checked and added up."""
    cpu = costs.reply + costs.megabyte * family.up / MB
    return queued(queued(arrivals, family.up / world.server_link), cpu)


@dataclass(frozen=True)
class RoundTime:
    """In seconds; ``unhindered``: if servers took no time and had links without end."""

    unhindered: float
    flat: float
    tree: float


def simulate(family: MethodFamily, world: World, costs: ServerCosts) -> RoundTime:
    """With one server, and with √sites servers that each sum (or gather) the replies of as many sites for one above."""
    free = World(**{**vars(world), "server_link": np.inf})
    unhindered = float(when_sent(family, free, world.sites).max())
    flat = float(served(when_sent(family, world, world.sites), family, world, costs).max())
    regions = ceil(world.sites**0.5)
    each = ceil(world.sites / regions)
    regional = np.array(
        [served(when_sent(family, world, each, 1 + region), family, world, costs).max() for region in range(regions)]
    )
    onward = MethodFamily(family.name, family.up * (1 if family.summed else each), family.down, family.summed)
    return RoundTime(unhindered, flat, float(served(regional, onward, world, costs).max()))
