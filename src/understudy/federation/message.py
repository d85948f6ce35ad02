"""Message: named tensors, and the only thing that travels."""

import math
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from functools import lru_cache

import torch
from safetensors.torch import load, save
from torch import Tensor

from understudy.errors import UserError
from understudy.printable import is_short_line
from understudy.privacy.policy import Kind as Kind

# Types of numbers that travel; torch can hardly compute with wider unsigned ones.
NUMBERS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64} | {
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
}
LONGEST_HEADER = 2**18  # bytes: room for a few thousand parts, read within a fraction of a second
MOST_DIMENSIONS = 8
MOST_NUMBERS = 2**48  # per part, with empty dimensions counted as 1: sizes and strides stay far from overflow


class NoSuchPart(UserError, KeyError):
    """A requested part is missing: a UserError with a sentence, and the KeyError that mappings raise."""

    def __str__(self) -> str:
        return f"A message came without its part '{self.args[0]}'."


class Message(Mapping[str, Tensor]):
    """A brief, a reply, the server's State: a read-only mapping.

    On the wire it is safetensors (a short header, then the raw numbers); nothing in it can run code.

    >>> import torch, understudy as us
    >>> state = us.Message(model=torch.zeros(3))
    >>> state.but(rounds=torch.tensor(1))
    Message(model: float32[3], rounds: int64[])
    """

    def __init__(self, parts: Mapping[str, Tensor] | None = None, /, **named: Tensor):
        merged = {**(parts or {}), **named}
        self._parts = {name: _plain(name, merged[name]) for name in sorted(merged)}

    @classmethod
    def _of(cls, parts: dict[str, Tensor]) -> "Message":
        """Of parts that came out of a message, in its order: a round makes several messages per client."""
        made = Message.__new__(Message)
        made._parts = parts
        return made

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._parts[name]
        except KeyError:
            raise NoSuchPart(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    # What `Mapping` derives from the three above goes part by part through Python, and an exception if one is missing.
    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def keys(self) -> KeysView[str]:
        return self._parts.keys()

    def values(self) -> ValuesView[Tensor]:
        return self._parts.values()

    def items(self) -> ItemsView[str, Tensor]:
        return self._parts.items()

    def __repr__(self) -> str:
        inside = ", ".join(f"{n}: {str(t.dtype)[6:]}{list(t.shape)}" for n, t in self._parts.items())
        return f"Message({inside})"

    def but(self, parts: Mapping[str, Tensor] | None = None, /, **named: Tensor) -> "Message":
        """A copy with some parts replaced or added."""
        if not parts and not named:
            return self
        return Message({**self._parts, **(parts or {}), **named})

    def only(self, *names: str) -> "Message":
        return Message({name: self[name] for name in names})

    def without(self, *names: str) -> "Message":
        if not any(name in self._parts for name in names):
            return self
        return Message._of({name: tensor for name, tensor in self._parts.items() if name not in names})

    @property
    def nbytes(self) -> int:
        """Its size on the wire."""
        kinds = tuple((name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self._parts.items())
        return _header_bytes(kinds) + sum(tensor.nbytes for tensor in self._parts.values())

    def to_bytes(self) -> bytes:
        # Two names for one storage are legal here but not in safetensors: the second gets a copy.
        seen: set[int] = set()
        own: dict[str, Tensor] = {}
        for name, tensor in self._parts.items():
            shared = tensor.numel() > 0 and tensor.untyped_storage().data_ptr() in seen
            seen.add(tensor.untyped_storage().data_ptr())
            own[name] = tensor.clone() if shared else tensor
        return save(own)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Message":
        """From another party: a UserError for anything but a message, within bounded time and memory."""
        if int.from_bytes(data[:8], "little") > LONGEST_HEADER:
            raise UserError(f"A message of {len(data)} bytes cannot be read: its header is too long.")
        try:
            made = cls(load(data))
        except Exception as broken:  # safetensors and torch raise a dozen kinds, some quoting the sender
            raise UserError(f"A message of {len(data)} bytes cannot be read ({type(broken).__name__}).") from None
        made.check_parts()
        return made

    def copy(self) -> "Message":
        """With tensors of its own, as if it had been sent and read."""
        return Message._of({name: tensor.clone() for name, tensor in self._parts.items()})

    def check_parts(self) -> None:
        """What `from_bytes` refuses of another party's, for a message that never was bytes."""
        for part, tensor in self._parts.items():
            _check_part(part, tensor.dtype, tensor.shape)
            if tensor.dtype == torch.bool and bool((tensor.view(torch.uint8) > 1).any()):
                raise UserError(f"A message holds '{part}' with boolean values that are neither true nor false.")

    def not_finite(self) -> list[str]:
        """The parts that hold an infinity or NaN."""
        return [n for n, t in self._parts.items() if t.is_floating_point() and not _finite(t)]

    def beyond(self, limit: float) -> list[str]:
        """The parts that hold a number beyond ±``limit``, or none at all: an infinity or NaN."""
        return [n for n, t in self._parts.items() if t.dtype != torch.bool and t.numel() and not _furthest(t) <= limit]


@lru_cache(maxsize=256)
def _header_bytes(kinds: tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]) -> int:
    """Of messages with parts of these names, kinds and shapes: found out by encoding one."""
    parts = {name: torch.zeros(shape, dtype=dtype) for name, dtype, shape in kinds}
    return len(save(parts)) - sum(tensor.nbytes for tensor in parts.values())


def _furthest(tensor: Tensor) -> float:
    """NaN if there is one among them."""
    if tensor.numel() == 1:
        return abs(tensor.item())
    low, high = tensor.aminmax()
    return max(-low.item(), high.item())


@lru_cache(maxsize=256)
def _check_part(part: str, dtype: torch.dtype, shape: torch.Size) -> None:
    """What can be told without its numbers; a round brings the same parts from every client."""
    if not is_short_line(part):
        raise UserError("A message holds a part whose name is too long or cannot be printed.")
    if dtype not in NUMBERS:
        raise UserError(f"A message holds '{part}' in {str(dtype)[6:]}, a type that is never sent.")
    if len(shape) > MOST_DIMENSIONS or math.prod(max(1, size) for size in shape) > MOST_NUMBERS:
        raise UserError(f"A message holds '{part}' of a shape that is not accepted.")


def _finite(tensor: Tensor) -> bool:
    """A sum is quicker than checking every number, and is finite only if all of them are."""
    if tensor.numel() == 1:
        return math.isfinite(tensor.item())
    return math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def _plain(name: str, tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise UserError(f"{name}: a message holds tensors, not {type(tensor).__name__}.")
    # A tensor that is already plain stays the same object: that shows tensor stores what has not changed.
    if tensor.requires_grad or not tensor.is_cpu or not tensor.is_contiguous():
        return tensor.detach().cpu().contiguous()
    return tensor


def labels_to_wire(y: Tensor, classes: int) -> Tensor:
    """Class numbers in one byte where that is enough, else in two; several labels per record as bytes."""
    return y.to(torch.uint8 if y.ndim == 2 or classes <= 256 else torch.int16)


def labels_from_wire(y: Tensor) -> Tensor:
    return y.to(torch.float32 if y.ndim == 2 else torch.int64)


def scalar(value: float | int | Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float32).reshape(())
