"""A slot: one process somewhere on the cluster that answers for clients, one request after another."""

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from understudy.config.build import build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import remote_federation
from understudy.data.problem import Problem
from understudy.engines.cluster.folder_copy import FolderChange, FolderContent, change_of, content_of, lay_out
from understudy.engines.cluster.record_block import RecordArrays, RecordBlock
from understudy.federation.answering import answer
from understudy.federation.exchange import Request
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.heap import keep_freed_memory
from understudy.privacy.policy import Policy


@dataclass(frozen=True)
class RunOnNodes:
    """What a slot must know of a run, besides its records."""

    words: Mapping[str, Any]  # its config, as in its folder
    digest: str  # of the config, as requests name it
    places: Mapping[str, tuple[int, int, int]]  # see RecordBlock
    policy: Mapping[str, Any] | None
    home: str | None  # the folder of its clients, if nodes share the disk it is on
    working_folder: str | None  # likewise; own code is found from there


@dataclass(frozen=True)
class SlotAnswer:
    header: Mapping[str, Any]
    change: FolderChange
    seconds: float


class ClientSlot:
    """Ray makes an actor of it."""

    def __init__(self, run: RunOnNodes, arrays: RecordArrays):
        torch.set_num_threads(1)
        keep_freed_memory()
        if run.working_folder is not None:
            os.chdir(run.working_folder)
        self._run, self._records = run, RecordBlock(arrays, run.places)
        self._method = _built(run.words, list(run.places), pixels=arrays["x"].dtype == "uint8")

    def ready(self) -> bool:
        return True

    def answer(self, header: bytes, body: bytes, content: FolderContent) -> SlotAnswer:
        began, request = time.monotonic(), Request.of(header, body)
        if self._run.home is not None:
            given = answer(self._site(request.client, Path(self._run.home)), self._method, request)
            return SlotAnswer(given.header(), {}, time.monotonic() - began)
        with tempfile.TemporaryDirectory(prefix="understudy-slot-") as home:
            site = self._site(request.client, Path(home))
            lay_out(content, site.folder)
            given = answer(site, self._method, request)
            change = change_of(content, content_of(site.folder))
        return SlotAnswer(given.header(), change, time.monotonic() - began)

    def _site(self, client: str, home: Path) -> Site:
        run, method = self._run, self._method
        policy = None if run.policy is None else Policy(**run.policy)
        holding, common = self._records.holding(client), self._records.common()
        seed = int(run.words["seed"])
        return Site(client, holding, home / client, seed, run.digest, common, method.privacy, policy)


def _built(words: Mapping[str, Any], names: list[str], *, pixels: bool) -> Method:
    given: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in words["problem"].items()}
    problem = Problem(**given)
    data = remote_federation(problem, names, None, pixels=pixels)
    return build_method(resolve(dict(words), {}, Live(data=data)), data, words["model"]["fast"])
