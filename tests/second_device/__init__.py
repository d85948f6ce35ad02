"""A second torch device for tests, ``second:0``: see ``device.cpp`` for what it refuses and counts.

It can only be used in a process that loads it before any gradient is computed, and after that no fork of the process
can compute gradients: torch's own rule for accelerators. So tests on it run in a process of their own (`process.py`).
"""

import ctypes
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch.utils.backend_registration import rename_privateuse1_backend

from second_device.build import built

NAME = "second"


@cache
def load() -> ctypes.CDLL:
    """Makes ``second:0`` known to torch."""
    path = str(built())
    torch.ops.load_library(path)  # type: ignore[no-untyped-call]
    rename_privateuse1_backend(NAME)
    module = types.ModuleType(f"torch.{NAME}")
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "_is_in_bad_fork": lambda: False,
        "get_amp_supported_dtype": lambda: [torch.bfloat16],
        # Its draws are the processor's: there is no stream of its own to seed, to save or to put back.
        "manual_seed_all": lambda seed: None,
        "manual_seed": lambda seed: None,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: None,
    }
    for name, answer in answers.items():
        setattr(module, name, answer)
    torch._register_device_module(NAME, module)  # type: ignore[no-untyped-call]
    return ctypes.CDLL(path)


def reads_back() -> int:
    """How often the processor has waited so far for a value, a shape or a tensor of the device."""
    return int(load().second_device_reads_back())


def uploads() -> int:
    """How many tensors were sent to the device so far."""
    return int(load().second_device_uploads())


@contextmanager
def without_doubles() -> Iterator[None]:
    """The device has no float64 in here, as Apple's has none."""
    load().second_device_without_doubles(True)
    try:
        yield
    finally:
        load().second_device_without_doubles(False)
