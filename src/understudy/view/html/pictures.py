"""Pixels as PNG in a data address, so that a page can carry its pictures."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
KINDS = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's numbers, by channels: grey, grey and opacity, colours, colours and opacity


def png(pixels: NDArray[np.uint8]) -> bytes:
    """(height, width, channels): grey or three colours, each with or without opacity."""
    height, width, channels = pixels.shape
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    unfiltered = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, KINDS[channels], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(unfiltered, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def data_address(pixels: NDArray[np.uint8]) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"
