"""What travels, and what is refused at either end."""

import json

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from understudy.engines.flower import wire
from understudy.errors import UserError
from understudy.federation.exchange import Answer, Request, failed
from understudy.printable import printable

REQUEST = Request("run", "digest", "ash", "Averaging.train", 3, 1, "", "", True, b"body of the brief")
ANSWER = Answer("ash", "done", "", "r3s1", lambda: b"body of the reply", [{"steps": 4}])


def test_a_request_arrives_as_it_was_sent() -> None:
    assert wire.read_request(wire.pack_request(REQUEST), site="ash", largest=100) == REQUEST


def test_the_body_is_the_message_and_nothing_else() -> None:
    content = wire.pack_request(REQUEST)
    array = content["body"]["bytes"]
    assert isinstance(array, Array)
    assert array.data == REQUEST.body


def test_an_answer_arrives_as_it_was_sent() -> None:
    answer = wire.read_answer(wire.pack_answer(ANSWER), client="ash", largest=100)
    assert (answer.header(), answer.read()) == (ANSWER.header(), b"body of the reply")


def test_a_failure_brings_its_code_and_neither_its_sentence_nor_a_body() -> None:
    refusal = failed("ash", "neighbouring pixels differ by 1.14", outcome="refused", code="unsound")
    packed = wire.pack_answer(refusal)
    assert b"1.14" not in wire.unpack(packed, 1000)[0]
    answer = wire.read_answer(packed, client="ash", largest=100)
    told = "its generator made nothing worth sending; the site's own log says why (unsound)"
    assert (answer.outcome, answer.why, answer.read()) == ("refused", told, b"")


def test_a_code_of_another_make_stays_at_home() -> None:
    packed = wire.pack_answer(failed("ash", "no", code="pixels-differ-by-1.14"))
    assert b"1.14" not in wire.unpack(packed, 1000)[0]
    assert wire.read_answer(packed, client="ash", largest=100).code == "failed"


def test_a_request_for_somebody_else_is_refused() -> None:
    with pytest.raises(UserError, match="for 'ash' came to birch"):
        wire.read_request(wire.pack_request(REQUEST), site="birch", largest=100)


def test_an_answer_in_anothers_name_does_not_count() -> None:
    answer = wire.read_answer(wire.pack_answer(ANSWER), client="birch", largest=100)
    assert (answer.outcome, answer.client, answer.why) == ("failed", "birch", "it answered in the name of 'ash'")


@pytest.mark.parametrize("side", ["request", "answer"])
def test_what_is_too_large_is_refused(side: str) -> None:
    if side == "request":
        with pytest.raises(UserError, match="at most 5 are accepted"):
            wire.read_request(wire.pack_request(REQUEST), site="ash", largest=5)
    else:
        answer = wire.read_answer(wire.pack_answer(ANSWER), client="ash", largest=5)
        assert (answer.outcome, "at most 5" in answer.why) == ("failed", True)


STRANGE = [
    RecordDict(),
    RecordDict({"header": ConfigRecord({"json": b"{}"})}),
    RecordDict({"header": ConfigRecord({"json": "text"}), "body": ArrayRecord({"bytes": Array("u1", (0,), "x", b"")})}),
    RecordDict({"header": ArrayRecord(), "body": ConfigRecord()}),
    wire.pack(b"no json", b""),
    wire.pack(b"[1, 2]", b""),
    wire.pack(b"[" * 100_000, b""),
    wire.pack(b'{"client": "ash"}', b""),
    wire.pack(json.dumps({**ANSWER.header(), "outcome": "paid"}).encode(), b""),
    wire.pack(json.dumps({**ANSWER.header(), "charges": [1]}).encode(), b""),
    wire.pack(json.dumps({**ANSWER.header(), "version": 3}).encode(), b""),
    wire.pack(json.dumps({**ANSWER.header(), "more": 3}).encode(), b""),
]


@pytest.mark.parametrize("content", STRANGE)
def test_messages_of_another_make_are_refused_by_both_ends(content: RecordDict) -> None:
    answer = wire.read_answer(content, client="ash", largest=100)
    assert (answer.outcome, answer.read(), bool(answer.why)) == ("failed", b"", True)
    with pytest.raises(UserError):
        wire.read_request(content, site="ash", largest=100)


def test_a_request_whose_fields_have_other_types_is_refused() -> None:
    fields = {**json.loads(REQUEST.header()), "round": "3"}
    with pytest.raises(UserError, match="round"):
        wire.read_request(wire.pack(json.dumps(fields).encode(), b""), site="ash", largest=100)


def test_words_from_the_other_end_are_one_short_line() -> None:
    assert printable("one\ntwo \x1b[1;31mred\x07 \x1b[2J") == "one two red   [2J"
    assert printable("a" * 300) == "a" * 300
    assert printable("a" * 301) == "a" * 299 + "…"
