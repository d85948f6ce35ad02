"""A slot: one process somewhere on the cluster that answers for clients, one request after another."""

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.config.build import build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import remote_federation
from understudy.data.problem import Problem
from understudy.engines.carried_memory import begin_with, parts_of
from understudy.engines.cluster.folder_copy import FolderChange, FolderContent, change_of, content_of, lay_out
from understudy.engines.cluster.record_block import RecordArrays, RecordBlock
from understudy.federation.answering import answer
from understudy.federation.exchange import Request
from understudy.federation.memories import Memories
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.heap import keep_freed_memory
from understudy.privacy.policy import Policy
from understudy.threads import REPEATABLE


@dataclass(frozen=True)
class RunOnNodes:
    """What a slot must know of a run, besides its records."""

    words: Mapping[str, Any]  # its config, as in its folder
    digest: str  # of the config, as requests name it
    places: Mapping[str, tuple[int, int, int]]  # see RecordBlock
    policy: Mapping[str, Any] | None
    in_memory: bool  # clients' memories are in the run's RAM; else in their folders
    home: str | None  # the folder of its clients, if nodes share the disk it is on
    working_folder: str | None  # likewise; own code is found from there


@dataclass(frozen=True)
class SlotAnswer:
    header: bytes  # of the answer, in JSON
    reply: bytes
    memory: bytes  # what is new in it
    change: FolderChange  # of the client's folder, if it was sent
    seconds: float


class ClientSlot:
    """Ray makes an actor of it."""

    def __init__(self, run: RunOnNodes, arrays: RecordArrays):
        REPEATABLE.begin()
        keep_freed_memory()
        if run.working_folder is not None:
            os.chdir(run.working_folder)
        self._run, self._records = run, RecordBlock(arrays, run.places)
        self._method = _built(run.words, list(run.places))

    def ready(self) -> bool:
        return True

    def answer(self, header: bytes, body: bytes, memory: bytes, content: FolderContent) -> SlotAnswer:
        began, request = time.monotonic(), Request.of(header, body)
        if self._run.home is not None:
            parts = self._parts(self._site(request.client, Path(self._run.home)), request, memory)
            return SlotAnswer(*parts, {}, time.monotonic() - began)
        with tempfile.TemporaryDirectory(prefix="understudy-slot-") as home:
            site = self._site(request.client, Path(home))
            lay_out(content, site.folder)
            parts = self._parts(site, request, memory)
            change = change_of(content, content_of(site.folder))
        return SlotAnswer(*parts, change, time.monotonic() - began)

    def _parts(self, site: Site, request: Request, memory: bytes) -> tuple[bytes, bytes, bytes]:
        begin_with(site, request, memory)
        return parts_of(site, request, answer(site, self._method, request))

    def _site(self, client: str, home: Path) -> Site:
        run, method = self._run, self._method
        return Site(
            client,
            self._records.holding(client),
            home / client,
            int(run.words["seed"]),
            run.digest,
            self._records.common(),
            method.privacy,
            None if run.policy is None else Policy(**run.policy),
            memories=Memories(home) if run.in_memory else None,
        )


def _built(words: Mapping[str, Any], names: list[str]) -> Method:
    data = remote_federation(Problem.from_words(words["problem"]), names, None)
    return build_method(resolve(dict(words), {}, Live(data=data)), data, words["model"]["fast"], at_site=True)
