"""Masks: long streams of whole numbers from short seeds, which cancel in a sum.

Of two clients that agreed on a key, the one with the smaller number adds the stream and the other subtracts it. On top,
each adds a stream of its own, so that recovered keys do not expose an input that arrives late.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from understudy.federation.secure.grid import Whole

AT_ONCE = 1 << 18  # numbers; memory stays flat however large the model is


def add_stream(values: Whole, key: bytes, sign: Literal[1, -1]) -> None:
    """Adds ``sign`` times the stream of ``key`` in place, modulo 2^64: AES in counter mode, eight bytes per number."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # Every key is used for one stream only, so the counter can start at zero.
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    for start in range(0, len(values), AT_ONCE):
        some = values[start : start + AT_ONCE]
        stream = np.frombuffer(encryptor.update(bytes(8 * len(some))), dtype="<u8")
        if sign > 0:
            some += stream
        else:
            some -= stream


def mask_sign(mine: int, other: int) -> Literal[1, -1]:
    return 1 if mine < other else -1


def add_masks(values: Whole, me: int, own: bytes, pairs: Mapping[int, bytes]) -> None:
    """Masks the input of client ``me``: with its own mask, and one for each key in ``pairs``, by client number."""
    add_stream(values, own, 1)
    for other, key in pairs.items():
        add_stream(values, key, mask_sign(me, other))
