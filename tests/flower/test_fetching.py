"""A message that will never be whole is given up; one that is only slow is waited for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from understudy.engines.flower.dialling import ServerAddress, reason, silence
from understudy.engines.flower.fetching import Fetching, Withdrawn
from understudy.engines.flower.processes import free_port


@dataclass
class Part:
    object_found: bool = True
    object_available: bool = True
    messages_list: tuple[str, ...] = ()


class Client:
    """Gives these answers, one after another."""

    def __init__(self, *parts: Part):
        self._parts = iter(parts)
        self.other = "as it is"

    def PullObject(self, _: object) -> Part:  # noqa: N802 Flower's name
        return next(self._parts)

    PullMessages = PullObject


def fetching(*parts: Part, newer: bool = False) -> Any:
    return Fetching(Client(*parts), lambda: newer)  # type: ignore[arg-type]


MISSING = Part(object_available=False)


def test_a_part_that_is_still_on_its_way_is_waited_for() -> None:
    assert fetching(MISSING).PullObject(None) is MISSING


def test_a_part_that_is_missing_when_a_newer_task_is_there_never_comes() -> None:
    with pytest.raises(Withdrawn):
        fetching(MISSING, MISSING, newer=True).PullObject(None)


def test_a_part_that_came_just_before_the_newer_task_counts() -> None:
    came = Part()
    assert fetching(MISSING, came, newer=True).PullObject(None) is came


def test_what_was_deleted_is_not_asked_for_again() -> None:
    with pytest.raises(Withdrawn):
        fetching(Part(object_found=False)).PullObject(None)
    with pytest.raises(Withdrawn):
        fetching(Part()).PullMessages(None)


def test_the_rest_of_the_client_is_untouched() -> None:
    assert fetching().other == "as it is"


SITE = ServerAddress("server.example.org:8443", Path("keys/ca.crt"), Path("keys/north"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer certificate", "does not match keys/ca.crt"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] IP address mismatch, certificate", "not valid for server.example.org"),
        ("[code: 2004] Failed to activate SuperNode.", "not yet admitted keys/north.pub"),
        ("[code: 2004] Failed to activate SuperNode.", "at most 5 s ahead"),
        ("Something else\nINFO:     Finished server process", "it said: Something else"),
        ("INFO:     Finished server process", "it said: nothing."),
    ],
)
def test_why_a_node_ended_is_told_in_a_sentence(said: str, told: str) -> None:
    assert told in reason(SITE, said)


def test_a_server_that_does_not_answer_is_named() -> None:
    nobody = ServerAddress(f"127.0.0.1:{free_port()}", None, None)
    assert silence(nobody) == f"Nothing answers at {nobody.address} (Connection refused); trying again."


def test_what_is_no_name_of_a_host_is_told_too() -> None:
    assert "not a valid host name" in str(silence(ServerAddress("a..b:8443", None, None)))
