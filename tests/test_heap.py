"""Keeping freed memory changes no result and may be asked for again."""

import platform
import subprocess
import sys

from understudy.heap import keep_freed_memory

BIG_AND_BACK = """
import resource, torch
from understudy.heap import keep_freed_memory
torch.set_num_threads(1)
if {keep}:
    assert keep_freed_memory()
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3): torch.ones(8 << 20)
before = faults()
for _ in range(20): torch.ones(8 << 20)
print(faults() - before)
"""


def _page_faults(keep: bool) -> int:
    script = BIG_AND_BACK.format(keep=keep)
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def test_large_blocks_come_back_without_page_faults() -> None:
    kept = keep_freed_memory()
    assert keep_freed_memory() is kept
    if platform.libc_ver()[0] == "glibc":
        assert kept
        assert _page_faults(keep=True) < _page_faults(keep=False) / 2
