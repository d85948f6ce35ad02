"""What an audit of a run found, and the file that keeps it: ``audit.json`` in the run's folder."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from understudy.audits.measures import Interval, Reached
from understudy.errors import UserError
from understudy.files import write_whole
from understudy.reading import json_of, text_of
from understudy.runs.leak import AUDIT_FILE, Leak

SCHEMA = 1


@dataclass(frozen=True)
class AttackRow:
    """One attack on all clients together, and the same attack on the null: what no client sent."""

    name: str
    about: str
    pooled: Reached
    null: Reached
    small: Reached | None = None  # classes of few records at a client; None: there are too few to tell
    null_small: Reached | None = None
    clients: int = 0  # judged


@dataclass(frozen=True)
class Copies:
    """Shared images nearer to a training record than held-out records ever are."""

    near: int
    images: int  # looked at

    @property
    def share(self) -> float:
        return self.near / self.images if self.images else 0.0


@dataclass(frozen=True)
class Audit:
    label: str  # `fedavg + fedssyn`
    rows: Sequence[AttackRow]
    copies: Copies | None  # None: no images left
    members: int
    non_members: int
    reference: int
    images: int  # that left, over all rounds
    records: int  # of all clients
    thorough: bool
    whole: bool  # every round, from a transcript; otherwise only what the run keeps of its newest
    epsilon: float | None  # of the ledger: everything that left is covered
    notes: Sequence[str] = ()  # what the numbers can and cannot show
    digest: str = ""  # of the run that was audited
    rounds: int = 0  # that it had then
    seconds: float = 0.0

    @property
    def share_sent(self) -> float:
        """Images sent, as a share of the records."""
        return self.images / self.records if self.records else 0.0

    @property
    def leak(self) -> Leak | None:
        """None: nothing could be attacked."""
        if not self.rows:
            return None
        strongest = _strongest([row.pooled for row in self.rows])
        null = _strongest([row.null for row in self.rows])
        small = [row.small for row in self.rows if row.small is not None]
        return Leak(
            next(row.name for row in self.rows if row.pooled is strongest),
            strongest.caught.value,
            strongest.caught.low,
            strongest.caught.high,
            null.caught.value,
            _largest_auc([row.pooled for row in self.rows]),
            _largest_auc([row.null for row in self.rows]),
            _strongest(small).caught.value if small else None,
            _largest_auc(small) if small else None,
        )

    def as_dict(self) -> dict[str, Any]:
        leak = None if self.leak is None else asdict(self.leak)
        return {"schema": SCHEMA, "leak": leak, "share_sent": self.share_sent, **asdict(self)}


def _strongest(found: Sequence[Reached]) -> Reached:
    return max(found, key=lambda one: (one.caught.value, one.auc.value))


def _largest_auc(found: Sequence[Reached]) -> float:
    return max(one.auc.value for one in found)


def write_audit(folder: Path, found: Audit) -> None:
    write_whole(folder / AUDIT_FILE, (json.dumps(found.as_dict(), indent=1) + "\n").encode())


def read_audit(folder: Path) -> Audit | None:
    """None if the run was not audited."""
    file = folder / AUDIT_FILE
    if not file.exists():
        return None
    content = json_of(text_of(file), str(file))
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UserError(f"{file} is damaged or of another version; delete it and audit the run again.")
    try:
        return audit_of(content)
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{file} is damaged; delete it and audit the run again.") from None


def audit_of(content: Mapping[str, Any]) -> Audit:
    """From what ``as_dict`` gives."""
    derived = ("schema", "share_sent", "leak")
    plain = {key: value for key, value in content.items() if key not in derived}
    copies = None if content["copies"] is None else Copies(**content["copies"])
    return Audit(**{**plain, "rows": [_row(row) for row in content["rows"]], "copies": copies})


def _row(words: Mapping[str, Any]) -> AttackRow:
    reached = {name: _reached(words[name]) for name in ("pooled", "null", "small", "null_small")}
    return AttackRow(**{**words, **reached})


def _reached(words: Mapping[str, Any] | None) -> Reached | None:
    if words is None:
        return None
    return Reached(words["members"], words["non_members"], Interval(**words["auc"]), Interval(**words["caught"]))
