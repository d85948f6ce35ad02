"""Examples that each client sends once, when it is first asked, and that stay in State; a model learns from all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from understudy.federation.message import Message
from understudy.federation.method import State
from understudy.federation.server import Reply, Server, Task
from understudy.methods.shared.outliers import learnt_from
from understudy.methods.shared.pooled import accepted


@dataclass(frozen=True)
class SentOnce:
    prefix: str  # of the names in State: the prefix, a client's name, and .x or .y

    def ask_new(self, server: Server, state: State, task: Task, fault: Callable[[Reply], str | None]) -> list[Reply]:
        """Replies of clients that have sent nothing yet; those with a fault are refused."""
        new = [client for client in server.cohort() if f"{self.prefix}{client}.y" not in state]
        # Once some clients have answered, a round no longer depends on those that never send anything usable.
        enough = 0 if any(part.startswith(self.prefix) for part in state) else None
        return list(accepted(server.ask(task, Message(), to=new, at_least=enough), fault)) if new else []

    def parts(self, replies: Sequence[Reply]) -> dict[str, Tensor]:
        """As they are kept in State."""
        return {f"{self.prefix}{reply.client}.{part}": reply[part] for reply in replies for part in ("x", "y")}

    def kept(self, state: State, clients: Sequence[str]) -> list[Message]:
        """What those of the clients that have answered sent, ``x`` and ``y``, in order."""
        heard = [f"{self.prefix}{client}" for client in clients if f"{self.prefix}{client}.y" in state]
        return [Message(x=state[f"{name}.x"], y=state[f"{name}.y"]) for name in heard]

    def learnt(
        self, server: Server, state: State, replies: Sequence[Reply], learn: Callable[[Sequence[Message]], Tensor]
    ) -> State:
        """With what is new, and the model that ``learn`` makes of all that was ever sent; the old one if nothing is."""
        if not any(len(reply["y"]) for reply in replies):
            return state.but(self.parts(replies))

        def with_some(some: Sequence[Reply]) -> Message:
            kept = self.parts(some)
            return Message(kept, model=learn(self.kept(state.but(kept), server.clients)))

        return state.but(learnt_from(replies, with_some))
