"""Fair times on a machine that is not quiet: contenders take short turns, and the first quartile counts.

What disturbs a turn only ever makes it longer, so the shorter turns tell what the work costs; the shortest alone
would be luck.
"""

import contextlib
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path


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
        """Units a second at the first quartile of the turns."""
        if len(self.seconds) < 2:
            return 1 / self.seconds[0]
        return 1 / statistics.quantiles(self.seconds, n=4, method="inclusive")[0]

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
    """Every contender has ``times`` turns, in an order shuffled each time: what the one before left behind in the
    cache and the heap falls on everybody alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    shuffling = random.Random(0)
    for _ in range(times):
        order = list(contenders.items())
        shuffling.shuffle(order)
        for name, turn in order:
            began = clock()
            turn.work()
            seconds[name].append((clock() - began) / turn.amount)
    return {name: Pace(tuple(found)) for name, found in seconds.items()}


class Apart:
    """Work that happens in a process of its own, started fresh: what this process did to its heap is not there."""

    def __init__(self, make: Callable[..., Callable[[], object]], *given: object, has_workers: bool = False):
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        alone = not has_workers  # a daemon may not start processes
        self._process = context.Process(target=_work_apart, args=(theirs, make, given), daemon=alone)
        self._process.start()
        theirs.close()  # so that its end shows here
        self._ours.recv()
        self.worked: list[float] = []  # seconds of the processor, turn by turn, without those of processes it started

    def __call__(self) -> None:
        self.begin()
        self.end()

    def begin(self) -> None:
        self._ours.send(True)

    def end(self) -> None:
        self.worked.append(self._ours.recv())

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it stopped by itself
            self._ours.send(False)
        self._process.join()


@contextmanager
def beside_us(make: Callable[..., Callable[[], object]], *given: object) -> Iterator[Apart]:
    """A peer as a plain script runs it, while this process has one thread and our heap, as a run has."""
    from understudy.heap import keep_freed_memory
    from understudy.threads import one_thread

    apart = Apart(make, *given)
    keep_freed_memory()
    try:
        with one_thread():
            yield apart
    finally:
        apart.close()


def _work_apart(pipe: Connection, make: Callable[..., Callable[[], object]], given: tuple[object, ...]) -> None:
    import torch

    torch.set_num_threads(1)
    work = make(*given)
    pipe.send(None)
    while pipe.recv():
        began = time.process_time()
        work()
        pipe.send(time.process_time() - began)


class Elsewhere:
    """How much of the machine other processes took since this was made: with much of it, ratios mean little."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), _busy(), _own()

    def share(self) -> float | None:
        """Of all cores, 0 to 1; None where the kernel does not tell."""
        began, busy, own = self._began
        now = _busy()
        if busy is None or now is None:
            return None
        cores = (time.perf_counter() - began) * (os.cpu_count() or 1)
        return max(0.0, (now - busy) - (_own() - own)) / cores


def _busy() -> float | None:
    """Seconds that all cores together have worked since the machine was started."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system = map(int, stat.read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
