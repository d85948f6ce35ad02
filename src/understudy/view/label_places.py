"""Finds room for labels: beside line ends, and beside dots."""

import math
from collections.abc import Sequence

LabelBox = tuple[float, float, float, float]  # left, bottom, right, top
DIRECTIONS = (0, 180, 90, 270, 30, 150, 330, 210, 60, 120, 300, 240)  # in degrees, the usual ones first
RINGS = 12  # how far away a label may go, in steps of its own height


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


def beside_dots(
    dots: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]], gap: float, room: LabelBox
) -> list[LabelBox]:
    """A box of its size for each dot's label, as near to its dot as it fits: within ``room``, over no dot and no other
    label, ``gap`` away from its dot and, where possible, nearer to it than to any other dot.

    Dots in a crowd choose first. A label for which nothing is free stands at the right of its dot.
    """
    taken: list[LabelBox] = [(x - gap, y - gap, x + gap, y + gap) for x, y in dots]
    places: list[LabelBox] = [(0.0, 0.0, 0.0, 0.0)] * len(dots)
    for at in sorted(range(len(dots)), key=lambda at: -_crowd(dots, at, sizes[at])):
        candidates = _candidates(dots[at], sizes[at], gap)
        free = [box for box in candidates if _within(box, room) and not any(_overlap(box, other) for other in taken)]
        others = [dot for number, dot in enumerate(dots) if number != at]
        plain = [box for box in free if all(_distance(dots[at], box) < _distance(other, box) for other in others)]
        places[at] = (plain or free or candidates)[0]
        taken.append(places[at])
    return places


def _crowd(dots: Sequence[tuple[float, float]], at: int, size: tuple[float, float]) -> int:
    (x, y), (width, height) = dots[at], size
    return sum(abs(x - a) < width and abs(y - b) < 3 * height for a, b in dots)


def _candidates(dot: tuple[float, float], size: tuple[float, float], gap: float) -> list[LabelBox]:
    """Nearest first. A box touches the ray from the dot with its nearer side."""
    (x, y), (width, height) = dot, size
    found = []
    for ring in range(RINGS):
        for degrees in DIRECTIONS:
            across, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            away = gap + 0.05 * height + ring * height
            left = x + away * across - width * (1 - across) / 2
            bottom = y + away * up - height * (1 - up) / 2
            found.append((left, bottom, left + width, bottom + height))
    return found


def _within(box: LabelBox, room: LabelBox) -> bool:
    return box[0] >= room[0] and box[1] >= room[1] and box[2] <= room[2] and box[3] <= room[3]


def _overlap(one: LabelBox, other: LabelBox) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _distance(dot: tuple[float, float], box: LabelBox) -> float:
    x, y = dot
    return math.dist((min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])), dot)
