"""kill -9 of a worker, as the system does when memory runs out: the same model, and nothing spent twice."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract_checks import Case, model_bytes
from test_contract import CASES, QUICK

from understudy.federation import answering, working
from understudy.federation.exchange import Request
from understudy.federation.site import Site
from understudy.privacy.charges import Charge, ChargeLog
from understudy.runs.play import play
from understudy.runs.rounds import RunResult
from understudy.runs.watching import Observer

TWO = {"name": "workers", "workers": 2}


def dying(work: Callable[..., Any], marker: Path, times: int, when: Callable[..., bool] = lambda *_: True) -> Any:
    """The same function, but the process is killed once it is done; so many times, in whichever worker."""

    def work_and_die(*given: Any, **named: Any) -> Any:
        done = work(*given, **named)
        if when(*given) and len(list(marker.parent.glob(f"{marker.name}-*"))) < times:
            marker.with_name(f"{marker.name}-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return work_and_die


def at_beech_in_round_2(site: Site, _: object, request: Request) -> bool:
    return site.name == "beech" and request.round == 2


@pytest.mark.parametrize("name", ["scaffold", "fedavg+fedssyn", "dp-fedavg"])
def test_killed_in_the_middle_of_a_task_the_model_is_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = CASES[name].play(tmp_path / "straight")
    monkeypatch.setattr(answering, "work", dying(working.work, tmp_path / "death", 2, at_beech_in_round_2))
    killed = CASES[name].play(tmp_path / "killed", engine=TWO)
    assert model_bytes(killed) == model_bytes(straight)
    assert (killed.summary["workers_died"], killed.summary["lost"], killed.summary["failed"]) == (2, [], 0)
    assert [line["workers_died"] for line in killed.metrics] == [0, 0, 2, 0]
    ledgers = [json.loads((tmp_path / run / "ledger.json").read_text()) for run in ("straight", "killed")]
    assert _without_run(ledgers[0]) == _without_run(ledgers[1])


def _without_run(ledger: Any) -> Any:
    """Charges name their run, which is drawn anew for each."""
    for charges in ledger.get("charges", {}).values():
        for charge in charges:
            charge["run"] = ""
    return ledger


class Killer(Observer):
    """Kills a worker from outside when it has heard so many answers, whatever that worker is doing."""

    def __init__(self, *moments: int):
        self.moments, self.answers, self.kills = moments, 0, 0
        self.others = set(multiprocessing.active_children())  # such as the second device of other tests

    def heard(self, client: str) -> None:
        self.answers += 1
        if self.answers in self.moments:
            next(child for child in multiprocessing.active_children() if child not in self.others).kill()
            self.kills += 1


def test_killed_from_outside_at_any_moment_the_model_is_the_same(tmp_path: Path) -> None:
    case = CASES["scaffold"]
    straight, killer = case.play(tmp_path / "straight"), Killer(1, 4, 6, 9)
    killed = play(case.config(case.federation(), engine=TWO), tmp_path / "killed", observer=killer)
    assert killer.kills == 4
    assert model_bytes(killed) == model_bytes(straight)
    assert killed.summary["failed"] == 0


def test_a_client_whose_worker_dies_again_and_again_is_named_in_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "work", dying(working.work, tmp_path / "death", 3, at_beech_in_round_2))
    killed = CASES["fedavg"].play(tmp_path / "killed", engine=TWO)
    summary = json.loads((tmp_path / "killed/summary.json").read_text())
    assert (summary["workers_died"], summary["lost"], summary["failed"]) == (3, ["beech"], 1)
    (failure,) = killed.metrics[2]["failures"]
    assert failure["client"] == "beech"
    assert "died 3 times over Averaging.train (last with code -9)" in failure["why"]
    assert killed.metrics[3]["failed"] == 0, "it is asked again in the next round"


# ---- privacy: a task that is repeated is not charged twice, and one that is given up is not free

PRIVATE = {"delta": 1e-5, "records": 12}  # real noise, so that ε is counted
PRIVATE_CASE = Case("dp-fedavg", QUICK["dp-fedavg"], privacy=PRIVATE)
MOMENTS = {
    "the charge is open": (ChargeLog, "open"),
    "the task is done": (answering, "work"),
    "the reply is on disk, and not yet listed": (answering._Step, "_write"),
    "the reply is listed, and not yet closed": (answering, "write_whole"),
    "the charge is closed": (ChargeLog, "close"),
}


def charged(result: RunResult, client: str) -> list[Charge]:
    return ChargeLog(result.folder / "clients" / client / "charges.jsonl").charges()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_private_step_that_is_repeated_is_charged_once(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = PRIVATE_CASE.play(tmp_path / "straight", rounds=1)
    where, name = MOMENTS[moment]

    def listed(path: object, *_: object) -> bool:
        return name != "write_whole" or str(path).endswith("answered.json")

    monkeypatch.setattr(where, name, dying(getattr(where, name), tmp_path / "death", 2, listed))
    killed = PRIVATE_CASE.play(tmp_path / "killed", rounds=1, engine=TWO)
    assert (killed.summary["workers_died"], killed.summary["failed"]) == (2, 0)
    for client in ("ash", "beech", "cedar", "elm"):
        assert len(charged(killed, client)) == len(charged(straight, client)) == 1
    assert killed.summary["epsilon"] == pytest.approx(straight.summary["epsilon"])


def test_a_private_step_that_is_given_up_has_cost_what_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = PRIVATE_CASE.play(tmp_path / "straight")
    monkeypatch.setattr(answering, "work", dying(working.work, tmp_path / "death", 3, at_beech_in_round_2))
    killed = PRIVATE_CASE.play(tmp_path / "killed", engine=TWO)
    assert killed.summary["lost"] == ["beech"]
    ledgers = [json.loads((run.folder / "ledger.json").read_text()) for run in (straight, killed)]
    spent = [ledger["epsilon_by_client"]["beech"] for ledger in ledgers]
    assert spent[0] == pytest.approx(spent[1]), "three rounds were paid for, although one brought nothing"
    assert len(charged(killed, "beech")) == 3
    charges = (tmp_path / "killed/clients/beech/charges.jsonl").read_text()
    assert charges.count('"closed"') == 3, "done again, the work that was given up would cost again"
