"""Whole runs under secure aggregation beside plain ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract_checks import Case, federation, model_bytes, watched_play

from understudy.federation.exchange import Request
from understudy.federation.secure.grid import grid_for
from understudy.runs.rounds import RunResult

LOCAL = {"local": {"epochs": 2, "batch": 4, "lr": 0.1}}
SECURE: Mapping[str, Any] = {"name": "secure-aggregation"}
COG = {"name": "fedcog", "kd_weighting": "balanced", "images": 10, "steps": 3}
SSYN = {"name": "fedssyn", "generator": {"name": "vae", "epochs": 2, "width": 4, "hidden": 8, "least_steps": 0}}
RECORDS = 14 + 15 + 12  # of ash, beech, cedar; elm has none


def pair(method: str, *others: Mapping[str, Any], **settings: Any) -> tuple[Case, Case]:
    """Plain, and under masks."""
    words = {**LOCAL, **settings}
    return Case(method, words, others), Case(method, words, (SECURE, *others))


def apart(one: RunResult, other: RunResult) -> float:
    return max(float((one.weights[name] - other.weights[name]).abs().max()) for name in one.weights)


def bound(result: RunResult, records: float = RECORDS, clients: int = 4) -> float:
    """Of a mean: clients · step / 2 over the records; and both models are rounded to float32."""
    largest = max(float(tensor.abs().max()) for tensor in result.weights.values())
    return clients * grid_for(4, range=1e6, bits=48).step / 2 / records + largest * 2.0**-23


CASES: list[tuple[str, Sequence[Mapping[str, Any]], dict[str, Any]]] = [
    ("fedavg", (), {}),
    ("fedprox", (), {"mu": 0.1}),
    ("fedavgm", (), {"server_momentum": 0.5, "damping": "fedcog"}),
    ("fedavg", (COG,), {}),
    ("fedavg", (SSYN, COG), {}),
]


@pytest.mark.parametrize(("method", "others", "settings"), CASES, ids=["fedavg", "fedprox", "fedavgm", "cog", "both"])
def test_one_round_is_the_plain_one_within_the_stated_rounding(
    method: str, others: Sequence[Mapping[str, Any]], settings: dict[str, Any], tmp_path: Path
) -> None:
    plain, secure = (
        case.play(tmp_path / str(at), rounds=1) for at, case in enumerate(pair(method, *others, **settings))
    )
    assert secure.metrics[-1]["failures"] == []
    assert 0 < apart(plain, secure) <= bound(plain) or model_bytes(plain) == model_bytes(secure)


def in_phase(task: str, *names: str, round: int = 1) -> Any:
    def spoil(request: Request) -> str | None:
        lost = request.round == round and request.task.endswith(f".{task}") and request.client in names
        return "its cable was cut" if lost else None

    return spoil


def test_a_client_lost_with_shares_out_and_no_input_is_recovered(tmp_path: Path) -> None:
    results = []
    for at, case in enumerate(pair("fedavg")):
        result, _ = watched_play(case, tmp_path / str(at), in_phase("train", "ash"), rounds=1)
        results.append(result)
    plain, secure = results
    assert [failure["client"] for failure in secure.metrics[-1]["failures"]] == ["ash"]
    assert not secure.metrics[-1]["undone"]
    assert apart(plain, secure) <= bound(plain, RECORDS - 14)


def test_with_too_many_lost_the_round_is_undone_and_the_next_one_counts(tmp_path: Path) -> None:
    # Four hold shares of every seed, three open it.
    _, secure = pair("fedavg")
    result, _ = watched_play(secure, tmp_path / "run", in_phase("unmask", "ash", "beech"), rounds=2)
    first, second = result.metrics[1:]
    assert first["undone"]
    assert {failure["client"] for failure in first["failures"]} == {"ash", "beech"}
    assert first["loss"] == result.metrics[0]["loss"]
    assert not second["undone"]
    assert second["loss"] < first["loss"]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("task", ["train", "unmask"])
def test_killed_between_phases_and_resumed_the_sites_still_have_their_keys(task: str, tmp_path: Path) -> None:
    _, secure = pair("fedavg")

    def kill(request: Request) -> str | None:
        if request.round == 2 and request.client == "cedar" and request.task.endswith(f".{task}"):
            raise Killed
        return None

    straight = secure.play(tmp_path / "straight", rounds=2)
    with pytest.raises(Killed):
        watched_play(secure, tmp_path / "killed", kill, rounds=2)
    resumed = secure.play(tmp_path / "killed", resume=True, rounds=2)
    assert model_bytes(resumed) == model_bytes(straight)
    assert [line["failed"] for line in resumed.metrics] == [0, 0, 0]


def test_keys_cost_no_privacy(tmp_path: Path) -> None:
    settings = {"local": {"steps": 6, "batch": 12, "lr": 0.2, "schedule": "constant"}, "clip": 1.0, "noise": 0.9}
    privacy = {"delta": 1e-5, "records": 12}
    plain = Case("dp-fedavg", settings, privacy=privacy).play(tmp_path / "plain", rounds=2)
    secure = Case("dp-fedavg", settings, (SECURE,), privacy=privacy).play(tmp_path / "secure", rounds=2)
    assert secure.summary["epsilon"] == plain.summary["epsilon"]
    assert secure.summary["epsilon"] > 0
    left = json.loads((tmp_path / "secure" / "ledger.json").read_text())["clients"]["ash"]
    kinds = {(line["task"].rpartition(".")[2], line["part"]): line["kind"] for line in left}
    assert kinds == {
        ("advertise", "keys"): "keys",
        ("share", "shares"): "keys",
        ("share", "commitments"): "keys",
        ("share", "mask"): "keys",
        ("train", "change"): "weights",
        ("train", "weight"): "scalars",
        ("train", "secure.agreed"): "keys",
        ("unmask", "shares"): "keys",
        ("unmask", "opened"): "keys",
    }


def test_scores_still_ride_along_where_clients_score(tmp_path: Path) -> None:
    data = replace(federation(held_out=0.25), test=None)
    result = Case("fedavg", LOCAL, (SECURE,)).play(tmp_path / "run", data, rounds=1)
    assert [line["accuracy"] is not None for line in result.metrics] == [True, True]
    assert result.metrics[-1]["failures"] == []
