"""Calls spread over a Ray cluster, one per free CPU, each in a process of its own."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from understudy.engines.cluster.session import connected, library
from understudy.heap import keep_freed_memory

CallInput = TypeVar("CallInput")
CallResult = TypeVar("CallResult")

TRIES = 3  # processes or nodes that may die over one call
AHEAD = 2  # calls that wait at the cluster, times the CPUs it has: what a call is given takes room there


def spread_on_ray(
    work: Callable[[CallInput], CallResult],
    items: Sequence[Callable[[], CallInput]],
    address: str | None,
    *,
    gpus: float = 0.0,
) -> Iterator[tuple[int, CallResult | None]]:
    """``work`` on what each of ``items`` makes when its turn comes, with its number as it is done; None: the process or
    its node died each time it was tried. ``work`` is found by its name on the nodes, so they need the same code."""
    with connected(address):
        ray = library()
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=TRIES - 1)(_in_one_thread)
        under_way: dict[Any, int] = {}
        coming = iter(enumerate(items))
        more = True
        while more or under_way:
            while more and len(under_way) < AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1))):
                number, make = next(coming, (-1, None))
                more = make is not None
                if make is not None:
                    under_way[remote.remote(work, make())] = number
            if not under_way:
                return
            ready, _ = ray.wait(list(under_way), num_returns=1)
            for promise in ready:
                yield under_way.pop(promise), _kept(ray, promise)


def _kept(ray: Any, promise: Any) -> Any:
    errors = ray.exceptions
    try:
        return ray.get(promise)
    except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError):
        return None


def _in_one_thread(work: Callable[[Any], Any], item: Any) -> Any:
    """A call as it is made on a node."""
    torch.set_num_threads(1)
    keep_freed_memory()
    return work(item)
