"""Fair times on a machine that is not quiet: contenders take short turns, and the median of the turns counts."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    work: Callable[[], object]
    amount: int  # samples, steps, … that one turn works through


@dataclass(frozen=True)
class Pace:
    """Seconds for one unit of work, a number a turn."""

    seconds: tuple[float, ...]

    @property
    def a_second(self) -> float:
        """Units a second in the median turn."""
        return 1 / statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half of the turns lie within this share of the median, from quartile to quartile."""
        if len(self.seconds) < 2:
            return 0.0
        low, middle, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / middle


def take_turns(
    contenders: Mapping[str, Turn], times: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Pace]:
    """Every contender has ``times`` turns. The order is turned round each time, so that no one always follows
    the same other."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(times):
        order = list(contenders.items())
        for name, turn in order if repeat % 2 == 0 else reversed(order):
            began = clock()
            turn.work()
            seconds[name].append((clock() - began) / turn.amount)
    return {name: Pace(tuple(found)) for name, found in seconds.items()}
