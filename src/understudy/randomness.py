"""Random generators that depend on nothing but the words they are made from.

Every draw in Understudy comes from a generator named by what it is for: ``generator(seed, "split")``,
``generator(seed, round, client, "batches")``. The same words give the same stream on every machine, in
whatever order, number of processes or resumption the work is done.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

Word = int | str


def seed_from(*words: Word) -> int:
    """A 63-bit seed from a sequence of words; ``("ab",)`` and ``("a", "b")`` differ, and so do 1 and "1"."""
    text = "\x00".join(f"{type(word).__name__}:{word}" for word in words)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*words: Word) -> torch.Generator:
    return torch.Generator().manual_seed(seed_from(*words))


def numpy_generator(*words: Word) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed_from(*words)))


@contextmanager
def private_global_stream(*words: Word) -> Iterator[None]:
    """Layers that can only draw from torch's global generator (dropout, a module's own initialisation)
    draw from a stream of their own in here; outside, the global generator is as it was."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.default_generator.manual_seed(seed_from(*words))
        for device in range(torch.cuda.device_count()):
            torch.cuda.default_generators[device].manual_seed(seed_from(*words))
        yield
