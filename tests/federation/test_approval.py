"""Nothing of the kinds that a site's policy names leaves before a person there said yes."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from understudy.data.federation import Federation
from understudy.federation.answering import answer
from understudy.federation.approval import ApprovalQueue
from understudy.federation.client import Client
from understudy.federation.exchange import NOTHING, Answer, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.server import Server
from understudy.federation.site import Site
from understudy.models import zoo as models
from understudy.models.network import Network
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings
from understudy.view.waiting import print_waiting

WAITS = "its reply waits for a person's approval here: understudy review"


class Noisy(Method):
    """Sends two of its images under noise that nobody can repeat, and pays for it."""

    works = 0

    @task(x="examples", y="labels", mean="statistics")
    def release(self, client: Client, brief: Message) -> Message:
        type(self).works += 1
        client.budget.charge(rate=0.1, noise=2.0, steps=1, clip=1.0, covers=("x", "y"))
        client.memory["works"] = torch.tensor(float(self.works))
        noise = torch.randn(2, 1, 4, 4, generator=client.secret_rng("noise"))
        return Message(x=noise, y=torch.tensor([0, 1], dtype=torch.uint8), mean=torch.ones(()))

    @task(x="examples", more="examples", y="labels")
    def release_more(self, client: Client, brief: Message) -> Message:
        some = torch.zeros(2, 1, 4, 4)
        return Message(x=some, more=some[:1], y=torch.tensor([0, 1], dtype=torch.uint8))

    @task(mean="statistics")
    def count(self, client: Client, brief: Message) -> Message:
        return Message(mean=torch.ones(()))

    def round(self, server: Server, state: State) -> State:
        return state


def sites() -> Federation:
    return Federation.from_arrays(
        {"oak": (np.zeros((8, 1, 4, 4), np.uint8), np.array([0, 1] * 4))}, held_out=0.25, classes=2
    )


def site_with(folder: Path, **policy: Any) -> Site:
    policies = Policy(**policy) if policy else None
    return Site("oak", sites().sites["oak"], folder / "oak", 5, "words", None, PrivacySettings(delta=1e-5), policies)


@pytest.fixture
def method() -> Noisy:
    entry, problem = models.entry("softmax"), sites().problem
    noisy = Noisy()
    noisy.bind(Network(lambda: entry.build(problem, entry.settings()), problem), 3)
    Noisy.works = 0
    return noisy


def ask(site: Site, method: Noisy, round: int = 1, work: str = "release", run: str = "run", **more: Any) -> Answer:
    brief = Message(model=method.net.initial()).to_bytes()
    score = more.get("score", False)
    return answer(site, method, Request(run, "words", "oak", f"Noisy.{work}", round, 1, NOTHING, NOTHING, score, brief))


def files(site: Site) -> set[str]:
    return {str(path.relative_to(site.folder)) for path in site.folder.rglob("*") if path.is_file()}


def test_a_reply_waits_and_nothing_of_it_is_where_an_engine_sends_from(tmp_path: Path, method: Noisy) -> None:
    site = site_with(tmp_path, approval=("examples",))
    first = ask(site, method, score=True)
    assert (first.outcome, first.why, first.read(), first.charges) == ("waiting", f"{WAITS} {site.folder}", b"", ())
    assert {"waiting/run-r1s1/reply.safetensors", "waiting/run-r1s1/about.json"} <= files(site)
    assert "run/reply-1.safetensors" not in files(site)
    (held,) = ApprovalQueue(site.folder).held()
    about = {part["part"]: part for part in held.about["parts"]}
    # 2 images of 16 float32 numbers are 128 bytes; two labels are a byte each; scores wait with the rest.
    assert about["x"] == {"part": "x", "kind": "examples", "shape": [2, 1, 4, 4], "bytes": 128, "covered": True}
    assert (about["y"]["bytes"], about["mean"]["covered"]) == (2, False)
    assert about["understudy.score"]["kind"] == "statistics"
    assert about["mean"]["values"] == [1.0]  # few numbers are shown as they are
    assert "values" not in about["x"]
    assert {key: held.about[key] for key in ("client", "run", "round", "task")} == {
        "client": "oak",
        "run": "run",
        "round": 1,
        "task": "Noisy.release",
    }
    assert held.a_class() == {0: 1, 1: 1}
    assert held.about["epsilon"] > 0


def test_a_person_is_told_of_examples_that_no_sheet_shows(
    tmp_path: Path, method: Noisy, capsys: pytest.CaptureFixture[str]
) -> None:
    site = site_with(tmp_path, approval=("examples",))
    ask(site, method, work="release_more")
    held = ApprovalQueue(site.folder).held()
    assert (held[0].examples(), held[0].not_shown()) == (None, 3)
    print_waiting(held)
    assert "3 examples that no sheet shows" in " ".join(capsys.readouterr().out.split())
    ask(site, method, round=2)
    assert [one.not_shown() for one in ApprovalQueue(site.folder).held()] == [0]


def test_asked_again_before_a_decision_it_says_the_same_and_works_and_pays_once(tmp_path: Path, method: Noisy) -> None:
    site = site_with(tmp_path, approval=("examples",))
    for _ in range(3):
        assert (ask(site, method).outcome, Noisy.works, len(site.charge_log.charges())) == ("waiting", 1, 1)


def test_after_a_yes_exactly_those_bytes_leave_as_often_as_they_are_asked_for(tmp_path: Path, method: Noisy) -> None:
    site = site_with(tmp_path, approval=("examples", "weights"))
    ask(site, method)
    waited = (site.folder / "waiting/run-r1s1/reply.safetensors").read_bytes()
    (held,) = ApprovalQueue(site.folder).held()
    ApprovalQueue(site.folder).decide(held, "yes")
    for _ in range(2):  # the second time as after a kill of the server
        sent = ask(site, method)
        assert (sent.outcome, sent.version, sent.read(), len(sent.charges)) == ("done", "r1s1", waited, 1)
    assert ApprovalQueue(site.folder).held() == []
    assert (Noisy.works, len(site.charge_log.charges())) == (1, 1)
    (line,) = map(json.loads, (site.folder / "approvals.jsonl").read_text().splitlines())
    assert {"decision": "yes", "run": "run", "round": 1, "step": 1, "task": "Noisy.release"}.items() <= line.items()
    assert {"when", "by", "sha256", "parts"} <= line.keys()


def test_after_a_no_it_refuses_and_the_charge_stands(tmp_path: Path, method: Noisy) -> None:
    site = site_with(tmp_path, approval=("examples",))
    ask(site, method)
    (held,) = ApprovalQueue(site.folder).held()
    ApprovalQueue(site.folder).decide(held, "no")
    for _ in range(2):
        refused = ask(site, method)
        assert (refused.outcome, refused.why) == ("refused", "a person there declined its reply")
        assert (Noisy.works, len(site.charge_log.charges())) == (1, 1)
    assert ask(site_with(tmp_path), method).outcome == "refused", "a no holds also where the policy asks no more"
    (again,) = ApprovalQueue(site.folder).held()
    ApprovalQueue(site.folder).decide(again, "yes")
    assert ask(site, method).outcome == "done", "as long as the round is asked for, a person may think again"


def test_a_yes_is_for_those_bytes_and_no_others(tmp_path: Path, method: Noisy) -> None:
    site = site_with(tmp_path, approval=("examples",))
    ask(site, method)
    (before,) = ApprovalQueue(site.folder).held()
    ApprovalQueue(site.folder).decide(before, "yes")
    file = site.folder / "waiting/run-r1s1/reply.safetensors"
    file.write_bytes(Message(x=torch.zeros(2, 1, 4, 4), y=torch.tensor([0, 1], dtype=torch.uint8)).to_bytes())
    assert ask(site, method).outcome == "waiting"
    (after,) = ApprovalQueue(site.folder).held()
    assert (after.decision, after.id == before.id) == (None, False)


def test_a_yes_in_one_round_is_none_in_the_next_and_what_nobody_will_ask_for_goes(
    tmp_path: Path, method: Noisy
) -> None:
    site = site_with(tmp_path, approval=("examples",))
    ask(site, method)
    ask(site, method, run="another")
    for held in ApprovalQueue(site.folder).held():
        ApprovalQueue(site.folder).decide(held, "yes")
    assert ask(site, method, round=2).outcome == "waiting"
    assert sorted(held.folder.name for held in ApprovalQueue(site.folder).held()) == ["another-r1s1", "run-r2s1"]
    assert ask(site, method, run="another").outcome == "done", "another run's reply is as it was"
    assert Noisy.works == 3


def test_kinds_that_the_policy_does_not_name_leave_at_once(tmp_path: Path, method: Noisy) -> None:
    site = site_with(tmp_path, approval=("weights", "examples"))
    assert ask(site, method, work="count").outcome == "done"
    assert ask(site_with(tmp_path / "strict", approval=("statistics",)), method, work="count").outcome == "waiting"


def test_a_policy_made_stricter_holds_what_was_not_fetched_yet(tmp_path: Path, method: Noisy) -> None:
    assert ask(site_with(tmp_path), method).outcome == "done"
    stricter = site_with(tmp_path, approval=("examples",))
    assert (ask(stricter, method).outcome, Noisy.works) == ("waiting", 1)
    assert "run/reply-1.safetensors" not in files(stricter)


def test_a_damaged_record_of_decisions_lets_nothing_leave(tmp_path: Path, method: Noisy) -> None:
    site = site_with(tmp_path, approval=("examples",))
    ask(site, method)
    (site.folder / "approvals.jsonl").write_text('{"decision": "y')
    stays = ask(site, method)
    assert stays.outcome == "failed"
    assert "The site's approvals.jsonl, line 1, cannot be read, so nothing leaves" in stays.why


def test_killed_on_the_way_to_the_desk_it_waits_all_the_same(tmp_path: Path, method: Noisy) -> None:
    site = site_with(tmp_path, approval=("examples",))
    killed = patch("understudy.federation.approval.write_whole", side_effect=KeyboardInterrupt)
    with killed, pytest.raises(KeyboardInterrupt):
        ask(site, method)
    assert ApprovalQueue(site.folder).held() == []
    assert (ask(site, method).outcome, len(ApprovalQueue(site.folder).held())) == ("waiting", 1)
    assert (Noisy.works, len(site.charge_log.charges())) == (1, 1)


@pytest.mark.parametrize("run", ["../../elsewhere", "*", "", "a/b"])
def test_the_name_of_a_run_is_no_way_to_other_folders(run: str, tmp_path: Path, method: Noisy) -> None:
    assert ask(site_with(tmp_path), method, run=run).outcome == "refused"
