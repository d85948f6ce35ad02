"""What a record is: an image, a vector, a sequence or the tokens of a text.

The shape of a record shows its kind from then on: an image is (channels, height, width), a sequence (channels, steps),
a vector (features,), and tokens are (length,) whole numbers, int32, where 0 is padding. So nothing that travels needs
to say it.

Where the config does not name it, the kind is guessed from the shape and the type of the numbers alone. Their values
play no part, so one record more or less never changes it:

- (n, channels, height, width) are images, and so is (n, height, width) if it holds uint8 pixels or if one side is at
  most twice the other. Any other (n, a, b) is a sequence of a channels and b steps: (n, 3, 50) is no picture.
- (n, length) are tokens if they are whole numbers in more than 8 bits, and vectors otherwise.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from understudy.errors import UserError

RecordKind = Literal["image", "vector", "sequence", "tokens"]
KINDS: tuple[RecordKind, ...] = get_args(RecordKind)
NUMBERS: tuple[RecordKind, ...] = ("image", "vector", "sequence")  # that can be moved a little, as gradients do
PLURAL = {"image": "images", "vector": "vectors", "sequence": "sequences", "tokens": "tokens"}
NARROW = (torch.uint8, torch.int8, torch.bool)
MOST_IDS = 2**31


def listed(kinds: tuple[RecordKind, ...]) -> str:
    """images, vectors and sequences"""
    *first, last = (PLURAL[kind] for kind in kinds)
    return f"{', '.join(first)} and {last}" if first else last


def stand_ins(kind: RecordKind) -> str:
    """What is made in place of records, in words."""
    return "images" if kind == "image" else "synthetic records"


def guessed(x: Tensor) -> RecordKind:
    """The kind of the records ``x``, (n, …)."""
    if x.ndim == 4:
        return "image"
    if x.ndim == 3:
        short, long = sorted(x.shape[1:])
        return "image" if x.dtype == torch.uint8 or long <= 2 * short else "sequence"
    whole = not x.is_floating_point() and x.dtype not in NARROW
    return "tokens" if whole and x.ndim == 2 and x.shape[1] > 1 else "vector"


def of_shape(shape: tuple[int, ...], tokens: bool = False) -> RecordKind:
    """What records of this shape are."""
    if tokens:
        return "tokens"
    kinds: dict[int, RecordKind] = {3: "image", 2: "sequence"}
    return kinds.get(len(shape), "vector")


def shape_as(shape: tuple[int, ...], kind: RecordKind | None) -> tuple[int, ...]:
    """What `records_as` makes of records of this shape."""
    return shape if kind is None else tuple(records_as(torch.empty(0, *shape), kind).shape[1:])


def records_as(x: Tensor, kind: RecordKind) -> Tensor:
    """Records (n, …) as that kind: in its shape, and as uint8 pixels, float32 numbers or int32 tokens."""
    if kind == "tokens":
        return _as_tokens(x)
    numbers = x if x.dtype == torch.uint8 else x.to(torch.float32)
    if kind == "vector":
        return numbers.flatten(1) if x.ndim in (3, 4) else numbers
    if x.ndim == (3 if kind == "image" else 2):
        numbers = numbers.unsqueeze(1)
    if numbers.ndim != (4 if kind == "image" else 3):
        wanted = "(n, channels, height, width)" if kind == "image" else "(n, channels, steps)"
        raise UserError(
            f"records have shape {tuple(x.shape)}, but {PLURAL[kind]} are {wanted}; give them that shape, or write "
            f"data.kind: {of_shape(tuple(x.shape[1:]))}."
        )
    return numbers


def _as_tokens(x: Tensor) -> Tensor:
    if x.ndim != 2:
        raise UserError(f"records have shape {tuple(x.shape)}, but tokens are (n, length), one row of ids per text.")
    ids = x.to(torch.int64)
    numbers = "if they are not ids but numbers, write data.kind: vector"
    if x.is_floating_point() and not bool((x == ids).all()):
        raise UserError(f"records are taken for tokens, but some are not whole numbers; {numbers}.")
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < MOST_IDS:
        raise UserError(
            f"records are taken for tokens, but run from {int(ids.min())} to {int(ids.max())}; ids are counted from 0, "
            f"which is padding, so add 1 where -1 is, and {numbers}."
        )
    return ids.to(torch.int32)
