"""A watcher of releases, for the length of an experiment: it sees each noised sum with its divisor, clip and σ."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor

from understudy.privacy.mechanism import WATCHER, NoisySum


class EnoughSeen(Exception):
    """As many releases as were wanted: the rest of the task is not needed."""


@contextmanager
def watching(
    most: int | None = None, kept: int | None = None, instead: Sequence[NoisySum] = ()
) -> Iterator[list[NoisySum]]:
    """The releases made in here, as they come. ``most``: the task ends with `EnoughSeen` at that one. ``kept``: only so
    many of each shape are, the first ones. ``instead``: the releases of another run, which the task goes on with."""
    seen: list[NoisySum] = []
    came = 0

    def note(release: NoisySum) -> Tensor | None:
        nonlocal came
        came += 1
        if kept is None or sum(one.noised.shape == release.noised.shape for one in seen) < kept:
            seen.append(replace(release, noised=release.noised.detach().cpu().clone()))
        if most is not None and came >= most:
            raise EnoughSeen
        other = instead[came - 1] if came <= len(instead) else None
        if other is None or other.noised.shape != release.noised.shape:
            return None
        return other.released.to(release.noised)

    before = WATCHER.set(note)
    try:
        yield seen
    finally:
        WATCHER.reset(before)
