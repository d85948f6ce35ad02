"""The site's end: takes Flower's tasks one after another and answers them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from understudy.engines.flower import wire
from understudy.engines.flower.fetching import Fetching, Withdrawn
from understudy.engines.flower.runtime import Door, Tasks, kept_alive
from understudy.errors import UserError
from understudy.federation.exchange import Request
from understudy.federation.method import Method
from understudy.federation.site import Site, answer

if TYPE_CHECKING:
    from flwr.app import Message, RecordDict
    from flwr.supercore.runtime import RuntimeHttpClient

Heard = Callable[[Request, str], None]  # a request, and what became of it


def serve(
    site: Site, method: Method, door: Door, *, going: Callable[[], bool], heard: Heard, largest: int = wire.LARGEST
) -> None:
    """Until ``going`` says no. Whatever comes in, an answer goes out."""
    tasks = Tasks(door, "client")
    for token in tasks.coming(going):
        _one(site, method, door.client("flwr-clientapp", _opened_by(token)), tasks.another, heard, largest)


def _opened_by(token: str) -> object:
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor

    return RuntimeTokenHttpInterceptor(token)


def _one(
    site: Site, method: Method, client: "RuntimeHttpClient", newer: Callable[[], bool], heard: Heard, largest: int
) -> None:
    import httpx
    from flwr.app import Message
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

    with contextlib.suppress(httpx.HTTPError, Withdrawn), _closing(client), kept_alive(client):
        # The fourth is the run's program, which is not run.
        message, context, _, _ = pull_task_input(Fetching(client, newer))  # type: ignore[arg-type]
        push_message(client, Message(_reply(site, method, message, heard, largest), reply_to=message), context)
        push_task_output(client, context, "completed", "")


@contextlib.contextmanager
def _closing(client: object) -> Iterator[None]:
    try:
        yield
    finally:
        client.close()  # type: ignore[attr-defined]


def _reply(site: Site, method: Method, message: "Message", heard: Heard, largest: int) -> "RecordDict":
    if message.metadata.message_type == wire.HELLO:
        return wire.pack(site.name.encode(), b"")
    try:
        request = wire.read_request(message.content, site=site.name, largest=largest)
    except UserError as wrong:
        return wire.pack_answer(wire.refusal(site.name, str(wrong)))
    done = answer(site, method, request)
    heard(request, done.why or done.outcome)
    return wire.pack_answer(done)
