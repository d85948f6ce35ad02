"""A round of a federation as queues: sites on their own links, one server (or a tree of them) with one core and one
link. Everything that is not measured is an assumption, and is printed with the result."""

from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class SiteTimes:
    """Drawn once, so that all arrangements of servers wait for the same sites."""

    asked: Times  # when each asks for work
    work: Times  # how long it works

    @classmethod
    def drawn(cls, world: World) -> "SiteTimes":
        rng = numpy_generator("benchmark", "scale")
        asked = rng.uniform(0, world.poll, world.sites)
        return cls(asked, world.work * np.exp(world.spread * rng.standard_normal(world.sites)))

    def split(self, parts: int) -> "list[SiteTimes]":
        pairs = zip(np.array_split(self.asked, parts), np.array_split(self.work, parts), strict=True)
        return [SiteTimes(asked, work) for asked, work in pairs]


def when_sent(family: MethodFamily, world: World, sites: SiteTimes) -> Times:
    """When each site has its reply at the server's door: the brief comes down the server's link one by one."""
    briefed = queued(sites.asked, family.down / world.server_link) + family.down / world.site_down
    return briefed + sites.work + family.up / world.site_up


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
    sites, free = SiteTimes.drawn(world), replace(world, server_link=np.inf)
    unhindered = float(when_sent(family, free, sites).max())
    flat = float(served(when_sent(family, world, sites), family, world, costs).max())
    regions = ceil(world.sites**0.5)
    regional = [served(when_sent(family, world, some), family, world, costs).max() for some in sites.split(regions)]
    together = 1.0 if family.summed else world.sites / regions  # replies in what goes on to the top
    onward = replace(family, up=family.up * together)
    return RoundTime(unhindered, flat, float(served(np.array(regional), onward, world, costs).max()))
