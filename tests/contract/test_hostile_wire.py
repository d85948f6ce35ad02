"""The same over the wire: Flower's messages between a server and sites of which one sends what it likes."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from contract_checks import Case
from hostile import VICTIM, as_json, check_only_the_victim_failed
from test_contract import CASES
from test_hostile_answers import BODIES
from test_hostile_replies import REPLIES, rounds_of

pytest.importorskip("flwr")
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, RecordDict
from flwr.app import Message as Envelope
from flwr.supercore.task_identity import TaskIdentity

from understudy.engines.flower import engine as flower_engine
from understudy.engines.flower import serving, wire
from understudy.engines.flower.engine import Flower
from understudy.federation.exchange import Engine, Request
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.runs.play import play
from understudy.runs.rounds import RunResult

Sent = Callable[[Request, RecordDict], RecordDict | Error]  # what the victim sends in place of its answer


class Nodes:
    """A Grid whose nodes answer at once, through both ends of the wire."""

    def __init__(self, sites: Mapping[str, Site], method: Method, sent: Sent):
        self._sites, self._method, self._sent = dict(enumerate(sites.values(), start=1)), method, sent
        self._replies: dict[str, Envelope] = {}
        self._number = itertools.count()

    def get_nodes(self) -> list[Any]:
        return [
            SimpleNamespace(node_id=node, name=site.name, last_activated_at="") for node, site in self._sites.items()
        ]

    def push_messages(self, messages: Iterable[Envelope]) -> list[str]:
        return [self._answered(message) for message in messages]

    def _answered(self, message: Envelope) -> str:
        own, site = f"m{next(self._number)}", self._sites[message.metadata.dst_node_id]
        message.metadata.__dict__["_message_id"] = own
        content: RecordDict | Error
        content, _ = serving._reply(site, self._method, wire.ASK, lambda: message.content, 10**7)
        if site.name == VICTIM:
            content = self._sent(wire.read_request(message.content, site=VICTIM, largest=10**7), content)
        reply = Envelope(content, reply_to=message)
        reply.metadata.__dict__["_reply_to_message_id"] = own
        self._replies[own] = reply
        return own

    def pull_messages(self, ids: Iterable[str]) -> list[Envelope]:
        """Each of them twice: a reply that comes again counts for nothing."""
        found = [self._replies.pop(one) for one in ids if one in self._replies]
        return [*found, *found]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower_engine, "POLL", 0.001)
    monkeypatch.setattr(flower_engine, "LOOK_AROUND", 0.0)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def played(case: Case, folder: Path, sent: Sent, rounds: int = 1) -> RunResult:
    @contextmanager
    def opened(sites: Mapping[str, Site], method: Method) -> Iterator[Engine]:
        yield Flower(Nodes(sites, method, sent), folder / "spool", timeout=60)  # type: ignore[arg-type]

    return play(case.config(case.federation(), rounds=rounds), folder / "run", engine=opened)


def body_of(content: RecordDict) -> Message:
    return Message.from_bytes(wire.unpack(content, 10**7)[1])


def saying(content: RecordDict, **fields: Any) -> RecordDict:
    header, body = wire.unpack(content, 10**7)
    return wire.pack(json.dumps({**json.loads(header), **fields}).encode(), body)


def with_body(content: RecordDict, body: bytes) -> RecordDict:
    return wire.pack(wire.unpack(content, 10**7)[0], body)


def strange_array(content: RecordDict) -> RecordDict:
    content["body"] = ArrayRecord({"bytes": Array("float32", (2**40,), "numpy.ndarray", b"\x93NUMPY")})
    return content


ANSWERS: dict[str, Callable[[RecordDict], RecordDict | Error]] = {
    "nothing": lambda content: RecordDict(),
    "other records": lambda content: RecordDict({"header": ArrayRecord(), "body": ConfigRecord()}),
    "an array of another kind": strange_array,
    "a header without end": lambda content: wire.pack(b"[" * 100_000, b""),
    "another name": lambda content: saying(content, client="ash"),
    "an outcome that is none": lambda content: saying(content, outcome="\x1b[2J"),
    "a code that is none": lambda content: saying(content, outcome="failed", code="\x1b[2J" * 1000),
    "another version": lambda content: saying(content, version="../../elsewhere"),
    "charges": lambda content: saying(content, charges=[{"noise": 1e400, "steps": 10**400}] * 3),
    "two thousand charges": lambda content: saying(content, charges=[{"noise": at} for at in range(2000)]),
    "an undeclared part": lambda content: with_body(content, body_of(content).but(more=torch.zeros(2)).to_bytes()),
    "a shape beyond all bounds": lambda content: with_body(content, BODIES["shape beyond int64"]),
    "a name that clears the screen": lambda content: with_body(content, BODIES["a name that clears the screen"]),
    "no body": lambda content: with_body(content, b""),
    "an error of Flower's": lambda content: Error(2, "\x1b[2J" * 100),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_whatever_comes_over_the_wire_is_the_failure_of_its_sender(name: str, tmp_path: Path) -> None:
    result = played(CASES["fedavg"], tmp_path, lambda _, content: ANSWERS[name](content))
    assert [failure["client"] for failure in result.metrics[1]["failures"]] == [VICTIM]
    check_only_the_victim_failed(result, 1, others=3)
    as_json(result)


def test_charges_of_an_earlier_round_that_come_again_are_a_failure(tmp_path: Path) -> None:
    kept: list[RecordDict] = []

    def replays(_: Request, content: RecordDict) -> RecordDict:
        kept.append(content)
        return kept[0]

    result = played(CASES["dp-fedavg"], tmp_path, replays, rounds=2)
    assert result.metrics[1]["failures"] == []
    assert "a privacy charge that does not belong to this ask" in result.metrics[2]["failures"][0]["why"]
    check_only_the_victim_failed(result, 2, others=3)


@pytest.mark.parametrize("name", ["feddm", "fedlap", "fedavg+fedssyn"])
def test_labels_out_of_range_are_refused_over_the_wire(name: str, tmp_path: Path) -> None:
    def mislabelled(_: Request, content: RecordDict) -> RecordDict:
        reply = body_of(content)
        if "y" not in reply:
            return content
        return with_body(content, reply.but(y=torch.full_like(reply["y"], 200)).to_bytes())

    result = played(REPLIES[name], tmp_path, mislabelled)
    round = 0 if "fedssyn" in name else 1
    assert "its labels run from 200 to 200" in result.metrics[round]["failures"][0]["why"]
    check_only_the_victim_failed(result, round, others=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLIES)
def test_a_part_that_can_never_be_is_refused_over_the_wire_whatever_the_method(name: str, tmp_path: Path) -> None:
    turns = itertools.count()

    def spoils(request: Request, content: RecordDict) -> RecordDict:
        reply = body_of(content)
        if not len(reply) or request.task == "Method.score":
            return content
        part = [*reply][next(turns) % len(reply)]
        return with_body(content, reply.but({part: torch.full((7, 7), torch.inf)}).to_bytes())

    result = played(REPLIES[name], tmp_path, spoils, rounds=rounds_of(name))
    assert next(turns) > 0
    failures = [failure for line in result.metrics for failure in line["failures"]]
    assert {failure["client"] for failure in failures} == {VICTIM}
    assert result.summary["finished"]
    as_json(result)
