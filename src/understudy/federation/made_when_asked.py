"""A mapping whose values are made when they are asked for: a run knows a million clients and works with a few."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, TypeVar

AT_HAND = 4096  # values that stay made

MadeValue = TypeVar("MadeValue")


class MadeWhenAsked(Mapping[str, MadeValue], Generic[MadeValue]):
    def __init__(self, names: Mapping[str, object], make: Callable[[str], MadeValue]):
        self._names, self._made = names, lru_cache(maxsize=AT_HAND)(make)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> MadeValue:
        """``make`` raises KeyError for a name that there is not."""
        return self._made(name)
