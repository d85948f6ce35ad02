"""Examples that each client sends once, when it is first asked, and that stay in State; a model learns from all.

A method may ask each client more often (``times``): what it sends last takes the place of what it sent before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.federation.message import Message
from understudy.federation.method import State
from understudy.federation.server import Reply, Server, Task
from understudy.methods.shared.outliers import learnt_from
from understudy.methods.shared.pooled import accepted

NOTHING = Message()


@dataclass(frozen=True)
class SentSets:
    prefix: str  # of the names in State: the prefix, a client's name, and .x or .y
    times: int = 1  # that each client is asked; with more than one State also counts them, in .times

    def ask_new(
        self,
        server: Server,
        state: State,
        task: Task,
        fault: Callable[[Reply], str | None],
        brief: Message = NOTHING,
    ) -> list[Reply]:
        """Replies of clients that have not sent as often as they should; those with a fault are refused."""
        new = self.due(state, server.cohort())
        # Once some clients have answered, a round no longer depends on those that never send anything usable.
        enough = 0 if any(part.startswith(self.prefix) for part in state) else None
        return list(accepted(server.ask(task, brief, to=new, at_least=enough), fault)) if new else []

    def due(self, state: State, clients: Sequence[str]) -> list[str]:
        """Those of the clients that have not sent as often as they should."""
        return [client for client in clients if self.sent(state, client) < self.times]

    def sent(self, state: State, client: str) -> int:
        """How often it has."""
        if f"{self.prefix}{client}.y" not in state:
            return 0
        return int(state[f"{self.prefix}{client}.times"]) if self.times > 1 else 1

    def parts(self, state: State, replies: Sequence[Reply]) -> dict[str, Tensor]:
        """As they are kept in State."""
        found = {f"{self.prefix}{reply.client}.{part}": reply[part] for reply in replies for part in ("x", "y")}
        if self.times > 1:
            for reply in replies:
                found[f"{self.prefix}{reply.client}.times"] = torch.tensor(self.sent(state, reply.client) + 1)
        return found

    def kept(self, state: State, clients: Sequence[str]) -> list[Message]:
        """What those of the clients that have answered sent last, ``x`` and ``y``, in order."""
        heard = [f"{self.prefix}{client}" for client in clients if f"{self.prefix}{client}.y" in state]
        return [Message(x=state[f"{name}.x"], y=state[f"{name}.y"]) for name in heard]

    def learnt(
        self, server: Server, state: State, replies: Sequence[Reply], learn: Callable[[Sequence[Message]], Tensor]
    ) -> State:
        """With what is new, and the model that ``learn`` makes of all that is kept; the old one if nothing is new."""
        if not any(len(reply["y"]) for reply in replies):
            return state.but(self.parts(state, replies))

        def with_some(some: Sequence[Reply]) -> Message:
            kept = self.parts(state, some)
            return Message(kept, model=learn(self.kept(state.but(kept), server.clients)))

        return state.but(learnt_from(replies, with_some))
