"""What a server learns from replies, without the one that would spoil it for all.

Numbers that are finite, and even small enough to be squared, can still make training diverge. The reply alone does not
show it, but the result does: it is not finite. If one reply then holds numbers far larger than the others', it is
refused, and the round counts without it.
"""

import statistics
from collections.abc import Callable, Sequence

from torch import Tensor

from understudy.federation.message import Message
from understudy.federation.server import Reply

FAR = 10.0  # times the largest number in a typical reply


def learnt_from(replies: Sequence[Reply], learn: Callable[[Sequence[Reply]], Message]) -> Message:
    """The result of ``learn``; if training diverges for another reason, that result as it is."""
    left = list(replies)
    while True:
        learnt = learn(left)
        worst = _stands_out(left) if learnt.not_finite() else None
        if worst is None:
            return learnt
        worst.refuse("what the server learns from it is not finite, and its numbers are far larger than the others'")
        left = [reply for reply in left if reply is not worst]


def _stands_out(replies: Sequence[Reply]) -> Reply | None:
    sizes = [max((_largest(part) for part in reply.values()), default=0.0) for reply in replies]
    if len(sizes) < 2:
        return None
    at = max(range(len(sizes)), key=sizes.__getitem__)
    others = statistics.median(size for place, size in enumerate(sizes) if place != at)
    return replies[at] if sizes[at] > FAR * others else None


def _largest(part: Tensor) -> float:
    return float(part.abs().max()) if part.numel() and part.is_floating_point() else 0.0
