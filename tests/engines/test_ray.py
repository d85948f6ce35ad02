"""Clients on a Ray cluster: what travels to nodes without a shared disk, slots that die, and no room at all."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import contract_checks
import pytest
import torch

from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.engines.cluster.engine import TRIES, RayEngine
from understudy.engines.cluster.folder_copy import FolderContent, apply, change_of, content_of, lay_out
from understudy.engines.cluster.record_block import RecordBlock, block_of
from understudy.engines.cluster.session import Cluster
from understudy.engines.cluster.slot import ClientSlot, RunOnNodes, SlotAnswer
from understudy.errors import UserError
from understudy.federation.exchange import Engine
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.runs.play import built, play
from understudy.runs.rounds import Result


class Died(Exception):
    pass


class InProcess(Cluster):
    """Slots in this process, in folders of their own. ``dies``: how many slots die over each client's requests."""

    def __init__(self, run: RunOnNodes, block: RecordBlock, *, slots: int = 2, dies: dict[str, int] | None = None):
        self._on_nodes, self._block, self._left, self.dies = run, block, slots, dict(dies or {})
        self.shares_disk, self.deaths, self.started = False, (Died,), 0
        self.seen: list[tuple[str, FolderContent]] = []

    @property
    def needs(self) -> str:
        return "one CPU"

    def room(self) -> int:
        return self._left

    def start_slot(self) -> tuple[Any, Any]:
        self._left, self.started = self._left - 1, self.started + 1
        return ClientSlot(self._on_nodes, self._block.arrays), lambda: True

    def ask(self, actor: ClientSlot, header: bytes, body: Any, content: FolderContent) -> Any:
        def work() -> SlotAnswer:
            said = actor.answer(header, body, content)
            client = said.header["client"]
            self.seen.append((client, content))
            if self.dies.get(client, 0) > 0:
                self.dies[client] -= 1
                self._left += 1
                raise Died
            return said

        return work

    def place(self, data: bytes) -> Any:
        return data

    def done(self, slots: Sequence[Any], seconds: float) -> list[Any]:
        return [slots[-1]] if slots else []  # the last one asked is the first to answer

    def result(self, promise: Any) -> Any:
        return promise()

    def check_start(self, death: Exception) -> None:
        raise AssertionError(death)

    def end(self, actor: Any) -> None:
        pass


def run_on(tmp_path: Path, method: str, **how: Any) -> tuple[Result, InProcess]:
    """A run of the contract's four sites whose slots share no disk with it."""
    data = contract_checks.federation()
    words = {"model": "small-convnet", "method": {"name": method, "rounds": 3}, "engine": {"name": "inline"}}
    words["model"] = {"name": "small-convnet", "width": 4}
    config = resolve(words, {"method.local.epochs": 1, "method.local.batch": 4}, Live(data=data))
    made: list[InProcess] = []

    def opened(sites: Mapping[str, Site], bound: Method) -> AbstractContextManager[Engine]:
        block, first = block_of(sites), next(iter(sites.values()))
        _, written = built(config, data, None)
        run = RunOnNodes(written, first.config, block.places, None, None, None)
        made.append(InProcess(run, block, **how))
        return closing(RayEngine(sites, bound, made[0], patience=0.3))

    return play(config, tmp_path / "run", engine=opened), made[0]


def inline(tmp_path: Path, method: str) -> Result:
    data = contract_checks.federation()
    words = {"model": {"name": "small-convnet", "width": 4}, "method": {"name": method, "rounds": 3}}
    changes = {"method.local.epochs": 1, "method.local.batch": 4, "engine.name": "inline"}
    return play(resolve(words, changes, Live(data=data)), tmp_path / "inline")


def same_weights(a: Result, b: Result) -> bool:
    return all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_nodes_without_a_shared_disk_give_the_same_bits_as_one_process(method: str, tmp_path: Path) -> None:
    result, cluster = run_on(tmp_path, method)
    assert same_weights(result, inline(tmp_path, method))
    assert result.summary["bytes_up"] > 0
    remembered = [content for client, content in cluster.seen if client == "ash"][-1]
    assert any("memory" in path for path in remembered) == (method == "scaffold")


def test_a_slot_that_dies_is_replaced_and_its_request_repeated(tmp_path: Path) -> None:
    result, cluster = run_on(tmp_path, "scaffold", dies={"ash": TRIES - 1, "cedar": 1})
    assert same_weights(result, inline(tmp_path, "scaffold"))
    assert cluster.started == 2 + TRIES
    assert result.metrics[1]["workers_died"] == TRIES
    assert result.metrics[1]["failed"] == 0


def test_a_client_whose_slots_always_die_fails_alone(tmp_path: Path) -> None:
    result, _ = run_on(tmp_path, "fedavg", dies={"beech": 1000})
    assert [line["failed"] for line in result.metrics[1:]] == [1, 1, 1]
    assert result.metrics[1]["lost"] == ["beech"]
    assert "died 3 times over" in result.metrics[1]["failures"][0]["why"]


def test_without_room_for_a_single_slot_the_run_stops_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"No node of the Ray cluster has had room for a client \(one CPU\) for 0 s; add"
    ):
        run_on(tmp_path, "fedavg", slots=0)


def test_a_folder_arrives_as_it_was_and_only_what_changed_comes_back(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    lay_out({"charges.jsonl": b"a\n", "run/memory/r1s1": b"old", "run/reply-1": b"gone"}, here)
    (there / "left-over").mkdir(parents=True)
    before = content_of(here)
    lay_out(before, there)
    assert content_of(there) == before
    (there / "charges.jsonl").write_bytes(b"a\nb\n")
    (there / "run/reply-1").unlink()
    (there / "run/memory/r2s1").write_bytes(b"new")
    change = change_of(before, content_of(there))
    assert change == {"charges.jsonl": b"a\nb\n", "run/reply-1": None, "run/memory/r2s1": b"new"}
    apply(change, here)
    assert content_of(here) == content_of(there)


def test_records_come_out_of_the_block_as_they_went_in_and_may_be_written(tmp_path: Path) -> None:
    data = contract_checks.federation(held_out=0.3)
    sites = {name: Site(name, holding, tmp_path / name, 0, "", data.test) for name, holding in data.sites.items()}
    block = block_of(sites)
    for array in block.arrays.values():
        array.flags.writeable = False  # as Ray gives it out
    for name, holding in data.sites.items():
        found = block.holding(name)
        assert torch.equal(found.own.x, holding.own.x)
        assert torch.equal(found.held_out.y, holding.held_out.y)
        assert len(found.own) == len(holding.own)
        found.own.x.zero_()
    assert torch.equal(block.holding("beech").own.x, data.sites["beech"].own.x)
    assert data.test is not None
    common = block.common()
    assert common is not None
    assert torch.equal(common.x, data.test.x)
    assert block_of({name: replace(site, common=None) for name, site in sites.items()}).common() is None
