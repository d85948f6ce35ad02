"""What a run gave away, in one line: read from the ``audit.json`` that `understudy audit` leaves in its folder."""

from dataclasses import dataclass
from pathlib import Path

from understudy.errors import UserError
from understudy.reading import json_of, text_of

AUDIT_FILE = "audit.json"


@dataclass(frozen=True)
class Leak:
    """By the strongest attack. Shares between 0 and 1."""

    attack: str
    caught: float  # members caught where 1 % of others are accused
    low: float  # 95 % interval
    high: float
    null: float  # caught where nothing was sent, by the attack that is strongest there
    auc: float  # the largest of all attacks
    null_auc: float
    small: float | None  # caught in classes of few records; None: too few to tell
    small_auc: float | None


@dataclass(frozen=True)
class Audited:
    """What a table shows of an audit."""

    leak: Leak | None  # None: nothing could be attacked
    share_sent: float  # images sent, as a share of the records
    rounds: int  # that the run had then


def read_audited(folder: Path) -> Audited | None:
    """None: not audited."""
    file = folder / AUDIT_FILE
    if not file.exists():
        return None
    content = json_of(text_of(file), str(file))
    try:
        leak = content["leak"]
        return Audited(None if leak is None else Leak(**leak), float(content["share_sent"]), int(content["rounds"]))
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{file} is damaged or of another version; delete it and audit the run again.") from None
