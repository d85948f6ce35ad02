"""Replies that are slow, broken or too large, and a SuperLink that is gone."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.task_identity import TaskIdentity

from understudy.engines.flower import wire
from understudy.engines.flower.fetching import LONGEST_PART, TooLarge, fetch
from understudy.engines.flower.grid import LinkGrid, retrying
from understudy.engines.flower.link import superlink
from understudy.engines.flower.runtime import Door
from understudy.errors import UserError

LARGEST = 10_000


class FakeLink:
    """Flower's Runtime API with replies that are announced at once; parts come when they are ``there``."""

    def __init__(self, **replies: RecordDict):
        self.announced, self.trees, self.parts = [], [], dict[str, bytes]()  # type: ignore[var-annotated]
        self.there, self.confirmed, self.fetched = threading.Event(), list[str](), 0
        self.slow: set[str] = set()
        for asked, content in replies.items():
            self._announce(asked, content)

    def _announce(self, asked: str, content: RecordDict) -> None:
        reply = Message(content, dst_node_id=1, message_type=wire.ASK)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        about = message_to_proto(remove_content_from_message(reply))
        about.metadata.reply_to_message_id = asked
        self.announced.append(about)
        self.trees.append(get_object_tree(reply))
        for name, part in get_all_nested_objects(reply).items():
            self.parts[name] = part.deflate()
            if asked == "slow":
                self.slow.add(name)

    def PullMessages(self, request: Any) -> Any:  # noqa: N802 Flower's name
        new = [(one, tree) for one, tree in zip(self.announced, self.trees, strict=True)]
        new = [pair for pair in new if pair[0].metadata.reply_to_message_id in request.message_ids]
        self.announced, self.trees = [], []
        return SimpleNamespace(messages_list=[a for a, _ in new], message_object_trees=[tree for _, tree in new])

    def PullObject(self, request: Any) -> Any:  # noqa: N802 Flower's name
        here = request.object_id not in self.slow or self.there.is_set()
        content = self.parts.get(request.object_id, b"") if here else b""
        self.fetched += len(content)
        found = request.object_id in self.parts
        return SimpleNamespace(object_found=found, object_available=here, object_content=content)

    def ConfirmMessageReceived(self, request: Any) -> None:  # noqa: N802 Flower's name
        self.confirmed.append(request.message_object_id)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _somebody() -> None:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def grid(link: FakeLink) -> LinkGrid:
    made = LinkGrid(Door(1, Path("secret")), "token", ended=lambda: False, largest=LARGEST)
    made._client = link  # type: ignore[assignment]
    return made


def pulled(made: LinkGrid, *asked: str, count: int) -> dict[str, Message]:
    found: dict[str, Message] = {}
    until = time.monotonic() + 30
    while len(found) < count and time.monotonic() < until:
        found |= {one.metadata.reply_to_message_id: one for one in made.pull_messages([*asked])}
        time.sleep(0.01)
    return found


def test_a_reply_that_is_slow_to_come_holds_up_no_other() -> None:
    link = FakeLink(slow=wire.pack(b"slow", b"s"), quick=wire.pack(b"quick", b"q"))
    made = grid(link)
    assert list(pulled(made, "slow", "quick", count=1)) == ["quick"]
    assert made.pull_messages(["slow"]) == []
    link.there.set()
    assert wire.unpack(pulled(made, "slow", count=1)["slow"].content, LARGEST) == (b"slow", b"s")
    assert len(link.confirmed) == 2


def test_a_reply_that_cannot_be_put_together_is_an_error_of_its_own() -> None:
    link = FakeLink(broken=wire.pack(b"broken", b"x" * 10), good=wire.pack(b"good", b"q"))
    link.parts.update({name: b"nonsense" for name, part in link.parts.items() if b"broken" in part})
    found = pulled(grid(link), "broken", "good", count=2)
    assert wire.unpack(found["good"].content, LARGEST) == (b"good", b"q")
    assert (found["broken"].error.code, "cannot be read" in str(found["broken"].error.reason)) == (
        wire.UNREADABLE,
        True,
    )


