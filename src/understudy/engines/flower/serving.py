"""The site's end: fetches Flower's tasks one after another and answers them."""

import contextlib
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.engines.flower import wire
from understudy.engines.flower.fetching import Fetching, Withdrawn, fetch
from understudy.engines.flower.runtime import Door, Tasks, kept_alive
from understudy.errors import UserError
from understudy.federation.answering import answer
from understudy.federation.exchange import Request, failed
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.federation.site_log import SiteLog

if TYPE_CHECKING:
    from flwr.app import RecordDict
    from flwr.supercore.runtime import RuntimeHttpClient

Heard = Callable[[Request, str], None]  # a request, and what became of it


def serve(
    site: Site, method: Method, door: Door, *, going: Callable[[], bool], heard: Heard, largest: int = wire.LARGEST
) -> None:
    """While ``going`` says yes. Whatever comes in, an answer goes out."""
    import httpx
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor

    tasks = Tasks(door, "client")
    for token in tasks.coming(going):
        client = door.client("flwr-clientapp", RuntimeTokenHttpInterceptor(token))
        try:
            with contextlib.closing(client), kept_alive(client):
                _one(site, method, client, tasks.another, heard, largest)
        except (httpx.HTTPError, Withdrawn):
            pass  # nobody is waiting for it any more, or the node went down and the server asks again
        except Exception:  # an unforeseen kind of task must not end the site; error.txt has the details
            _note(site)


def _one(
    site: Site, method: Method, client: "RuntimeHttpClient", newer: Callable[[], bool], heard: Heard, largest: int
) -> None:
    from flwr.app import Message
    from flwr.common.serde import context_from_proto, message_from_proto
    from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullTaskInputRequest
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.supernode.runtime.run_clientapp import push_message, push_task_output

    given = client.PullTaskInput(PullTaskInputRequest())  # it also contains the run's program, which is not run
    context = context_from_proto(given.context)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, given.run.run_id, context.node_id
    patient = Fetching(client, newer)
    found = patient.PullMessages(PullAppMessagesRequest())
    announced, tree = message_from_proto(found.messages_list[0]), found.message_object_trees[0]
    announced.metadata.__dict__["_message_id"] = tree.object_id

    def content() -> "RecordDict":
        return fetch(patient, tree, node=context.node_id, run=context.run_id, largest=largest).content

    reply, told = _reply(site, method, announced.metadata.message_type, content, largest)
    push_message(client, Message(reply, reply_to=announced), context)
    push_task_output(client, context, "completed", "")
    if told is not None:
        heard(*told)


def _reply(
    site: Site, method: Method, kind: str, content: Callable[[], "RecordDict"], largest: int
) -> tuple["RecordDict", tuple[Request, str] | None]:
    """What is sent back, and what to report about it."""
    import httpx

    try:
        came = content()
        if kind == wire.HELLO:
            return wire.pack(site.name.encode(), b""), None
        request = wire.read_request(came, site=site.name, largest=largest)
        done = answer(site, method, request)
        return wire.pack_answer(done), (request, done.why or done.outcome)
    except (httpx.HTTPError, Withdrawn):
        raise
    except UserError as wrong:
        refusal = failed(site.name, str(wrong), outcome="refused", code="bad-request")
    except Exception as wrong:
        _note(site)
        why = f"its side raised {type(wrong).__name__}; its error.txt has the details"
        refusal = failed(site.name, why, outcome="refused", code="defect")
    with contextlib.suppress(OSError):
        SiteLog(site.folder).failure(None, refusal)
    return wire.pack_answer(refusal), None


def _note(site: Site) -> None:
    """Keeps what went wrong at the site."""
    with contextlib.suppress(OSError):
        (site.folder / "error.txt").write_text(traceback.format_exc())
