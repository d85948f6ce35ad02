"""What a site has spent, on its own disk.

The charge log belongs to the site: it outlives runs and is never rewound. A charge is on disk before a record is
touched (``open``) and closed before the reply leaves. Work that was started but never left is repeated under its open
line; once that is closed, the same work is charged again.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from understudy.errors import UserError
from understudy.files import add_line
from understudy.printable import is_short_line
from understudy.privacy.promise import Accountant

LAST_PLACE = 10**9  # rounds, steps, charges of a task
LARGEST = 1e30  # clip or divisor
MOST_PARTS = 100  # covered by one charge

Place = tuple[str, int, int, str, int]  # run, round, step, task, number


class BudgetSpent(UserError):
    """A client refuses work that would exceed its budget."""

    code = "budget"


@dataclass(frozen=True)
class Charge:
    """One mechanism used in one task: everything needed to check the claim."""

    run: str
    round: int
    step: int
    task: str
    number: int  # the n-th charge of the task
    mechanism: str
    clip: float
    noise: float  # σ, in units of the clip
    rate: float  # at which records are sampled, by Poisson draws; 1: all of them
    steps: int
    delta: float
    accountant: Accountant
    covers: tuple[str, ...]  # parts of the reply that depend on records through this mechanism only
    public: tuple[str, ...] = ()  # facts that the parties declared public
    divisor: float | None = None  # what a noisy sum is divided by: the expected batch size, never the actual one
    unit: str = "record, added or removed"
    test_noise: bool = False  # noise that can be repeated protects nobody

    @property
    def place(self) -> Place:
        return self.run, self.round, self.step, self.task, self.number

    @property
    def way(self) -> tuple[float, float]:
        """Rate and noise: charges that share both are counted together."""
        return self.rate, self.noise

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> "Charge":
        """From a file or a site; an error for anything else, including what could not be counted."""
        try:
            made = cls(**{**saved, "covers": _listed(saved["covers"]), "public": _listed(saved["public"])})
            sound = all(type(value) in kinds for value, kinds in made._kinds()) and made._in_bounds()
        except (TypeError, KeyError, UserError):
            sound = False
        if not sound:
            raise UserError("A privacy charge arrived that cannot be read.")
        return made

    def _kinds(self) -> Iterator[tuple[object, tuple[type, ...]]]:
        """Each value, and what it must be."""
        for word in (self.run, self.task, self.mechanism, self.unit, self.accountant, *self.covers, *self.public):
            yield word, (str,)
        yield from ((whole, (int,)) for whole in (self.round, self.step, self.number, self.steps))
        yield from ((value, (int, float)) for value in (self.clip, self.noise, self.rate, self.delta))
        yield self.divisor, (int, float, type(None))
        yield self.test_noise, (bool,)

    def _in_bounds(self) -> bool:
        """Values `Spending` can count, and text that can be shown."""
        from understudy.privacy.accounting import LEAST_DELTA, Spending

        Spending(self.rate, self.noise, self.steps)
        words = (self.run, self.task, self.mechanism, self.unit, *self.covers, *self.public)
        return (
            LEAST_DELTA <= self.delta < 1
            and all(0 <= place <= LAST_PLACE for place in (self.round, self.step, self.number))
            and all(0 <= size <= LARGEST for size in (self.clip, self.divisor or 0))
            and self.accountant in get_args(Accountant)
            and all(map(is_short_line, words))
        )


def _listed(words: object) -> tuple[Any, ...]:
    if not isinstance(words, list | tuple) or len(words) > MOST_PARTS:
        raise UserError("What a charge covers is not a list of parts.")
    return tuple(words)


def epsilon_of(charges: Sequence[Charge], delta: float, accountant: Accountant) -> float:
    """All of them composed; infinite if the noise was only for tests."""
    if any(charge.test_noise for charge in charges):
        return math.inf
    return composed(charges, delta, accountant)


def composed(charges: Sequence[Charge], delta: float, accountant: Accountant) -> float:
    """What they would spend if nobody could repeat the noise."""
    steps: dict[tuple[float, float], int] = {}
    for charge in charges:
        steps[charge.way] = steps.get(charge.way, 0) + charge.steps
    return _epsilon(tuple((rate, noise, count) for (rate, noise), count in steps.items()), delta, accountant)


@lru_cache(maxsize=1024)
def _epsilon(spent: tuple[tuple[float, float, int], ...], delta: float, accountant: Accountant) -> float:
    """Cached, since a ledger is asked several times per round."""
    from understudy.privacy.accounting import Spending, epsilon

    return epsilon([Spending(*one) for one in spent], delta, accountant)


@dataclass(frozen=True)
class Limit:
    """Who allows how much: the run's config or the site's own policy."""

    whose: str
    epsilon: float
    delta: float
    accountant: Accountant


class ChargeLog:
    """The charges of one site, in a file that is only ever added to."""

    def __init__(self, path: Path):
        self.path = path

    def charges(self) -> list[Charge]:
        """Open ones count too: their records may have been touched."""
        return [one for one in self._entries() if isinstance(one, Charge)]

    def _closed(self) -> set[Place]:
        return {one for one in self._entries() if not isinstance(one, Charge)}

    def open(self, charge: Charge, limits: Sequence[Limit]) -> Charge:
        """The charge as logged: on disk before this returns; nothing is written if a limit would be exceeded."""
        charge = Charge.of(asdict(charge))  # a line that cannot be read back would end all spending
        closed = self._closed()
        before = self.charges()
        if charge in before and charge.place not in closed:
            return charge
        if any(charge.place == other.place for other in before):  # it left or failed before: this is another release
            taken = [other.number for other in before if other.place[:4] == charge.place[:4]]
            charge = Charge.of({**asdict(charge), "number": max(taken) + 1})
        for limit in limits:
            after = composed([*before, charge], limit.delta, limit.accountant)
            if after > limit.epsilon:
                raise BudgetSpent(
                    f"its privacy budget is used up: this would bring ε to {after:.3f}, "
                    f"and {limit.whose} allows {limit.epsilon:g} at δ = {limit.delta:g}"
                )
        self._add({"charge": asdict(charge)})
        return charge

    def close(self, charges: Sequence[Charge]) -> None:
        """Their reply is about to leave, or their work failed: if done again, it is charged again."""
        closed = self._closed()
        for charge in charges:
            if charge.place not in closed:
                self._add({"closed": list(charge.place)})

    def of_task(self, run: str, round: int, step: int, task: str) -> list[Charge]:
        return [charge for charge in self.charges() if charge.place[:4] == (run, round, step, task)]

    def _add(self, line: Mapping[str, Any]) -> None:
        add_line(self.path, line)

    def _entries(self) -> Iterator["Charge | Place"]:
        """Charges, and the places of those that are closed."""
        if not self.path.exists():
            return
        whole, _, _ = self.path.read_bytes().rpartition(b"\n")  # the rest was cut off before anyone relied on it
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                yield _entry(json.loads(line))
            except (ValueError, TypeError, KeyError, UserError, RecursionError):
                raise UserError(
                    f"{self.path}, line {number}, cannot be read; what was spent is unknown, so nothing more "
                    "can be: restore the file from a copy."
                ) from None


class UnloggedCharges(ChargeLog):
    """Charges of an experiment on made-up records: kept in memory, and no site's."""

    def __init__(self) -> None:
        super().__init__(Path("charges in memory"))
        self._lines: list[Mapping[str, Any]] = []

    def _add(self, line: Mapping[str, Any]) -> None:
        self._lines.append(line)

    def _entries(self) -> Iterator["Charge | Place"]:
        return map(_entry, self._lines)


def _entry(line: Mapping[str, Any]) -> "Charge | Place":
    if "charge" in line:
        return Charge.of(line["charge"])
    run, round, step, task, number = line["closed"]
    return str(run), int(round), int(step), str(task), int(number)
