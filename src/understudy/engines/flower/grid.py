"""Flower's Grid, without its endless waits.

A reply is announced before its bytes arrive. Each is fetched in its own thread, so that a site that sends slowly, or
went down while sending, delays nobody else; and what is wrong with one reply is reported for that reply only.
"""

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import httpx
from flwr.app import Error, Message, Metadata
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.retry import RetryInvoker, exponential
from flwr.superlink.grid import HttpGrid

from understudy.engines.flower import wire
from understudy.engines.flower.fetching import Fetching, Withdrawn, fetch
from understudy.engines.flower.runtime import Door
from understudy.errors import UserError

if TYPE_CHECKING:
    from flwr.proto.message_pb2 import ObjectTree

PATIENCE = 120.0  # seconds for which a running SuperLink may leave a call unanswered
LONGEST_WAIT = 5  # seconds between retries
TRY_AGAIN = (502, 503, 504)


class LinkGrid(HttpGrid):
    def __init__(self, door: Door, token: str, *, ended: Callable[[], bool], largest: int = wire.LARGEST):
        """``ended`` tells whether the SuperLink's process has ended."""
        certificates = None if door.ca is None else door.ca.read_bytes()
        super().__init__(door.address, door.ca is None, certificates, token=token)
        self._retry_invoker = retrying(ended)
        self._largest = largest
        self._coming: set[str] = set()  # messages whose replies are being fetched
        self._whole: dict[str, Message] = {}  # complete replies, by the message they reply to

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies that are complete by now; announced ones are fetched meanwhile."""
        asked = list(message_ids)
        wanted = [one for one in asked if one not in self._coming]
        if wanted:
            found = self._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=wanted))
            for announced, tree in zip(found.messages_list, found.message_object_trees, strict=True):
                about = message_from_proto(announced).metadata
                if about.reply_to_message_id in wanted:
                    self._coming.add(about.reply_to_message_id)
                    threading.Thread(target=self._fetch, args=(about, tree), name="reply", daemon=True).start()
        return [self._take(one) for one in asked if one in self._whole]

    def _take(self, message: str) -> Message:
        self._coming.discard(message)
        return self._whole.pop(message)

    def _fetch(self, about: Metadata, tree: "ObjectTree") -> None:
        """Which message it answers is taken from the SuperLink, which knows the sender's key, not from the reply."""
        try:
            client = Fetching(self._runtime_client, lambda: False)
            reply = fetch(client, tree, node=self.node.node_id, run=about.run_id, largest=self._largest)
            content, error = (None, reply.error) if reply.has_error() else (reply.content, None)
        except (ObjectPullError, Withdrawn, httpx.HTTPError) as lost:
            content, error = None, Error(ErrorCode.MESSAGE_UNAVAILABLE, f"its bytes did not arrive {lost}".strip())
        except UserError as wrong:
            content, error = None, Error(wire.UNREADABLE, str(wrong))
        except Exception as wrong:  # whatever one site sends, the others' replies count
            content, error = None, Error(wire.UNREADABLE, f"its reply cannot be read ({type(wrong).__name__})")
        self._whole[about.reply_to_message_id] = make_message(about, content, error)


def retrying(ended: Callable[[], bool], patience: float = PATIENCE) -> RetryInvoker:
    """Flower's own would retry forever, and end this process with Ctrl-C if the SuperLink refuses a call."""

    def give_up(error: Exception) -> bool:
        refused = isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in TRY_AGAIN
        return refused or ended()

    return RetryInvoker(
        wait_gen_factory=lambda: exponential(base_delay=0.2, max_delay=LONGEST_WAIT),
        recoverable_exceptions=httpx.HTTPError,
        max_tries=None,
        max_time=patience,
        should_giveup=give_up,
    )
