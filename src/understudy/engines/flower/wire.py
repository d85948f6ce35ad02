"""Our requests and answers inside Flower's messages: a JSON header, and the raw bytes of a Message."""

import json
from typing import TYPE_CHECKING, Any, get_args

from understudy.errors import UserError
from understudy.federation.exchange import Answer, Outcome, Request, failed
from understudy.federation.failures import may_travel, sentence
from understudy.printable import printable

if TYPE_CHECKING:
    from flwr.app import RecordDict

ASK = "query.understudy"  # the type of a Flower message that carries a request
HELLO = "query.hello"  # "who are you?", asked only of nodes without keys
LARGEST = 2**31  # bytes per message, by default
LONGEST_HEADER = 2**20
UNREADABLE = -1  # an error code that Flower does not use: its reason is a sentence of ours
RAW = "understudy.bytes"  # marks an Array as raw bytes


def pack(header: bytes, body: bytes) -> "RecordDict":
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    content = RecordDict({"header": ConfigRecord({"json": header})})
    content["body"] = ArrayRecord({"bytes": Array("uint8", (len(body),), RAW, body)})
    return content


def unpack(content: "RecordDict", largest: int) -> tuple[bytes, bytes]:
    """Header and body; a UserError for anything else."""
    from flwr.app import Array, ArrayRecord, ConfigRecord

    texts, arrays = content.get("header"), content.get("body")
    header = texts.get("json") if isinstance(texts, ConfigRecord) else None
    array = arrays.get("bytes") if isinstance(arrays, ArrayRecord) else None
    if not isinstance(header, bytes) or not isinstance(array, Array) or array.stype != RAW:
        raise UserError("A message came that is not from Understudy.")
    body = array.data
    if len(header) > LONGEST_HEADER or len(body) > largest:
        raise UserError(f"A message of {len(header) + len(body)} bytes came; at most {largest} are accepted.")
    return header, body


def pack_request(request: Request) -> "RecordDict":
    return pack(request.header(), request.body)


def read_request(content: "RecordDict", *, site: str, largest: int) -> Request:
    header, body = unpack(content, largest)
    try:
        request = Request.of(header, body)
    except RecursionError:
        raise UserError("A request came with a header that cannot be read.") from None
    for name, kind in Request.__annotations__.items():
        if type(getattr(request, name)) is not kind:
            raise UserError(f"A request came whose {name} is not a valid {kind.__name__}.")
    if request.client != site:
        raise UserError(f"A request for {printable(request.client)!r} came to {site}.")
    return request


def pack_answer(answer: Answer) -> "RecordDict":
    """The reason for a failure stays with the site, since it may reveal something about records; the code travels."""
    done = answer.outcome == "done"
    header = {key: value for key, value in answer.header().items() if key != "why"}
    header["code"] = "" if done else may_travel(answer.code)
    return pack(json.dumps(header).encode(), answer.read() if done else b"")


def read_answer(content: "RecordDict", *, client: str, largest: int) -> Answer:
    """What ``client`` answered, whatever the other end sent."""
    try:
        header, body = unpack(content, largest)
        said = _header(header)
    except UserError as wrong:
        return failed(client, str(wrong))
    if said["client"] != client:
        return failed(client, f"it answered in the name of {printable(said['client'])!r}")
    return Answer(**said, why="" if said["outcome"] == "done" else sentence(said["code"]), read=lambda: body)


def _header(text: bytes) -> dict[str, Any]:
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("its answer has a header that cannot be read") from None
    wanted = {"client": str, "outcome": str, "code": str, "version": str, "records_seen": bool, "charges": list}
    fits = isinstance(said, dict) and said.keys() == wanted.keys()
    if not fits or any(type(said[key]) is not kind for key, kind in wanted.items()):
        raise UserError("its answer has a header that does not fit")
    if said["outcome"] not in get_args(Outcome) or not all(isinstance(charge, dict) for charge in said["charges"]):
        raise UserError("its answer has a header that does not fit")
    return dict(said)


def read_name(content: "RecordDict") -> str:
    """The name in a reply to hello; empty if it says something else."""
    try:
        return printable(unpack(content, LONGEST_HEADER)[0].decode())
    except (UserError, ValueError):
        return ""
