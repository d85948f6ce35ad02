"""Random draws made ahead of the steps that use them.

Every draw comes from a generator on the processor, so it is the same for every device. If each step drew for itself, an
accelerator would wait for a few numbers to arrive; here the draws of many steps are transferred together. They are made
one after another, as the steps would make them and from the same streams. On the processor, where nothing has to be
moved, each step simply makes its own. In between, nothing else may draw from these streams.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

BYTES = 64 * 2**20  # per transfer; a step that draws more goes alone; ResNet-18's noise is 45 MB

OneDraw = TypeVar("OneDraw")


def ahead(
    draws: Iterable[OneDraw], tensors: Callable[[OneDraw], Sequence[Tensor]], device: torch.device, *, most: int = BYTES
) -> Iterator[tuple[OneDraw, list[Tensor]]]:
    """Each of ``draws``, with its ``tensors`` on the device."""
    if device.type == "cpu":
        for drawn in draws:
            yield drawn, list(tensors(drawn))
        return
    block: list[tuple[OneDraw, Sequence[Tensor]]] = []
    size = 0
    for drawn in draws:
        parts = tensors(drawn)
        more = sum(part.nbytes for part in parts)
        if block and size + more > most:
            yield from _moved(block, device)
            block, size = [], 0
        block.append((drawn, parts))
        size += more
    yield from _moved(block, device)


def _moved(
    block: Sequence[tuple[OneDraw, Sequence[Tensor]]], device: torch.device
) -> Iterator[tuple[OneDraw, list[Tensor]]]:
    """One transfer per dtype, however many steps there are."""
    parts = [part for _, some in block for part in some]
    there: list[Tensor] = list(parts)
    for kind in dict.fromkeys(part.dtype for part in parts):
        places = [i for i, part in enumerate(parts) if part.dtype == kind]
        whole = torch.cat([parts[i].reshape(-1) for i in places]).to(device)
        pieces = torch.split(whole, [parts[i].numel() for i in places])
        for i, piece in zip(places, pieces, strict=True):
            there[i] = piece.view(parts[i].shape)
    left = iter(there)
    for drawn, some in block:
        yield drawn, [next(left) for _ in some]
