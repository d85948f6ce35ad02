"""Clients one after another, or in groups, in this process."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from understudy.federation.answering import answer
from understudy.federation.exchange import Answer, Engine, Request
from understudy.federation.group_answering import answer_together
from understudy.federation.method import Method, Together
from understudy.federation.site import Site


class SitesHere(Engine):
    """Sites whose folders are on this machine. ``together``: how many of them train as one program, if the method can
    do that; groups follow the order of the requests, so they are the same wherever they run."""

    def __init__(self, sites: Mapping[str, Site], method: Method, together: int = 1):
        self._sites, self._method, self._size = sites, method, together
        self._programs: dict[str, Together | None] = {}

    def settle(self, clients: Iterable[str]) -> None:
        for client in clients:
            self._sites[client].settle()

    def site(self, client: str) -> Site:
        return self._sites[client]

    def groups(self, requests: Iterable[Request]) -> Iterator[tuple[Request, ...]]:
        """All requests of an ask have one task."""
        waiting: list[Request] = []
        for request in requests:
            waiting.append(request)
            if len(waiting) == self._size or self.program(request.task) is None:
                yield tuple(waiting)
                waiting = []
        if waiting:
            yield tuple(waiting)

    def program(self, task: str) -> Together | None:
        """How a group does this task; None: its clients do it one by one."""
        if self._size == 1:
            return None
        if task not in self._programs:
            self._programs[task] = self._method.together(task)
        return self._programs[task]

    def answers(self, group: Sequence[Request]) -> list[Answer]:
        program = self.program(group[0].task)
        if program is None:
            return [answer(self._sites[request.client], self._method, request) for request in group]
        return answer_together(self._sites, self._method, program, group)


class Inline(SitesHere):
    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        for group in self.groups(requests):
            began = time.monotonic()
            given = self.answers(group)
            share = (time.monotonic() - began) / len(group)  # nobody can tell whose the time of a group was
            yield from (one.after(share) for one in given)
