"""How torch computes: with how many threads, and on a CUDA card by which kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch


class Computing(NamedTuple):
    threads: int
    deterministic: bool  # cuDNN: only kernels that give the same bits again
    benchmark: bool  # cuDNN: chosen by a race between kernels, which ends differently each time
    tf32: bool  # cuDNN: factors of convolutions rounded to 10 bits; torch's default

    @classmethod
    def now(cls) -> "Computing":
        cudnn = torch.backends.cudnn
        return cls(torch.get_num_threads(), cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32)

    def begin(self) -> None:
        cudnn = torch.backends.cudnn
        torch.set_num_threads(self.threads)
        cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32 = self.deterministic, self.benchmark, self.tf32


# Two threads would give different bits, and so would other kernels; float32 means float32.
REPEATABLE = Computing(1, deterministic=True, benchmark=False, tf32=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread, as in every worker, and on a card kernels that repeat their bits."""
    before = Computing.now()
    REPEATABLE.begin()
    try:
        yield
    finally:
        before.begin()
