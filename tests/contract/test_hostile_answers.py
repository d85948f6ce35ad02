"""Whatever one site answers: its own failure, in words that can be printed, and everybody else's round counts."""

import json
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from contract_checks import Case, federation
from hostile import VICTIM, Tampered, as_json, check_only_the_victim_failed, only, sends, tampered_play
from test_broken_methods import Sound
from test_contract import CASES

from understudy.data.federation import Federation
from understudy.federation.exchange import Answer, Engine, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, State
from understudy.federation.server import Server
from understudy.federation.site import SCORE, Site
from understudy.runs.folder import RunFolder
from understudy.runs.play import play

SOON = 20.0  # seconds: no test of a bound on time may depend on how busy a machine is


def header(**parts: object) -> bytes:
    text = json.dumps(parts).encode()
    return struct.pack("<Q", len(text)) + text


def part(shape: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}


BODIES = {
    "shape beyond int64": header(change=part([0, 2**63])),
    "strides that overflow": header(change=part([0, 2**62, 2**62])),
    "empty, of a shape that no tensor has": header(change=part([0, 2**61])),
    "a thousand dimensions": header(change=part([0] * 1000)),
    "hundred thousand parts": header(**{f"p{at}": part([0]) for at in range(100_000)}),
    "a name that clears the screen": header(**{"\x1b[2Jchange": part([0])}),
    "a name in lines": header(**{"one\ntwo": part([0])}),
    "a name that turns the text round": header(**{"\u202eegnahc": part([0])}),
    "a name without end": header(**{"n" * 10_000: part([0])}),
    "an undeclared part": Message(more=torch.zeros(1)).to_bytes(),
    "nothing": b"",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_any_make_is_the_failure_of_its_sender(name: str, tmp_path: Path) -> None:
    began = time.monotonic()
    result = tampered_play(CASES["fedavg"], tmp_path / "run", only(VICTIM, sends(BODIES[name])), rounds=1)
    assert [failure["client"] for failure in result.metrics[1]["failures"]] == [VICTIM]
    check_only_the_victim_failed(result, 1, others=3)
    assert time.monotonic() - began < SOON
    ledger = (tmp_path / "run" / "ledger.json").read_text()
    assert all(line.isprintable() for line in ledger.splitlines())


def test_undeclared_parts_share_one_line_of_the_ledger(tmp_path: Path) -> None:
    body = Message({f"p{at}": torch.zeros(3) for at in range(50)}).to_bytes()
    tampered_play(CASES["fedavg"], tmp_path / "run", only(VICTIM, sends(body)), rounds=1)
    (line,) = RunFolder(tmp_path / "run").ledger()["clients"][VICTIM]
    assert (line["part"], line["kind"], line["bytes"]) == ("undeclared", "undeclared", 600)


@pytest.mark.parametrize("why", ["\x1b[2J\x1b[1;31mowned", "one\ntwo\r\x07", "\u202e\u2066reversed", "!" * 10_000])
def test_words_of_a_site_are_one_short_line_in_the_metrics(why: str, tmp_path: Path) -> None:
    def rude(_: Request, answer: Answer) -> Answer:
        return replace(answer, outcome="refused", why=why)

    result = tampered_play(CASES["fedavg"], tmp_path / "run", only(VICTIM, rude), rounds=1)
    (failure,) = result.metrics[1]["failures"]
    assert failure["why"].isprintable()
    assert len(failure["why"]) <= 300


@pytest.mark.parametrize("version", ["../../elsewhere", "\x1b[2J", "r1s1\n", "r" + "1" * 10_000 + "s1"])
def test_a_version_that_cannot_be_is_a_failure(version: str, tmp_path: Path) -> None:
    def strange(_: Request, answer: Answer) -> Answer:
        return replace(answer, version=version)

    result = tampered_play(CASES["scaffold"], tmp_path / "run", only(VICTIM, strange), rounds=1)
    assert "version of its memory" in result.metrics[1]["failures"][0]["why"]
    check_only_the_victim_failed(result, 1, others=3)


# ---- scores


def without_test_set() -> Federation:
    sites = {name: (holding.own.x, holding.own.y) for name, holding in federation().sites.items()}
    return Federation.from_arrays(sites, classes=3, held_out=0.25)


def claims(*numbers: float) -> Callable[[Request, Answer], Answer]:
    def tamper(request: Request, answer: Answer) -> Answer:
        if not request.score:
            return answer
        body = Message.from_bytes(answer.read()).but({SCORE: torch.tensor(numbers, dtype=torch.float64)}).to_bytes()
        return replace(answer, message=None, read=lambda: body)

    return tamper


@pytest.mark.parametrize("numbers", [(1e300, 1e300, 0), (1e9, 1e9, 0), (2.0**63, 2.0**63, 0), (4, 4, -1e300)])
def test_one_site_cannot_set_everybodys_accuracy(numbers: tuple[float, ...], tmp_path: Path) -> None:
    data = without_test_set()
    result = tampered_play(CASES["fedavg"], tmp_path / "run", only(VICTIM, claims(*numbers)), data, rounds=1)
    check_only_the_victim_failed(result, 1, others=3)
    as_json(result)
    without = tampered_play(CASES["fedavg"], tmp_path / "without", only(VICTIM, sends(b"")), data, rounds=1)
    assert [line["accuracy"] for line in result.metrics] == [line["accuracy"] for line in without.metrics]


def test_in_a_simulation_no_site_claims_more_records_than_it_holds_out(tmp_path: Path) -> None:
    data = without_test_set()
    most = len(data.sites[VICTIM].held_out)
    for claimed, failed in ((most, set()), (most + 1, {VICTIM})):
        out = tmp_path / str(claimed)
        result = tampered_play(CASES["fedavg"], out, only(VICTIM, claims(claimed, 0, 0)), data, rounds=1)
        assert {failure["client"] for failure in result.metrics[1]["failures"]} == failed


def test_where_sites_hold_their_own_records_the_config_states_how_many_they_may_claim(tmp_path: Path) -> None:
    @contextmanager
    def elsewhere(sites: Mapping[str, Site], method: Method) -> Iterator[Engine]:
        yield Tampered(sites, method, only(VICTIM, claims(5, 5, 0)))

    for most, failed in ((5, set()), (4, {VICTIM})):
        config = CASES["fedavg"].config(without_test_set(), rounds=1, **{"engine.most_held_out": most})
        result = play(config, tmp_path / str(most), engine=elsewhere)
        assert {failure["client"] for failure in result.metrics[1]["failures"]} == failed


class AsksTwice(Sound):
    """Only the first of two asks is for scores as well."""

    def round(self, server: Server, state: State) -> State:
        for _ in range(2):
            list(server.ask(self.fit, state.only("model"), to=server.cohort()))
        return state


def test_scores_are_taken_once_for_each_time_that_they_were_asked_for(tmp_path: Path) -> None:
    def again(_: Request, answer: Answer) -> Answer:
        body = Message.from_bytes(answer.read()).but({SCORE: torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)})
        return replace(answer, message=None, read=body.to_bytes)

    result = tampered_play(Case(AsksTwice), tmp_path / "run", only(VICTIM, again), without_test_set(), rounds=1)
    (failure,) = result.metrics[1]["failures"]
    assert (failure["client"], failure["why"]) == (VICTIM, "it sent scores without being asked for them")


