"""The ledger: every part that left a client, and whether a privacy guarantee covers it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass
class Ledger:
    """One line for each client, task and part: kind, how often, how many bytes. It only goes forward."""

    lines: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)

    def release(self, client: str, task: str, kinds: Mapping[str, str], parts: Mapping[str, Tensor]) -> None:
        """Parts that left. No mechanism covers them, so no ε can be stated."""
        for part, tensor in parts.items():
            blank = {"kind": kinds.get(part, "undeclared"), "releases": 0, "bytes": 0, "mechanism": None}
            line = self.lines.setdefault((client, task, part), blank)
            line["releases"] += 1
            line["bytes"] += tensor.numel() * tensor.element_size()

    def take_in(self, other: "Ledger") -> None:
        """What either has recorded is recorded: of two copies of one history, the longer counts."""
        for key, line in other.lines.items():
            if key not in self.lines or line["releases"] > self.lines[key]["releases"]:
                self.lines[key] = dict(line)

    @property
    def epsilon(self) -> float | None:
        """The largest ε over clients; None where something that depends on records is not covered."""
        return None if self.lines else 0.0

    def to_json(self) -> dict[str, Any]:
        clients: dict[str, list[dict[str, Any]]] = {}
        for (client, task, part), line in self.lines.items():
            clients.setdefault(client, []).append({"task": task, "part": part, **line})
        return {"epsilon": self.epsilon, "unit": "record", "clients": clients}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "Ledger":
        ledger = cls()
        for client, lines in saved["clients"].items():
            for line in lines:
                rest = {key: value for key, value in line.items() if key not in ("task", "part")}
                ledger.lines[(client, line["task"], line["part"])] = rest
        return ledger
