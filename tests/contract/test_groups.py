"""The contract with clients that train together: the same checks, and what only a group can get wrong."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import yaml
from contract_checks import CHECKS, Case, federation, model_bytes
from test_contract import QUICK
from test_killed_workers import TWO, dying
from torch import Tensor

from understudy.config.build import build_data, build_method, decide_together
from understudy.config.resolve import resolve
from understudy.config.schema import Config, Live
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation import answering, group_answering
from understudy.federation.client import Client
from understudy.federation.exchange import Request
from understudy.federation.message import Message
from understudy.federation.site import Site
from understudy.learning.loop import Trained
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Kit, Parts, Term
from understudy.models.network import Network
from understudy.runs.play import play
from understudy.runs.watching import Observer

FAMILY = (
    *("fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "fedsgd"),
    *("fedprox", "scaffold", "fednova", "feddyn", "fedexp", "fedpvr"),
)
WHOLE = ("fedavg", "scaffold")  # of the others, what groups could break comes first and the rest is slow
FIRST = ("check_same_bits_wherever", "check_same_bits_after")


@dataclass(frozen=True)
class Grouped(Case):
    """Four clients, the last of them without records, in groups of three."""

    together: int = 3

    def config(self, data: Federation, **changes: Any) -> Config:
        return super().config(data, **{**changes, "engine": {"together": self.together, **changes.get("engine", {})}})


def grouped(name: str, **settings: Any) -> Grouped:
    return Grouped(name, {**QUICK[name], **settings})


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, marks=() if name in WHOLE or check.__name__.startswith(FIRST) else pytest.mark.slow)
        for name in FAMILY
        for check in CHECKS
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__.removeprefix("check_"),
)
def test_clients_that_train_together_keep_the_contract(
    name: str, check: Callable[[Case, Path], None], tmp_path: Path
) -> None:
    check(grouped(name), tmp_path)


@pytest.mark.parametrize("network", [{"name": "mlp", "hidden": [8]}, {"name": "small-convnet", "width": 4}])
@pytest.mark.parametrize("name", FAMILY)
def test_each_of_the_family_ends_where_it_ends_one_by_one(
    name: str, network: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = Case(name, QUICK[name]).play(tmp_path / "apart", model=network)
    seen: list[list[str]] = []
    whole = group_answering.answer_together

    def watched(sites: Any, method: Any, together: Any, requests: Any) -> Any:
        seen.append([request.client for request in requests])
        return whole(sites, method, together, requests)

    monkeypatch.setattr("understudy.engines.inline.answer_together", watched)
    together = grouped(name).play(tmp_path / "together", model=network)
    assert seen == [["ash", "beech", "cedar"], ["elm"]] * 3
    for part, weights in apart.weights.items():
        assert torch.allclose(together.weights[part], weights, rtol=0, atol=1e-5), part
    assert [line["bytes_by_client"] for line in together.metrics] == [line["bytes_by_client"] for line in apart.metrics]


# ---- a client that fails


class Troubled(Term):
    """Goes wrong at one client in round 2, where it is told to."""

    in_rows: ClassVar[tuple[str, ...] | None] = ()

    def __init__(self, where: str):
        self.where = where

    def here(self, client: Client, where: str) -> bool:
        return (client.id, client.round, self.where) == ("beech", 2, where)

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        if self.here(client, "begin"):
            raise ZeroDivisionError("a secret of its records")
        return None

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        if self.here(client, "end"):
            raise UserError("its disk is full")
        return {}


class InTrouble(Averaging):
    def __init__(self, where: str):
        local = {"epochs": 2, "batch": 4, "lr": 0.1}
        super().__init__(AveragingSettings.model_validate({"local": local}), terms=[Troubled(where)])

    def whole(self, client: Client, model: Tensor) -> Tensor:
        spoilt = any(isinstance(term, Troubled) and term.here(client, "weights") for term in self.terms)
        return torch.full_like(model, torch.nan) if spoilt else super().whole(client, model)

    def plan(self, client: Client) -> Tensor:
        beyond = any(isinstance(term, Troubled) and term.here(client, "plan") for term in self.terms)
        return super().plan(client) + 1000 * beyond


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("begin", "raised ZeroDivisionError"),
        ("plan", "raised IndexError"),
        ("weights", "not finite"),
        ("end", "its disk is full"),
    ],
)
def test_a_client_that_fails_in_a_group_fails_alone(where: str, why: str, tmp_path: Path) -> None:
    words = {"seed": 3, "model": {"name": "mlp", "hidden": [8]}, "method": {"rounds": 3}}
    live = Live(data=federation(), method=InTrouble(where))
    found = play(resolve({**words, "engine": {"name": "inline", "together": 3}}, {}, live), tmp_path / "run")
    lines = {line["round"]: line for line in found.metrics}
    (failure,) = lines[2]["failures"]
    assert failure["client"] == "beech"
    assert re.search(why, failure["why"])
    assert lines[2]["clients"] == 3  # the empty one included
    assert (lines[1]["failed"], lines[3]["failed"]) == (0, 0)


# ---- killed and resumed


def test_stopped_in_the_middle_of_a_group_it_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = grouped("scaffold").play(tmp_path / "straight")
    real, stops = answering.answer, ["beech in round 2"]

    def interrupted(site: Site, method: Any, request: Request, do: Any = None) -> Any:
        if (site.name, request.round) == ("beech", 2) and stops:
            stops.clear()
            raise KeyboardInterrupt
        return real(site, method, request, do)

    monkeypatch.setattr(group_answering, "answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grouped("scaffold").play(tmp_path / "stopped")
    assert not stops
    resumed = grouped("scaffold").play(tmp_path / "stopped", resume=True)
    assert model_bytes(resumed) == model_bytes(straight)


def at_beech_in_round_2(site: Site, _: object, request: Request, *__: object) -> bool:
    return site.name == "beech" and request.round == 2


def test_a_worker_killed_over_a_group_is_replaced_and_the_model_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = grouped("scaffold").play(tmp_path / "straight")
    monkeypatch.setattr(group_answering, "answer", dying(answering.answer, tmp_path / "death", 2, at_beech_in_round_2))
    killed = grouped("scaffold").play(tmp_path / "killed", engine=TWO)
    assert model_bytes(killed) == model_bytes(straight)
    assert (killed.summary["workers_died"], killed.summary["lost"], killed.summary["failed"]) == (2, [], 0)


def test_a_client_that_always_kills_its_worker_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_answering, "answer", dying(answering.answer, tmp_path / "death", 99, at_beech_in_round_2))
    found = grouped("fedavg").play(tmp_path / "run", engine=TWO)
    lines = {line["round"]: line for line in found.metrics}
    assert [failure["client"] for failure in lines[2]["failures"]] == ["beech"]
    assert lines[2]["clients"] == 3
    assert lines[2]["workers_died"] == 6  # three over the group, three over the client
    assert lines[3]["failed"] == 0


# ---- what the config says


def test_the_number_together_belongs_to_the_run(tmp_path: Path) -> None:
    grouped("fedavg").play(tmp_path / "run", rounds=1)
    assert yaml.safe_load((tmp_path / "run/config.yaml").read_text())["engine"]["together"] == 3
    for other in (1, 2):
        with pytest.raises(UserError, match=r"engine\.together is 3 there|engine is \{'together': 3\} there"):
            Grouped("fedavg", QUICK["fedavg"], together=other).play(tmp_path / "run", resume=True)
    grouped("fedavg").play(tmp_path / "run", resume=True, engine=TWO)


def test_one_by_one_is_not_written_down(tmp_path: Path) -> None:
    Grouped("fedavg", QUICK["fedavg"], together=1).play(tmp_path / "run", rounds=1)
    assert "together" not in yaml.safe_load((tmp_path / "run/config.yaml").read_text())["engine"]


class Listening(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []

    def says(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (Grouped("fedsam", QUICK["fedsam"]), "this method takes other steps than plain SGD on the loss"),
        (Grouped("moon", QUICK["moon"]), "moon is computed for one client at a time"),
        (Grouped("feddm", QUICK["feddm"]), "this method has no program for several clients"),
        (Grouped("ditto", QUICK["ditto"]), "this method takes other steps than plain SGD on the loss"),
        (Grouped("fedavg", QUICK["fedavg"], ({"name": "secure-aggregation"},)), "SecureAggregation is added to it"),
    ],
    ids=lambda part: part.method if isinstance(part, Case) else "",
)
def test_what_cannot_be_trained_together_is_trained_one_by_one_and_says_so_once(
    case: Grouped, why: str, tmp_path: Path
) -> None:
    listening = Listening()
    result = play(case.config(case.federation(), rounds=1), tmp_path / "run", observer=listening)
    said = [sentence for sentence in listening.said if "one by one" in sentence]
    assert len(said) == 1
    assert said[0].startswith("engine.together: the clients train one by one, because ")
    assert why in said[0]
    alone = Case(case.method, case.settings, case.add_ons).play(tmp_path / "alone", rounds=1)
    assert model_bytes(result) == model_bytes(alone)
    assert "together" not in yaml.safe_load((tmp_path / "run/config.yaml").read_text())["engine"]


@pytest.mark.parametrize(("cohort", "group"), [(5, 5), (17, 9), (50, 13), (3, 3)])
def test_auto_divides_a_cohort_evenly(cohort: int, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.config.build._declared", lambda config: 16)
    words = {"data": {"name": "digits", "clients": 60, "split": "iid"}, "model": "mlp"}
    config = resolve({**words, "method": {"name": "fedavg", "cohort": cohort}, "engine": {"together": "auto"}})
    data = build_data(config)
    assert decide_together(config, data, build_method(config, data))[0].engine.together == group
