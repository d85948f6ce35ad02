"""The transcript of a run: every brief and the reply to it, as the server saw them, for an audit of what left.

With ``transcript: true`` a run keeps it in its folder, and a site of a real federation keeps its own part in its own
folder. Equal tensors are stored once, so a round costs one model and what the clients sent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from understudy.federation.message import Message
from understudy.federation.tensor_store import TensorStore

BRIEF, REPLY = "brief.", "reply."  # before the names of parts


@dataclass(frozen=True)
class Exchanged:
    """One brief, and what one client sent back."""

    client: str
    round: int
    step: int
    task: str
    brief: Message
    reply: Message


class Transcript:
    def __init__(self, folder: Path):
        self._store = TensorStore(folder)

    def add(self, one: Exchanged) -> None:
        """A round that is repeated after a kill is written again, with the same bits."""
        parts = {f"{BRIEF}{part}": tensor for part, tensor in one.brief.items()}
        parts |= {f"{REPLY}{part}": tensor for part, tensor in one.reply.items()}
        entry = f"{one.round:06d}-{one.step:03d}-{one.client}"
        self._store.put(entry, parts, client=one.client, round=one.round, step=one.step, task=one.task)

    def clients(self) -> list[str]:
        """Those that sent something."""
        return list(dict.fromkeys(self._store.notes(entry)["client"] for entry in self._store.entries()))

    def of(self, client: str) -> Iterator[Exchanged]:
        """Everything exchanged with one client, in order."""
        for entry in self._store.entries():
            if self._store.notes(entry)["client"] == client:
                parts, about = self._store.get(entry)
                yield Exchanged(
                    client, about["round"], about["step"], about["task"], _under(BRIEF, parts), _under(REPLY, parts)
                )


def _under(prefix: str, parts: Message) -> Message:
    return Message({part.removeprefix(prefix): parts[part] for part in parts if part.startswith(prefix)})
