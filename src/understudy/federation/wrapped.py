"""A method wrapped by an add-on: whatever the add-on does not change is the inner method's."""

from types import FunctionType
from typing import Any

from understudy.federation.method import Job, Method, State, Together
from understudy.federation.server import Server
from understudy.models.network import Network


class WrappedMethod(Method):
    """Whatever else a method can be asked is passed on to the inner one: see below."""

    def __init__(self, inner: Method):
        self.inner = inner

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        self.inner.privacy, self.inner.spent_before = self.privacy, self.spent_before
        self.inner.bind(net, rounds)

    def seen(self, server: Server) -> Server:
        """The server as the inner method sees it."""
        return server

    def start(self, server: Server) -> State:
        return self.inner.start(self.seen(server))

    def round(self, server: Server, state: State) -> State:
        return self.inner.round(self.seen(server), state)

    def jobs(self) -> dict[str, Job]:
        return {**self.inner.jobs(), **super().jobs()}

    def together(self, task: str) -> Together | None:
        """What an add-on does to the inner method's tasks, a group would not do."""
        return None

    def why_one_by_one(self) -> str:
        return f"{type(self).__name__} is added to it, and works with one client at a time"


def _of_inner(name: str, kind: object) -> Any:
    if isinstance(kind, property):
        return property(lambda self: getattr(self.inner, name))
    return lambda self, *given: getattr(self.inner, name)(*given)


# Every question to a method but those answered above, and the task `score`, which `jobs` takes from the inner method.
for _name, _kind in vars(Method).items():
    if isinstance(_kind, FunctionType | property) and _name not in {*vars(WrappedMethod), "score"}:
        setattr(WrappedMethod, _name, _of_inner(_name, _kind))
