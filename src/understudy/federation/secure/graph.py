"""Who shares masks and seeds with whom."""

from collections.abc import Sequence


def neighbours(ring: Sequence[int], degree: int) -> dict[int, tuple[int, ...]]:
    """Everyone with everyone if they are few; otherwise ``degree`` each, half on either side of a random ring."""
    if len(ring) - 1 <= degree:
        return {one: tuple(sorted(other for other in ring if other != one)) for one in ring}
    steps = [step for k in range(1, degree // 2 + 1) for step in (-k, k)]
    return {one: tuple(sorted(ring[(at + step) % len(ring)] for step in steps)) for at, one in enumerate(ring)}


def well_connected(members: Sequence[int], graph: dict[int, tuple[int, ...]], needed: dict[int, int]) -> list[int]:
    """Members, except those with too few neighbours left to be recovered if they drop out."""
    kept = set(members)
    while True:
        lonely = {one for one in kept if 1 + len(kept.intersection(graph[one])) < needed[one]}
        if not lonely:
            return [one for one in members if one in kept]
        kept -= lonely