def test_a_reply_whose_parts_are_lost_is_asked_for_again() -> None:
    link = FakeLink(lost=wire.pack(b"lost", b""))
    link.parts.clear()
    assert pulled(grid(link), "lost", count=1)["lost"].error.code == 3


def test_whom_a_reply_answers_is_not_for_the_reply_to_say() -> None:
    link = FakeLink(asked=wire.pack(b"one", b""))  # its own metadata names nobody
    assert list(pulled(grid(link), "asked", count=1)) == ["asked"]


def test_no_more_is_fetched_than_is_taken() -> None:
    size = LARGEST + 3 * LONGEST_PART  # in chunks of 1 MB
    parts = {f"{place}": Array("uint8", (2**20,), wire.RAW, bytes([place]) * 2**20) for place in range(size // 2**20)}
    link = FakeLink(large=RecordDict({"body": ArrayRecord(parts)}))
    error = pulled(grid(link), "large", count=1)["large"].error
    assert (error.code, error.reason) == (
        wire.UNREADABLE,
        f"A message of more than {LARGEST} bytes came; that is the most accepted.",
    )
    assert link.fetched < size
    assert len(link.confirmed) == 1  # Flower need not keep it


def test_a_chunk_that_is_named_a_thousand_times_takes_no_memory() -> None:
    link = FakeLink(bomb=wire.pack(b"bomb", b"\0" * 5_000))
    (name, array), *_ = [(name, part) for name, part in link.parts.items() if part.startswith(b"Array ")]
    head, _, body = array.partition(b"\0")
    body = body.replace(b'"arraychunk_ids": [0]', b'"arraychunk_ids": [' + b",".join([b"0"] * 1_000) + b"]")
    link.parts[name] = head.rpartition(b" ")[0] + f" {len(body)}".encode() + b"\0" + body
    with pytest.raises(TooLarge):
        fetch(link, link.trees[0], node=1, run=1, largest=LARGEST)


def test_text_that_is_read_is_bounded_too() -> None:
    link = FakeLink(text=wire.pack(b" " * (LONGEST_PART + 1), b""))
    with pytest.raises(TooLarge):
        fetch(link, link.trees[0], node=1, run=1, largest=10 * LONGEST_PART)


class Failing:
    def __init__(self, *errors: Exception):
        self._errors: Iterator[Exception] = iter(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        for error in self._errors:
            raise error
        return "done"


def status(code: int) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError("no", request=httpx.Request("POST", "http://x"), response=httpx.Response(code))


def test_a_link_that_stutters_is_tried_again() -> None:
    call = Failing(httpx.ConnectError("x"), status(503), httpx.ReadTimeout("x"))
    assert (retrying(lambda: False).invoke(call), call.calls) == ("done", 4)


@pytest.mark.parametrize("code", [401, 403, 500])
def test_a_link_that_refuses_is_not_asked_again(code: int) -> None:
    call = Failing(status(code))
    with pytest.raises(httpx.HTTPStatusError):
        retrying(lambda: False).invoke(call)
    assert call.calls == 1


def test_a_link_that_is_gone_or_silent_for_too_long_is_given_up() -> None:
    with pytest.raises(httpx.ConnectError):
        retrying(lambda: True).invoke(Failing(httpx.ConnectError("x")))
    with pytest.raises(httpx.ConnectError):
        retrying(lambda: False, patience=0.1).invoke(Failing(*[httpx.ConnectError("x")] * 1_000))


def test_a_superlink_that_is_killed_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    def run() -> None:
        with superlink(tmp_path, None) as link, link.run() as opened:
            assert list(opened.get_nodes()) == []
            link.process.kill()
            opened.get_nodes()

    with pytest.raises(UserError, match=r"SuperLink ended \(-9\).*then run again with resume=True"):
        run()
