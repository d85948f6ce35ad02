"""The run's ledger: every part that left a client, what its mechanism cost, and what no guarantee covers."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from understudy.errors import UserError
from understudy.privacy.charges import Charge, Place, epsilon_of

DECISION = "understudy.decision"  # a person's yes or no with records in view: it leaves with the reply, or in its place


@dataclass(frozen=True)
class Release:
    """One reply that left a client, and what its task spent; without parts, the task spent but sent nothing."""

    client: str
    round: int
    step: int
    task: str
    parts: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # kind and bytes
    charges: tuple[Charge, ...] = ()
    sha256: str = ""  # of the reply: the same bytes sent again reveal nothing new
    heard: int = 0  # the round in which it arrived, later than its own if it came too late

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> "Release":
        parts = {part: (str(kind), int(size)) for part, (kind, size) in saved["parts"].items()}
        when = {key: int(saved[key]) for key in ("round", "step")}
        heard = int(saved.get("heard", when["round"]))
        charges = tuple(map(Charge.of, saved.get("charges", ())))
        return cls(**{**saved, **when, "heard": heard, "parts": parts, "charges": charges})

    def to_json(self) -> dict[str, Any]:
        """What ``of`` reads; what follows from the rest is left out, since there is one for every reply of a run."""
        said = {"client": self.client, "round": self.round, "step": self.step, "task": self.task, "parts": self.parts}
        said |= {"charges": [asdict(charge) for charge in self.charges]} if self.charges else {}
        said |= {"sha256": self.sha256} if self.sha256 else {}
        return said if self.heard == self.round else {**said, "heard": self.heard}


@dataclass
class Ledger:
    """One line per client, task and part (kind, how often, how many bytes, how often covered), and the charges
    in each client's charge log when a reply left. It is never rewound.

    It keeps running sums: recording a reply takes as long with a million clients in it as with ten, and so does asking
    for ε, unless somebody spent since it was last asked."""

    lines: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    charges: dict[str, dict[Place, Charge]] = field(default_factory=dict)
    _heard: int = -1  # the newest round
    _seen: set[tuple[str, int, int, str]] = field(default_factory=set)  # replies heard in it
    _bare: set[str] = field(default_factory=set)  # clients that sent what nothing covers
    _epsilons: dict[str, float | None] = field(default_factory=dict)  # of clients that spent, as far as they are known
    _unknown: set[str] = field(default_factory=set)  # the others that spent
    _largest: float | None = 0.0  # of all known ones; None: one of them has no guarantee

    def record(self, release: Release) -> None:
        """A part that no charge covers has no guarantee; keys need none. The same bytes sent again in the same round,
        as after a kill, reveal nothing new."""
        self.spend(release.client, release.charges)
        if release.heard > self._heard:
            self._heard, self._seen = release.heard, set()
        which = (release.client, release.round, release.step, release.sha256)
        if which in self._seen:
            return
        self._seen.add(which)
        covered = {part: "no record behind it" for part, (kind, _) in release.parts.items() if kind == "keys"}
        covered |= {part: charge.mechanism for charge in release.charges for part in charge.covers}
        for part, (kind, size) in release.parts.items():
            blank = {"kind": kind, "releases": 0, "bytes": 0, "covered": 0, "mechanism": None}
            line = self.lines.setdefault((release.client, release.task, part), blank)
            line["releases"] += 1
            line["bytes"] += size
            line["mechanism"] = covered.get(part, line["mechanism"])
            if part in covered:
                line["covered"] += 1
            else:
                self._bare.add(release.client)

    def spend(self, client: str, charges: Iterable[Charge]) -> None:
        for charge in charges:
            mine = self.charges.setdefault(client, {})
            if charge.place not in mine:
                mine[charge.place] = charge
                self._unknown.add(client)

    def epsilon_of(self, client: str) -> float | None:
        """None if something that depends on its records is not covered."""
        if client in self._bare:
            return None
        if client in self._unknown:
            charges = list(self.charges[client].values())
            found = epsilon_of(charges, charges[0].delta, charges[0].accountant)
            self._epsilons[client] = None if math.isinf(found) else found
            self._unknown.discard(client)
            self._largest = -math.inf  # to be found again
        return self._epsilons.get(client, 0.0)

    @property
    def clients(self) -> list[str]:
        """All clients that sent or spent; a task that failed after touching records spent without sending."""
        spent = [who for who, mine in self.charges.items() if mine]
        return list(dict.fromkeys([*(who for who, _, _ in self.lines), *spent]))

    @property
    def epsilon(self) -> float | None:
        """The largest over clients: each record is held by one of them."""
        if self._bare:
            return None
        for client in list(self._unknown):
            self.epsilon_of(client)
        if self._largest == -math.inf:
            every = self._epsilons.values()
            self._largest = None if None in every else max([each for each in every if each is not None])
        return self._largest

    def to_json(self) -> dict[str, Any]:
        clients: dict[str, list[dict[str, Any]]] = {}
        for (client, task, part), line in self.lines.items():
            clients.setdefault(client, []).append({"task": task, "part": part, **line})
        charges = {who: [asdict(charge) for charge in mine.values()] for who, mine in self.charges.items() if mine}
        by_client = {client: self.epsilon_of(client) for client in self.clients}
        about = {"epsilon": self.epsilon, "unit": "record", "epsilon_by_client": by_client}
        return {**about, "clients": clients, "charges": charges}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "Ledger":
        """What ``to_json`` gave; an error for anything else."""
        try:
            return cls._from_json(saved)
        except (KeyError, TypeError, AttributeError, ValueError, UserError):
            raise UserError("the ledger is damaged or from another version; restore it from a copy.") from None

    @classmethod
    def _from_json(cls, saved: Mapping[str, Any]) -> "Ledger":
        ledger = cls()
        for client, lines in saved["clients"].items():
            for line in lines:
                counts = {key: int(line[key]) for key in ("releases", "bytes", "covered")}
                told = {"kind": str(line["kind"]), **counts, "mechanism": line["mechanism"]}
                ledger.lines[(client, str(line["task"]), str(line["part"]))] = told
                if counts["covered"] < counts["releases"]:
                    ledger._bare.add(client)
        for client, listed in saved.get("charges", {}).items():
            ledger.spend(client, [Charge.of(one) for one in listed])
        return ledger
