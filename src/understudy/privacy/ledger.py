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
        when = {key: int(saved[key]) for key in ("round", "step", "heard")}
        return cls(**{**saved, **when, "parts": parts, "charges": tuple(map(Charge.of, saved["charges"]))})


@dataclass
class Ledger:
    """One line per client, task and part (kind, how often, how many bytes, how often covered), and the charges
    in each client's charge log when a reply left. It is never rewound."""

    lines: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    charges: dict[str, dict[Place, Charge]] = field(default_factory=dict)
    seen: set[tuple[str, int, int, str]] = field(default_factory=set)  # replies since the last checkpoint

    def record(self, release: Release) -> None:
        """A part that no charge covers has no guarantee; keys need none."""
        self.spend(release.client, release.charges)
        which = (release.client, release.round, release.step, release.sha256)
        if which in self.seen:
            return
        self.seen.add(which)
        covered = {part: "no record behind it" for part, (kind, _) in release.parts.items() if kind == "keys"}
        covered |= {part: charge.mechanism for charge in release.charges for part in charge.covers}
        for part, (kind, size) in release.parts.items():
            blank = {"kind": kind, "releases": 0, "bytes": 0, "covered": 0, "mechanism": None}
            line = self.lines.setdefault((release.client, release.task, part), blank)
            line["releases"] += 1
            line["bytes"] += size
            line["covered"] += part in covered
            line["mechanism"] = covered.get(part, line["mechanism"])

    def spend(self, client: str, charges: Iterable[Charge]) -> None:
        mine = self.charges.setdefault(client, {})
        for charge in charges:
            mine.setdefault(charge.place, charge)

    def epsilon_of(self, client: str) -> float | None:
        """None if something that depends on its records is not covered."""
        mine = [line for (who, _, _), line in self.lines.items() if who == client]
        charges = list(self.charges.get(client, {}).values())
        if any(line["covered"] < line["releases"] for line in mine):
            return None
        if not charges:
            return 0.0
        found = epsilon_of(charges, charges[0].delta, charges[0].accountant)
        return None if math.isinf(found) else found

    def epsilon_of_person(self, client: str, records: int) -> float | None:
        """The same for somebody with up to this many records there."""
        from understudy.privacy.accounting import Spending
        from understudy.privacy.groups import group_epsilon

        if self.epsilon_of(client) is None:
            return None
        charges = list(self.charges.get(client, {}).values())
        if not charges:
            return 0.0
        spent = [Spending(charge.rate, charge.noise, charge.steps) for charge in charges]
        found = group_epsilon(spent, records, charges[0].delta, charges[0].accountant)
        return None if math.isinf(found) else found

    @property
    def clients(self) -> list[str]:
        """All clients that sent or spent; a task that failed after touching records spent without sending."""
        spent = [who for who, mine in self.charges.items() if mine]
        return list(dict.fromkeys([*(who for who, _, _ in self.lines), *spent]))

    @property
    def epsilon(self) -> float | None:
        """The largest over clients: each record is held by one of them."""
        found = [self.epsilon_of(client) for client in self.clients]
        return None if None in found else max([each for each in found if each is not None], default=0.0)

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
                how = {"kind": str(line["kind"]), "mechanism": line["mechanism"]}
                ledger.lines[(client, str(line["task"]), str(line["part"]))] = {**counts, **how}
        for client, listed in saved.get("charges", {}).items():
            charges = [Charge.of(one) for one in listed]
            ledger.charges[client] = {charge.place: charge for charge in charges}
        return ledger
