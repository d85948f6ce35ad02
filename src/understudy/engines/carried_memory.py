"""A client's memory, carried to the process that works for it and back.

In a simulation memories are in the RAM of the run (`federation.memories`). A process elsewhere gets the version that a
request starts from, and sends back what is new in the version that it made. A site that keeps its memory in its own
folder needs none of this.
"""

import json
from collections.abc import Sequence

from understudy.federation.exchange import Answer, Request
from understudy.federation.message import Message
from understudy.federation.site import Site


def memory_for(site: Site, request: Request) -> bytes:
    """Empty if there is none, or if the client itself knows where it is."""
    found = None if site.memories is None else site.memories.get(request.client, request.start)
    return b"" if found is None else found.to_bytes()


def begin_with(site: Site, request: Request, memory: bytes) -> None:
    """Where the work is done; what was there of other clients has been forgotten."""
    if memory and site.memories is not None:
        site.memories.put(request.client, request.start, Message.from_bytes(memory))


def parts_of(site: Site, request: Request, done: Answer) -> tuple[bytes, bytes, bytes]:
    """The header of the answer, the reply, and what is new in the client's memory."""
    if site.memories is None:
        return json.dumps({**done.header(), "unchanged": []}).encode(), done.read(), b""
    new, unchanged = b"", list[str]()
    found = site.memories.changes(site.name, done.version) if done.version != request.start else None
    if found is not None:
        new, unchanged = found[0].to_bytes(), list(found[1])
    said = {**done.header(), "repeatable": done.repeatable, "unchanged": unchanged}
    return json.dumps(said).encode(), done.read(), new


def remember(site: Site, request: Request, version: str, new: bytes, unchanged: Sequence[str]) -> None:
    if site.memories is not None and new:
        site.memories.put(request.client, version, Message.from_bytes(new), request.start, unchanged)
