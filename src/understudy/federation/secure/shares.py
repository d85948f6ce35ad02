"""Shamir's secret sharing of a seed: any ``needed`` holders can recover it, fewer learn nothing."""

import math
from collections.abc import Mapping

from understudy.errors import UserError


def needed_of(holders: int, threshold: float) -> int:
    """How many of the holders must help: the share ``threshold``, and always more than half."""
    return max(holders // 2 + 1, math.ceil(threshold * holders - 1e-9))  # as floats, 0.55 · 20 is just above 11


def split(seed: bytes, holders: int, needed: int) -> list[bytes]:
    """One share per place, counted from 1."""
    from Crypto.Protocol.SecretSharing import Shamir

    return [bytes(share) for _, share in sorted(Shamir.split(needed, holders, seed, False))]


def join(shares: Mapping[int, bytes], needed: int) -> bytes:
    """The seed, from shares by place. Too few would silently give another seed, so they are refused."""
    from Crypto.Protocol.SecretSharing import Shamir

    if len(shares) < needed:
        raise UserError(f"There are {len(shares)} shares of a seed; {needed} are needed.")
    return bytes(Shamir.combine(sorted(shares.items())[:needed], False))
