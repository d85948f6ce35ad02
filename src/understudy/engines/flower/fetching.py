"""Fetches a message part by part: no more of it than is allowed, and only while it can still be completed.

A server stopped in the middle of a round leaves messages behind that can no longer be fetched. Their tasks are handed
out all the same, and Flower would wait over an hour for the missing parts, deaf to the server that came back. A
SuperNode fetches one message after another, so once it has a newer task, the missing parts of this one are lost.
"""

import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from understudy.engines.flower.wire import LONGEST_HEADER
from understudy.errors import UserError

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.proto.message_pb2 import ObjectTree, PullObjectRequest, PullObjectResponse
    from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
    from flwr.supercore.runtime import RuntimeHttpClient

LONGEST_PART = 2 * LONGEST_HEADER  # bytes of a part read as text or fields; everything else is chunks of bytes


class Withdrawn(Exception):
    """Nobody is waiting for an answer to this message any more."""


class Fetching:
    """Flower's client of the Runtime API, with less patience."""

    def __init__(self, client: "RuntimeHttpClient", newer: Callable[[], bool]):
        self._client, self._newer = client, newer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def PullMessages(self, request: "PullAppMessagesRequest") -> "PullAppMessagesResponse":  # noqa: N802 Flower's name
        found = self._client.PullMessages(request)
        if not found.messages_list:
            raise Withdrawn
        return found

    def PullObject(self, request: "PullObjectRequest") -> "PullObjectResponse":  # noqa: N802 Flower's name
        part = self._client.PullObject(request)
        if part.object_found and not part.object_available and self._newer():
            part = self._client.PullObject(request)  # it may have come between the two checks
            if not part.object_available:
                raise Withdrawn
        if not part.object_found:
            raise Withdrawn
        return part


class TooLarge(UserError):
    """More bytes than are accepted."""

    def __init__(self, largest: int):
        super().__init__(f"A message of more than {largest} bytes came; that is the most accepted.")


class Counted:
    """Fetches parts of one message, up to a limit on bytes. Flower calls it from several threads."""

    def __init__(self, fetch_part: Callable[["PullObjectRequest"], "PullObjectResponse"], largest: int):
        self._fetch, self._largest = fetch_part, largest
        self._bytes, self._lock = 0, threading.Lock()

    def __call__(self, request: "PullObjectRequest") -> "PullObjectResponse":
        part = self._fetch(request)
        with self._lock:
            self._bytes += len(part.object_content)
            if self._bytes > self._largest + LONGEST_PART:
                raise TooLarge(self._largest)
        return part


def fetch(client: Any, tree: "ObjectTree", *, node: int, run: int, largest: int) -> "Message":
    """The message whose parts are named in ``tree``, with at most ``largest`` bytes in its arrays."""
    from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
    from flwr.proto.node_pb2 import Node
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
    from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
    from flwr.supercore.inflatable.inflatable_utils import pull_objects

    me = Node(node_id=node)
    received = ConfirmMessageReceivedRequest(node=me, run_id=run, message_object_id=tree.object_id)
    fetch_part = make_pull_object_fn_protobuf(Counted(client.PullObject, largest), me, run)
    try:
        parts = pull_objects([part.object_id for part in iterate_object_tree(tree)], fetch_part)
    except TooLarge:
        client.ConfirmMessageReceived(received)  # Flower deletes the parts
        raise
    client.ConfirmMessageReceived(received)
    return put_together(tree.object_id, parts, largest)


def put_together(name: str, parts: dict[str, bytes], largest: int) -> "Message":
    from flwr.app import Message
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    _check_whole(parts, largest)
    message = inflate_object_from_contents(name, parts)
    if not isinstance(message, Message):
        raise UserError("Something came that is not a message.")
    return message


def _check_whole(parts: Mapping[str, bytes], largest: int) -> None:
    """Before it takes up memory: a few bytes can become many.

    An array lists its chunks in order, and may list one a million times; parsed text takes many times its size.
    """
    from flwr.app import Array
    from flwr.supercore.inflatable.inflatable_object import get_object_body, get_object_head_values_from_object_content

    whole = 0
    for part in parts.values():
        kind, chunks, _ = get_object_head_values_from_object_content(part)
        if kind != "ArrayChunk" and len(part) > LONGEST_PART:
            raise TooLarge(LONGEST_PART)
        if kind == "Array":
            order = json.loads(get_object_body(part, Array))["arraychunk_ids"]
            whole += sum(len(parts[chunks[place]]) for place in order)
    if whole > largest + LONGEST_PART:
        raise TooLarge(largest)
