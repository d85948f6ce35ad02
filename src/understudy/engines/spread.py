"""Work spread over processes, one torch thread each, with results in order as they come."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

import torch

from understudy.engines.with_parent import end_with_parent
from understudy.threads import one_thread

Item = TypeVar("Item")
Done = TypeVar("Done")

_work: Callable[[Any], Any] | None = None  # inherited by forked processes, so that it need not be sent


def spread(work: Callable[[Item], Done], items: Sequence[Item], workers: int) -> Iterator[Done]:
    """``work`` on each item. Processes are forked, so ``work`` may hold anything; items and results are sent."""
    if workers <= 1 or len(items) <= 1:
        with one_thread():
            yield from map(work, items)
        return
    with _pool(work, min(workers, len(items))) as pool:
        yield from pool.map(_do, items)


def at_a_time(workers: int, items: int) -> str:
    """Half a sentence for whoever waits for the first result."""
    return f", {min(workers, items)} at a time" if workers > 1 and items > 1 else ""


def spread_apart(
    work: Callable[[Item], Done], items: Sequence[Item], workers: int
) -> Iterator[tuple[int, Done | None]]:
    """Like `spread`, but with the number of each item as it is done; None: its process died, twice."""
    if workers <= 1:
        with one_thread():
            yield from enumerate(map(work, items))
        return
    died = []
    with _pool(work, min(workers, len(items)) or 1) as pool:
        numbers = {pool.submit(_do, item): number for number, item in enumerate(items)}
        for done in as_completed(numbers):
            try:
                yield numbers[done], done.result()
            except BrokenProcessPool:
                died.append(numbers[done])
    for number in sorted(died):  # whose fault it was is not known: each once more, by itself
        with _pool(work, 1) as alone:
            try:
                yield number, alone.submit(_do, items[number]).result()
            except BrokenProcessPool:
                yield number, None


@contextmanager
def _pool(work: Callable[[Any], Any], workers: int) -> Iterator[ProcessPoolExecutor]:
    global _work
    _work = work
    pool = ProcessPoolExecutor(workers, mp_context=get_context("fork"), initializer=_begin, initargs=(os.getpid(),))
    try:
        yield pool
    except (KeyboardInterrupt, SystemExit):
        for child in active_children():  # they ignore Ctrl-C, and an item may take hours
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _work = None


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for the results handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(parent)
    torch.set_num_threads(1)


def _do(item: Any) -> Any:
    assert _work is not None
    return _work(item)
