"""A process of its own for tests on the second device: begun anew, not forked, and kept for all tests of a session."""

import importlib
import multiprocessing
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any

SECONDS = 900  # after which a test is given up


@cache
def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)


def call(module: str, function: str, given: Mapping[str, Any]) -> None:
    """Calls a function of a module there; what it raises is raised here."""
    there = _process()
    asked = there.submit(_call, module, function, dict(given))
    process = next(iter(there._processes.values()))  # there is one once something was asked
    try:
        asked.result(SECONDS)
    except BrokenProcessPool:
        _process.cache_clear()  # the next test has a new one
        process.join(10)
        raise AssertionError(f"the process of the second device died, exit code {process.exitcode}") from None


def close() -> None:
    if _process.cache_info().currsize:
        _process().shutdown()
        _process.cache_clear()


def _begin() -> None:
    import torch

    from second_device import load

    torch.set_num_threads(1)
    load()


def _call(module: str, function: str, given: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        found = getattr(importlib.import_module(module), function)
        warnings.simplefilter("error")  # as everywhere in the tests
        found(**given)
