"""Pushes apart labels beside line ends that would overlap."""

from collections.abc import Sequence


def push_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least ``gap`` apart, between ``low`` and ``high``, as near as possible to the wanted ones.

    Near in the sense of least squares, in the order of ``wanted``. If there is no room for all, they are spread evenly.
    """
    if not wanted:
        return []
    gap = min(gap, (high - low) / max(len(wanted) - 1, 1))
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    # With its share of gaps subtracted, each place only has to be no lower than the one before.
    level = _never_falling([wanted[at] - gap * rank for rank, at in enumerate(order)])
    top = high - gap * (len(wanted) - 1)
    places = [0.0] * len(wanted)
    for rank, at in enumerate(order):
        places[at] = min(max(level[rank], low), top) + gap * rank
    return places


def _never_falling(values: Sequence[float]) -> list[float]:
    """The nearest sequence that never falls: neighbours that would fall are pooled at their mean."""
    pools: list[tuple[float, int]] = []  # mean, members
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n)]
    return [mean for mean, members in pools for _ in range(members)]
