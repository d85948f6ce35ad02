"""A watcher of releases, for the length of an experiment: it sees each noised sum with its divisor, clip and σ."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from understudy.privacy.mechanism import WATCHER, NoisySum


class EnoughSeen(Exception):
    """As many releases as were wanted: the rest of the task is not needed."""


@contextmanager
def watching(most: int | None = None) -> Iterator[list[NoisySum]]:
    """The releases made in here, as they come. ``most``: the task ends with `EnoughSeen` at that one."""
    seen: list[NoisySum] = []

    def note(release: NoisySum) -> None:
        seen.append(replace(release, noised=release.noised.detach().cpu().clone()))
        if most is not None and len(seen) >= most:
            raise EnoughSeen

    before = WATCHER.set(note)
    try:
        yield seen
    finally:
        WATCHER.reset(before)
