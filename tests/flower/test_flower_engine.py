"""The server's loop over a Grid, with a grid whose nodes do as the test says."""

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from understudy.engines.flower import engine as flower_engine
from understudy.engines.flower import wire
from understudy.engines.flower.engine import Flower
from understudy.errors import UserError
from understudy.federation.exchange import Answer, Request, failed

Behaviour = Callable[["FakeGrid", Message], Message | None]


@dataclass
class FakeGrid:
    """Nodes by id, each with a name and a behaviour; nothing takes time but what a behaviour holds back."""

    names: dict[int, str]
    behave: dict[str, Behaviour]
    sent: list[tuple[int, str]] = field(default_factory=list)
    replies: dict[str, Message] = field(default_factory=dict)
    number: Iterator[int] = field(default_factory=itertools.count)

    def get_nodes(self) -> list[Any]:
        return [
            SimpleNamespace(node_id=node, name=name, last_activated_at=f"{node:05d}")
            for node, name in self.names.items()
        ]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            own = f"m{next(self.number)}"
            message.metadata.__dict__["_message_id"] = own
            node = message.metadata.dst_node_id
            self.sent.append((node, message.metadata.message_type))
            reply = self.behave[self.names[node]](self, message)
            if reply is not None:
                self.replies[own] = reply
            ids.append(own)
        return ids

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        return [self.replies.pop(one) for one in list(ids) if one in self.replies]


def _to(message: Message, **content: Any) -> Message:
    made = Message(*content.values(), reply_to=message)
    made.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
    return made


def good(_: FakeGrid, message: Message) -> Message:
    fields, body = wire.unpack(message.content, 10**6)
    client = Request.of(fields, body).client
    return _to(message, content=wire.pack_answer(Answer(client, "done", "", "v", lambda: b"from " + client.encode())))


def silent(*_: object) -> None:
    return None


def broken(code: int, times: int) -> Behaviour:
    left = [times]

    def behave(grid: FakeGrid, message: Message) -> Message:
        left[0] -= 1
        return good(grid, message) if left[0] < 0 else _to(message, error=Error(code, "went down"))

    return behave


def request(client: str, round: int = 1) -> Request:
    return Request("run", "digest", client, "work", round, 1, "", "", False, b"brief")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower_engine, "POLL", 0.005)
    monkeypatch.setattr(flower_engine, "LOOK_AROUND", 0.01)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def make(tmp_path: Path, grid: FakeGrid, timeout: float = 0.3, **more: Any) -> Flower:
    return Flower(grid, tmp_path, timeout, **more)  # type: ignore[arg-type]


def outcomes(engine: Flower, *clients: str, round: int = 1) -> dict[str, str]:
    return {a.client: a.why or a.read().decode() for a in engine.exchange([request(one, round) for one in clients])}


def test_answers_come_in_the_order_of_the_requests(tmp_path: Path) -> None:
    grid = FakeGrid({7: "a", 3: "b", 5: "c"}, {"a": good, "b": good, "c": good})
    assert list(outcomes(make(tmp_path, grid), "c", "a", "b").items()) == [
        ("c", "from c"),
        ("a", "from a"),
        ("b", "from b"),
    ]


