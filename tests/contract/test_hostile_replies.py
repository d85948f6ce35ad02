"""Every method, with one site that sends parts of any make: its own failure at worst, and the others' round counts."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from contract_checks import Case, model_bytes
from hostile import HARMS, VICTIM, Harm, Tamper, as_json, check_only_the_victim_failed, only, tampered_play
from test_contract import CASES, ONE_SHOT, QUICK

from understudy.federation.exchange import Answer, Request
from understudy.federation.message import Message
from understudy.federation.secure.party import AGREED
from understudy.runs.rounds import Result

BY_NAME = {harm.name: harm for harm in HARMS}
# Of no part of any method can these be taken.
NEVER = ("one more", "nothing but shape", "not a number", "largest float64")
# Boxes that only another client opens, and the keys to them: what is wrong inside may undo one round.
UNSEEN = ("SecureAggregation.advertise", "SecureAggregation.share", "SecureAggregation.unmask")
ASKED_LATE = {"dense": 3, "moments": 3}  # the round in which a method has asked for all that it asks for
TOLD = {"veto": "drop"}
REPLIES: dict[str, Case] = {
    **{name: case for name, case in CASES.items() if "+" not in name},
    "fedavg+fedssyn": Case("fedavg", QUICK["fedavg"], ({"name": "fedssyn", **QUICK["fedssyn"], **TOLD},)),
    "fedavg+secure-aggregation": CASES["fedavg+secure-aggregation"],
    "fedavg, scored": Case("fedavg", {**QUICK["fedavg"], "score_local": True}),
    "feddm by size": Case("feddm", {**QUICK["feddm"], "weights": "size"}),
    "fedlap by size": Case("fedlap", {**QUICK["fedlap"], "weights": "size"}),
}


def rounds_of(name: str) -> int:
    return ASKED_LATE.get(name, 1)


def parts_sent(name: str, folder: Path) -> dict[tuple[str, str], int]:
    """By task and part, the round in which the victim sends it first."""
    found: dict[tuple[str, str], int] = {}

    def note(request: Request, answer: Answer) -> Answer:
        mine = request.client == VICTIM and request.task != "Method.score"  # which nobody can refuse any more
        for part in Message.from_bytes(answer.read()) if mine else ():
            found.setdefault((request.task, part), request.round)
        return answer

    tampered_play(REPLIES[name], folder, note, rounds=rounds_of(name))
    assert found, "the victim sends nothing that could be spoilt"
    return found


def spoilt(name: str, task: str, part: str, harm: Harm, folder: Path, rounds: int) -> Result:
    def tamper(request: Request, answer: Answer) -> Answer:
        return harm(part)(request, answer) if request.task == task else answer

    return tampered_play(REPLIES[name], folder, only(VICTIM, tamper), rounds=rounds)


@pytest.mark.parametrize("name", REPLIES)
def test_parts_that_can_never_be_are_refused_whatever_the_method(name: str, tmp_path: Path) -> None:
    """Each time that the victim is asked, some part of its reply."""
    rng, rounds = random.Random(name), set[int]()

    def tamper(request: Request, answer: Answer) -> Answer:
        parts = [*Message.from_bytes(answer.read())]
        if not parts or request.task == "Method.score":
            return answer
        rounds.add(request.round)
        return BY_NAME[rng.choice(NEVER)](rng.choice(parts))(request, answer)

    many = 2 if name in ONE_SHOT else rounds_of(name)  # in the second, nobody else is asked any more
    result = tampered_play(REPLIES[name], tmp_path / "run", only(VICTIM, tamper), rounds=many)
    assert rounds, "the victim sent nothing that could be spoilt"
    as_json(result)
    for round in rounds:
        assert [failure["client"] for failure in result.metrics[round]["failures"]] == [VICTIM]
        others = 3 if round == 1 else 0
        check_only_the_victim_failed(result, round, others)


def some_of_everything(name: str, many: int, folder: Path) -> Iterator[tuple[str, str, int, Harm]]:
    rng, sent = random.Random(f"{name} of any make"), parts_sent(name, folder)
    pairs = [(task, part, round, harm) for (task, part), round in sent.items() for harm in HARMS]
    yield from rng.sample(pairs, min(many, len(pairs)))


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLIES)
def test_parts_of_any_make_cost_nobody_but_their_sender(name: str, tmp_path: Path) -> None:
    """Some of these are numbers that a site might have; then they count. The round counts in any case."""
    for at, (task, part, round, harm) in enumerate(some_of_everything(name, 16, tmp_path / "honest")):
        more = 1 if task in UNSEEN or part == AGREED else 0
        result = spoilt(name, task, part, harm, tmp_path / str(at), rounds_of(name) + more)
        if more and result.metrics[round]["undone"]:
            check_left_out(result, round)
            round += 1
        check_only_the_victim_failed(result, round, others=3)
        as_json(result)


def check_left_out(result: Result, round: int) -> None:
    """The victim has undone this round, and never another one."""
    failures = result.metrics[round]["failures"]
    assert {failure["client"] for failure in failures} == {VICTIM}
    assert failures[-1]["why"].startswith("it is left out from now on: ")
    assert VICTIM not in result.metrics[round + 1]["bytes_by_client"]


def noise(part: str) -> Tamper:
    """Of the right make: nothing but the others can tell that it is wrong."""

    def tamper(request: Request, answer: Answer) -> Answer:
        reply = Message.from_bytes(answer.read())
        if part not in reply:
            return answer
        drawn = torch.randint(0, 256, reply[part].shape, generator=torch.Generator().manual_seed(request.round))
        return replace(answer, message=None, read=reply.but({part: drawn.to(torch.uint8)}).to_bytes)

    return tamper


@pytest.mark.parametrize(
    ("part", "undoes"),
    [
        ("keys", True),
        ("shares", True),
        ("commitments", True),
        ("mask", True),
        (AGREED, True),
        ("opened", False),
    ],
)
def test_keys_and_shares_of_the_right_make_cost_the_others_one_round_at_the_most(
    part: str, undoes: bool, tmp_path: Path
) -> None:
    case, folder = REPLIES["fedavg+secure-aggregation"], tmp_path / "run"
    result = tampered_play(case, folder, only(VICTIM, noise(part)), rounds=4)
    assert [line["undone"] for line in result.metrics] == [False, undoes, False, False, False]
    if undoes:
        check_left_out(result, 1)
    for round in (2, 3, 4):
        check_only_the_victim_failed(result, round, others=3)


def test_who_was_left_out_stays_out_when_the_run_goes_on(tmp_path: Path) -> None:
    case, folder = REPLIES["fedavg+secure-aggregation"], tmp_path / "run"
    straight = tampered_play(case, tmp_path / "straight", only(VICTIM, noise("mask"), round=1), rounds=3)

    def stops(request: Request, answer: Answer) -> Answer:
        if request.round == 2:
            raise KeyboardInterrupt
        return only(VICTIM, noise("mask"), round=1)(request, answer)

    with pytest.raises(KeyboardInterrupt):
        tampered_play(case, folder, stops, rounds=3)
    resumed = case.play(folder, resume=True, rounds=3)
    assert VICTIM not in resumed.metrics[2]["bytes_by_client"]
    assert VICTIM not in resumed.metrics[3]["bytes_by_client"]
    assert model_bytes(resumed) == model_bytes(straight)


# What ended runs, or changed the others' records, before it was looked for.
FOUND = [
    ("feddm", "x", "float64"),
    ("feddm", "x", "largest float32"),
    ("fedlap", "radius", "one more"),
    ("fedlap", "x", "one is huge"),
    ("real", "x", "int64"),
    ("dc", "x", "large below zero"),
    ("central", "x", "bfloat16"),
    ("fedavg", "change", "largest float64"),
    ("fedgen", "change", "float64"),
    ("fedgen", "weight", "tiny"),
    ("feddyn", "clients", "minus three"),
    ("fedavg+secure-aggregation", "keys", "zero"),
]


@pytest.mark.parametrize(("name", "part", "harm"), FOUND)
def test_what_ended_a_run_once_does_so_no_more(name: str, part: str, harm: str, tmp_path: Path) -> None:
    result = tampered_play(REPLIES[name], tmp_path / "run", only(VICTIM, BY_NAME[harm](part)), rounds=1)
    check_only_the_victim_failed(result, 1, others=3)
    as_json(result)


# Finite, of the right shape, and yet no count, weight, square or radius.
CANNOT_BE = [
    ("fedavg", "weight", "minus one"),
    ("fedexp", "squares", "minus one"),
    ("fedgen", "labels", "zero"),
    ("fedlap", "radius", "minus one"),
    ("fedlap by size", "records", "minus one"),
]


@pytest.mark.parametrize(("name", "part", "harm"), CANNOT_BE)
def test_numbers_that_cannot_be_are_refused(name: str, part: str, harm: str, tmp_path: Path) -> None:
    result = tampered_play(REPLIES[name], tmp_path / "run", only(VICTIM, BY_NAME[harm](part)), rounds=1)
    assert [failure["client"] for failure in result.metrics[1]["failures"]] == [VICTIM]
    check_only_the_victim_failed(result, 1, others=3)


@pytest.mark.parametrize("name", ["feddm", "fedlap", "fedlap-dp", "real", "dc", "psg", "central", "fedavg+fedssyn"])
def test_labels_out_of_range_are_refused_wherever_images_are_pooled(name: str, tmp_path: Path) -> None:
    round = 0 if "fedssyn" in name else 1
    result = tampered_play(REPLIES[name], tmp_path / "run", only(VICTIM, BY_NAME["one out of range"]("y")), rounds=1)
    (failure,) = [failure for failure in result.metrics[round]["failures"] if failure["client"] == VICTIM]
    assert "its labels run from" in failure["why"]
    check_only_the_victim_failed(result, round, others=3)


AS_FLOATS = Harm("floats", lambda pixels: pixels.to(torch.float32).div_(255))


def test_pictures_as_bytes_and_as_floats_meet_in_a_pool_as_the_network_sees_them(tmp_path: Path) -> None:
    """Joined first and scaled afterwards, the bytes of all others would have counted as floats up to 255."""
    tampered_play(REPLIES["real"], tmp_path / "mixed", only(VICTIM, AS_FLOATS("x")), rounds=1)
    REPLIES["real"].play(tmp_path / "bytes", rounds=1)
    assert (tmp_path / "mixed/model.safetensors").read_bytes() == (tmp_path / "bytes/model.safetensors").read_bytes()


def test_where_records_join_as_they_are_the_kind_that_most_send_counts(tmp_path: Path) -> None:
    result = tampered_play(REPLIES["central"], tmp_path / "floats", only(VICTIM, AS_FLOATS("x")), rounds=1)
    assert "unlike those of most others" in result.metrics[1]["failures"][0]["why"]
    tampered_play(REPLIES["central"], tmp_path / "gone", only(VICTIM, BY_NAME["missing"]("x")), rounds=1)
    assert (tmp_path / "floats/model.safetensors").read_bytes() == (tmp_path / "gone/model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["feddm", "fedlap", "fedlap-dp", "real", "dc", "psg"])
def test_more_images_than_are_planned_do_not_hold_up_the_server(name: str, tmp_path: Path) -> None:
    def again_and_again(_: Request, answer: Answer) -> Answer:
        reply = Message.from_bytes(answer.read())
        many = {part: torch.cat([reply[part]] * 10_000) for part in ("x", "y")}
        return replace(answer, message=None, read=reply.but(many).to_bytes)

    result = tampered_play(REPLIES[name], tmp_path / "run", only(VICTIM, again_and_again), rounds=1)
    assert "are planned" in result.metrics[1]["failures"][0]["why"]
    check_only_the_victim_failed(result, 1, others=3)


def test_a_part_that_is_declared_and_not_wanted_is_not_looked_at(tmp_path: Path) -> None:
    """FedLAP's task may send a radius; where the rule does not ask for it, a strange one is nothing."""
    case = Case("fedlap", {**QUICK["fedlap"], "radius_rule": "constant"})

    def adds(_: Request, answer: Answer) -> Answer:
        reply = Message.from_bytes(answer.read())
        return replace(answer, message=None, read=reply.but(radius=torch.zeros(5), records=torch.zeros(2, 2)).to_bytes)

    result = tampered_play(case, tmp_path / "run", only(VICTIM, adds), rounds=1)
    check_only_the_victim_failed(result, 1, others=3)
