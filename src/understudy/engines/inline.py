"""Clients one after another, in this process."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from understudy.federation.answering import answer
from understudy.federation.exchange import Answer, Engine, Request
from understudy.federation.method import Method
from understudy.federation.site import Site


class SitesHere(Engine):
    """Sites whose folders are on this machine."""

    def __init__(self, sites: Mapping[str, Site], method: Method):
        self._sites, self._method = sites, method

    def settle(self, clients: Iterable[str]) -> None:
        for client in clients:
            self._sites[client].settle()


class Inline(SitesHere):
    """The place for several clients in one step would be here: requests come in the cohort's order, and each needs its
    own answer, as `answer` would give it."""

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        for request in requests:
            began = time.monotonic()
            given = answer(self._sites[request.client], self._method, request)
            yield replace(given, seconds=time.monotonic() - began)