def test_who_does_not_answer_in_time_is_given_up_and_the_others_count(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a", 2: "b"}, {"a": good, "b": silent})
    assert outcomes(make(tmp_path, grid), "a", "b") == {"a": "from a", "b": "it did not answer within 0 s"}


def test_an_answer_that_comes_too_late_is_heard_of_and_counts_for_nothing(tmp_path: Path) -> None:
    """Its bytes have left the site."""
    grid = FakeGrid({1: "a", 2: "b"}, {"a": good, "b": silent})
    engine, late = make(tmp_path, grid, 0.1), []
    engine.late = lambda request, answer: late.append((request.client, request.round, answer.read()))
    asked: list[Message] = []
    grid.behave["b"] = lambda _, message: asked.append(message)
    outcomes(engine, "a", "b")
    grid.replies[asked[0].metadata.message_id] = good(grid, asked[0])
    grid.behave["b"] = good
    assert outcomes(engine, "a", "b", round=2) == {"a": "from a", "b": "from b"}
    assert late == [("b", 1, b"from b")]


def test_an_answer_that_is_there_when_time_is_over_counts(tmp_path: Path) -> None:
    class Slow(FakeGrid):
        def pull_messages(self, ids: Iterable[str]) -> list[Message]:
            time.sleep(0.1)
            return super().pull_messages(ids)

    grid = Slow({1: "a", 2: "b"}, {"a": good, "b": silent})
    assert outcomes(make(tmp_path, grid, 0.05), "a", "b") == {"a": "from a", "b": "it did not answer within 0 s"}


@pytest.mark.parametrize("header", [b"[" * 100_000, b"\xff", b"null"])
def test_a_strange_answer_is_that_sites_alone(tmp_path: Path, header: bytes) -> None:
    grid = FakeGrid({1: "a", 2: "b"}, {"a": lambda _, m: _to(m, content=wire.pack(header, b"")), "b": good})
    told = outcomes(make(tmp_path, grid, 5), "a", "b")
    assert (told["b"], "its answer has a header" in told["a"]) == ("from b", True)


def test_whatever_reading_an_answer_raises_it_is_that_sites_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = wire.read_answer

    def raising(content: Any, *, client: str, largest: int) -> Answer:
        if client == "a":
            raise ZeroDivisionError
        return read(content, client=client, largest=largest)

    monkeypatch.setattr(wire, "read_answer", raising)
    grid = FakeGrid({1: "a", 2: "b"}, {"a": good, "b": good})
    told = {"a": "its answer cannot be read (ZeroDivisionError)", "b": "from b"}
    assert outcomes(make(tmp_path, grid, 5), "a", "b") == told


def test_words_of_a_site_do_not_steer_the_terminal(tmp_path: Path) -> None:
    def rude(_: FakeGrid, message: Message) -> Message:
        header = {**failed("a", "no", code="\x1b[2Jno\n" + 1000 * "!").header()}
        del header["why"]
        return _to(message, content=wire.pack(json.dumps(header).encode(), b""))

    (why,) = outcomes(make(tmp_path, FakeGrid({1: "a"}, {"a": rude}), 5), "a").values()
    assert why == "it failed with a code unknown to this server"


def test_what_was_read_is_not_kept(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a", 2: "b"}, {"a": good, "b": good})
    outcomes(make(tmp_path, grid), "a", "b")
    assert list(tmp_path.iterdir()) == []


def test_who_is_away_is_named_so(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a"}, {"a": good})
    assert outcomes(make(tmp_path, grid), "a", "b")["b"] == "it was offline"


def test_who_comes_late_to_the_exchange_is_still_asked(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a"}, {"a": good, "b": good})
    looks = itertools.count()

    class Filling(FakeGrid):
        def get_nodes(self) -> list[Any]:
            if next(looks) == 3:
                self.names[2] = "b"
            return super().get_nodes()

    assert outcomes(make(tmp_path, Filling(grid.names, grid.behave), 5), "a", "b")["b"] == "from b"


@pytest.mark.parametrize("code", [3, 5, 8])
def test_a_node_that_went_down_is_asked_again(tmp_path: Path, code: int) -> None:
    grid = FakeGrid({1: "a"}, {"a": broken(code, times=2)})
    assert outcomes(make(tmp_path, grid, 5), "a") == {"a": "from a"}
    assert len(grid.sent) == 3


def test_a_request_that_takes_every_process_down_is_given_up(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a"}, {"a": broken(8, times=99)})
    assert "Flower's code 8: went down" in outcomes(make(tmp_path, grid, 5), "a")["a"]
    assert len(grid.sent) == flower_engine.TRIES


def test_an_exception_at_the_other_end_is_not_repeated(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a"}, {"a": broken(2, times=1)})
    assert "Flower's code 2" in outcomes(make(tmp_path, grid, 5), "a")["a"]
    assert len(grid.sent) == 1


def test_a_site_that_came_back_as_another_node_is_asked_there(tmp_path: Path) -> None:
    answers: list[Behaviour] = [silent, good]
    grid = FakeGrid({1: "a"}, {"a": lambda grid, message: answers.pop(0)(grid, message)})
    looks = itertools.count()

    class Returning(FakeGrid):
        def get_nodes(self) -> list[Any]:
            if next(looks) == 3:
                self.names[2] = "a"  # the old node lingers
            return super().get_nodes()

    there = Returning(grid.names, grid.behave)
    assert outcomes(make(tmp_path, there, 5), "a") == {"a": "from a"}
    assert [node for node, _ in there.sent] == [1, 2]


def test_who_still_owes_an_answer_is_waited_for_only_as_long_as_others(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a", 2: "b"}, {"a": good, "b": silent})
    engine = make(tmp_path, grid, 0.3)
    outcomes(engine, "a", "b")
    engine.timeout = 60  # would be long
    assert outcomes(engine, "a", "b", round=2)["b"] == "it is busy with an earlier request"


def test_a_late_answer_pays_the_debt(tmp_path: Path) -> None:
    held: list[Message] = []

    def late(_: FakeGrid, message: Message) -> Message | None:
        held.append(message)
        return None

    grid = FakeGrid({1: "a", 2: "b"}, {"a": good, "b": late})
    engine = make(tmp_path, grid, 0.3)
    outcomes(engine, "a", "b")
    grid.replies[held[0].metadata.message_id] = good(grid, held[0])
    outcomes(engine, "a", round=2)
    grid.behave["b"] = good
    assert outcomes(engine, "a", "b", round=3)["b"] == "from b"
    assert engine._owing == {}


def named(name: str) -> Behaviour:
    def behave(grid: FakeGrid, message: Message) -> Message:
        if message.metadata.message_type == wire.HELLO:
            return _to(message, content=wire.pack(name.encode(), b""))
        return good(grid, message)

    return behave


def test_without_keys_nodes_say_who_they_are(tmp_path: Path) -> None:
    grid = FakeGrid({1: "x", 2: "y"}, {"x": named("a"), "y": named("b")})
    assert outcomes(make(tmp_path, grid, 5, insecure=True), "b", "a") == {"a": "from a", "b": "from b"}


@pytest.mark.parametrize("hello", [RecordDict(), wire.pack(b"\xff", b"")])
def test_who_says_a_strange_hello_or_none_holds_up_nobody(tmp_path: Path, hello: RecordDict) -> None:
    strange: Behaviour = lambda _, message: _to(message, content=hello)  # noqa: E731
    grid = FakeGrid({1: "x", 2: "y", 3: "z"}, {"x": strange, "y": silent, "z": named("a")})
    began = time.monotonic()
    assert outcomes(make(tmp_path, grid, 5, insecure=True), "a") == {"a": "from a"}
    assert time.monotonic() - began < 5
    assert grid.sent.count((2, wire.HELLO)) == 1


def test_more_clients_than_fit_the_window_are_all_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower_engine, "WINDOW", 2)
    names = {node: f"c{node}" for node in range(7)}
    grid = FakeGrid(names, dict.fromkeys(names.values(), good))
    assert list(outcomes(make(tmp_path, grid, 5), *names.values())) == list(names.values())


def test_a_link_that_is_gone_ends_the_exchange(tmp_path: Path) -> None:
    def gone() -> None:
        raise UserError("Flower's SuperLink ended.")

    grid = FakeGrid({1: "a"}, {"a": silent})
    with pytest.raises(UserError, match="SuperLink ended"):
        outcomes(make(tmp_path, grid, 60, check=gone), "a")


def test_it_waits_for_everybody_and_names_who_is_missing(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a"}, {"a": good})
    told: list[list[str]] = []

    def heard(missing: list[str]) -> None:
        told.append(missing)
        grid.names[2] = "b"

    make(tmp_path, grid, 60).wait_for(["a", "b"], heard)
    assert told == [["b"]]


def test_who_looks_on_is_told_who_is_online_and_whose_answer_is_awaited(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a", 2: "b"}, {"a": silent, "b": good})
    told: list[tuple[list[str], list[str]]] = []

    def attends(there: Iterable[str], awaited: Iterable[str]) -> None:
        told.append((sorted(there), sorted(awaited)))

    engine = make(tmp_path, grid, 0.1, attends=attends)
    assert outcomes(engine, "a", "b", "c")["b"] == "from b"
    assert (["a", "b"], ["a", "c"]) in told, "b has answered, though a is before it in the order"
    told.clear()
    grid.names[3], grid.behave["c"] = "c", good
    engine.wait_for(["a", "c", "d"], lambda missing: None, enough=2)
    assert (["a", "b", "c"], []) in told


def test_after_the_time_for_an_answer_a_quorum_will_do(tmp_path: Path) -> None:
    grid = FakeGrid({1: "a"}, {"a": good})
    make(tmp_path, grid, 0.05).wait_for(["a", "b"], lambda missing: None, enough=1)
