"""Who took part in which round, who failed and why, who was slow, and who has spent its budget: from metrics alone."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from understudy.federation.cohorts import in_order
from understudy.printable import printable
from understudy.runs.folder import Line

Took = Literal["answered", "failed", "spent"]  # in a round that asked for it
SLOW = 2.0  # times the median of all clients


@dataclass(frozen=True)
class Attended:
    """One client over all rounds."""

    rounds: Mapping[int, Took]  # of those that asked it
    bytes_up: int
    bytes_down: int
    seconds: Sequence[float]  # one per round that measured them
    spent: bool = False  # it has no privacy budget left
    left_out: bool = False  # a method leaves it out for good

    def times(self, took: Took) -> int:
        return sum(one == took for one in self.rounds.values())

    @property
    def median_seconds(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class Attendance:
    rounds: Sequence[int]
    clients: Mapping[str, Attended]  # every client that is known
    reasons: Sequence[tuple[str, int, Sequence[str]]] = field(default_factory=list)  # why, how often, who; most first

    @cached_property
    def usual_seconds(self) -> float | None:
        """The median over clients."""
        known = [one.median_seconds for one in self.clients.values() if one.median_seconds is not None]
        return statistics.median(known) if known else None

    def slow(self, client: str) -> bool:
        mine, usual = self.clients[client].median_seconds, self.usual_seconds
        return mine is not None and usual is not None and mine > SLOW * usual


def attendance_of(
    lines: Sequence[Line], clients: Iterable[str], spent: Iterable[str] = (), left_out: Iterable[str] = ()
) -> Attendance:
    """``clients`` that are known beside those in the lines; lines of other versions may lack what is read here."""
    gone, out = set(_names(spent)), set(_names(left_out))
    asked = [_mapping(line.get("bytes_by_client")) for line in lines]
    failures = [_failures(line.get("failures")) for line in lines]
    names = in_order({*clients, *(n for one in asked for n in one), *(n for one in failures for n, _ in one)})
    took: dict[str, dict[int, Took]] = {name: {} for name in names}
    sent = {name: [0, 0] for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    reasons: Counter[str] = Counter()
    who: dict[str, dict[str, None]] = {}
    for line, heard, failed in zip(lines, asked, failures, strict=True):
        for name, both in heard.items():
            took[name][line["round"]] = "answered"
            up_down = [one if isinstance(one, int) else 0 for one in both] if isinstance(both, list) else []
            sent[name] = [have + more for have, more in zip(sent[name], [*up_down, 0, 0], strict=False)]
        for name, why in failed:
            took[name][line["round"]] = "failed"
            reasons[why] += 1
            who.setdefault(why, {})[name] = None
        for name, spell in _mapping(line.get("seconds_by_client")).items():
            if name in seconds and isinstance(spell, int | float):
                seconds[name].append(float(spell))
    for name in gone & set(names):
        if took[name] and took[name][max(took[name])] == "failed":
            took[name][max(took[name])] = "spent"
    found = {
        name: Attended(took[name], sent[name][0], sent[name][1], seconds[name], name in gone, name in out)
        for name in names
    }
    told = [(why, times, list(who[why])) for why, times in reasons.most_common()]
    return Attendance([line["round"] for line in lines], found, told)


def _mapping(found: Any) -> dict[str, Any]:
    return {str(name): value for name, value in found.items()} if isinstance(found, dict) else {}


def _names(found: Any) -> list[str]:
    return [str(one) for one in found] if isinstance(found, list | tuple | set) else []


def _failures(found: Any) -> list[tuple[str, str]]:
    listed = found if isinstance(found, list) else []
    return [(str(one.get("client")), printable(str(one.get("why")))) for one in listed if isinstance(one, dict)]
