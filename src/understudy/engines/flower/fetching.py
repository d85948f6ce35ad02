"""A message is fetched from the SuperNode, or given up when it will never be whole.

A server that is stopped in the middle of a round leaves messages behind that nobody may fetch any more. Their tasks are
given out all the same, and Flower would wait for the missing parts for more than an hour, deaf to the server that came
back. A SuperNode fetches one message after another, so once it has a newer task, what is missing of this one is lost.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
    from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
    from flwr.supercore.runtime import RuntimeHttpClient


class Withdrawn(Exception):
    """Nobody waits for the answer to this message any more."""


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
            part = self._client.PullObject(request)  # it may have come between the two looks
            if not part.object_available:
                raise Withdrawn
        if not part.object_found:
            raise Withdrawn
        return part