# ---- charges


def charging(change: Mapping[str, Any] | Callable[[dict[str, Any]], list[dict[str, Any]]]) -> Any:
    def tamper(_: Request, answer: Answer) -> Answer:
        honest = [dict(charge) for charge in answer.charges]
        spoilt = change(honest[0]) if callable(change) else [{**charge, **change} for charge in honest]
        return replace(answer, charges=json.loads(json.dumps(spoilt)))

    return tamper


CHARGES: dict[str, Any] = {
    "noise 1e400": {"noise": 10**400},
    "infinite noise": {"noise": float("inf")},
    "noise 1e-300": {"noise": 1e-300},
    "steps 1e400": {"steps": 10**400},
    "steps 1e15": {"steps": 10**15},
    "rate 1e-300": {"rate": 1e-300},
    "rate that is no number": {"rate": float("nan")},
    "another accountant": {"accountant": "pld"},
    "another delta": {"delta": 0.5},
    "noise for tests": {"test_noise": False},
    "another round": {"round": 7},
    "another run": {"run": "elsewhere"},
    "an infinite clip": {"clip": float("inf")},
    "a mechanism that clears the screen": {"mechanism": "\x1b[2J"},
    "covers a word": {"covers": "change"},
    "covers a thousand parts": {"covers": [f"p{at}" for at in range(1000)]},
    "two thousand of them": lambda one: [{**one, "number": at, "noise": 0.05 + at / 1e4} for at in range(2000)],
    "one number more": {"number": 10**12},
    "truth for a number": {"steps": True},
}


@pytest.mark.parametrize("name", CHARGES)
def test_charges_of_any_make_are_the_failure_of_their_sender(name: str, tmp_path: Path) -> None:
    began = time.monotonic()
    result = tampered_play(CASES["dp-fedavg"], tmp_path / "run", only(VICTIM, charging(CHARGES[name])), rounds=1)
    assert [failure["client"] for failure in result.metrics[1]["failures"]] == [VICTIM]
    check_only_the_victim_failed(result, 1, others=3)
    assert time.monotonic() - began < SOON


def test_a_charge_that_was_sent_cannot_be_changed_afterwards(tmp_path: Path) -> None:
    said: list[str] = []

    def cheaper(request: Request, answer: Answer) -> Answer:
        said.append(request.client)
        return replace(answer, charges=[{**charge, "round": 1, "noise": 1000.0} for charge in answer.charges])

    result = tampered_play(CASES["dp-fedavg"], tmp_path / "run", only(VICTIM, cheaper, round=2), rounds=2)
    assert said, "it was asked in round 2"
    assert "not belong to this ask" in result.metrics[2]["failures"][0]["why"]


def test_charges_where_none_are_promised_are_a_failure(tmp_path: Path) -> None:
    def spends(_: Request, answer: Answer) -> Answer:
        return replace(answer, charges=[{"noise": 1.0}])

    result = tampered_play(CASES["fedavg"], tmp_path / "run", only(VICTIM, spends), rounds=1)
    assert [failure["client"] for failure in result.metrics[1]["failures"]] == [VICTIM]
