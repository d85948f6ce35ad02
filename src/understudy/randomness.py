"""Random generators that depend on nothing but the words they are made from.

Every draw in Understudy comes from a generator named by what it is for: ``generator(seed, "split")``,
``generator(seed, round, client, "batches")``. The same words give the same stream on every machine, whatever
the order of the work and the number of processes, and after resuming.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

Word = int | str


def seed_from(*words: Word) -> int:
    """A 63-bit seed from a sequence of words; ``("ab",)`` and ``("a", "b")`` differ, and so do 1 and "1"."""
    text = "\x00".join([f"{type(word).__name__}:{word}" for word in words])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*words: Word) -> torch.Generator:
    return torch.Generator().manual_seed(seed_from(*words))


def numpy_generator(*words: Word) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed_from(*words)))


@contextmanager
def private_global_stream(*words: Word) -> Iterator[None]:
    """In here, layers that can only draw from torch's global generator (dropout, a module's own
    initialisation) draw from a separate stream; afterwards the global generator is as it was."""
    with global_streams_kept():
        seed_global_stream(*words)
        yield


def seed_global_stream(*words: Word) -> None:
    """Only within `global_streams_kept`: what is drawn from torch's global generator now depends on these words."""
    torch.default_generator.manual_seed(seed_from(*words))
    accelerator = _in_use()
    if accelerator is not None:
        seed_all = getattr(accelerator, "manual_seed_all", None) or accelerator.manual_seed  # one device: no "all"
        seed_all(seed_from(*words))


@contextmanager
def global_streams_kept() -> Iterator[None]:
    """Whatever is drawn in here, the global generators are afterwards as they were."""
    accelerator = _in_use()
    kind, count = ("cuda", 0) if accelerator is None else (_kind(), accelerator.device_count())
    with torch.random.fork_rng(devices=range(count), device_type=kind):
        yield


def _in_use() -> Any:
    """The module of the accelerator that this process uses. One not yet in use is left alone: asking for its generator
    would initialise it, which fails in a forked worker."""
    if not torch.accelerator.is_available():
        return None
    module = torch.get_device_module(_kind())
    begun = module.is_initialized() if hasattr(module, "is_initialized") else not module._is_in_bad_fork()
    return module if begun else None


def _kind() -> str:
    found = torch.accelerator.current_accelerator()
    assert found is not None
    return found.type
