"""What a run goes on from: State after a round, and what else it has to know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from understudy.federation.message import Message


@dataclass(frozen=True)
class Checkpoint:
    state: Message
    round: int
    versions: Mapping[str, str]  # of the clients' memories
    lines: Sequence[dict[str, Any]]  # of metrics: this round's, and earlier ones that are not scored yet
    spent: Sequence[str] = ()  # clients without privacy budget
    left_out: Sequence[str] = ()  # clients left out for good
    config: str | None = None  # digest of what the run began with; older versions have none
    ledger: Mapping[str, Any] = field(default_factory=dict)  # of older versions; now `Releases` has it

    @property
    def entry(self) -> str:
        return f"round-{self.round:06d}"

    def notes(self) -> dict[str, Any]:
        """All but the tensors."""
        notes = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "state"}
        return notes if self.ledger else {name: value for name, value in notes.items() if name != "ledger"}
