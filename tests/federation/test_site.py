"""The client's side: one brief a step, versions of memory, and what does not leave."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.answering import answer
from understudy.federation.client import Client, Memory
from understudy.federation.exchange import NOTHING, Request
from understudy.federation.message import Kind, Message
from understudy.federation.method import Method, State, task
from understudy.federation.server import Server
from understudy.federation.site import Site
from understudy.models import zoo as models
from understudy.models.network import Network
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings


class Counting(Method):
    """Replies with how often it was asked, which it keeps in memory, and a random number."""

    works = 0

    @task(times="scalars", drawn="scalars")
    def count(self, client: Client, brief: Message) -> Message:
        type(self).works += 1
        client.memory["times"] = client.memory.get("times", torch.zeros(())) + 1
        return Message(times=client.memory["times"], drawn=torch.rand((), generator=client.rng("draw")))

    @task(value="scalars")
    def diverge(self, client: Client, brief: Message) -> Message:
        client.memory["times"] = torch.tensor(99.0)
        return Message(value=torch.tensor(float("nan")))

    @task(value="scalars")
    def despair(self, client: Client, brief: Message) -> Message:
        """Says after its work why there is nothing to send, which tells something of what came out."""
        client.budget.charge(rate=0.1, noise=1.0, steps=2, clip=1.0, covers=("value",))
        raise UserError("what it made is not sound")

    @task(value="scalars")
    def pay_or_not(self, client: Client, brief: Message) -> Message:
        """What it does depends on what the server says."""
        if "pay" in brief:
            client.budget.charge(rate=0.1, noise=1.0, steps=2, clip=1.0, covers=("value",))
        if "fail" in brief:
            raise UserError("what it made is not sound")
        return Message(value=client.own.x.float().mean())

    @task(value="scalars")
    def pay_twice(self, client: Client, brief: Message) -> Message:
        """Two mechanisms that cost the same; told so, it fails between them."""
        client.budget.charge(rate=0.1, noise=1.0, steps=2, clip=1.0, covers=("value",))
        if "fail" in brief:
            raise UserError("what it made is not sound")
        client.budget.charge(rate=0.1, noise=1.0, steps=2, clip=1.0, covers=("value",))
        return Message(value=torch.zeros(()))

    @task(x="examples", y="labels")
    def give(self, client: Client, brief: Message) -> Message:
        return Message(x=client.own.x, y=client.own.y)

    @task(**cast(dict[str, Kind], {"understudy.score": "examples"}))
    def disguise(self, client: Client, brief: Message) -> Message:
        return Message({"understudy.score": client.own.x})

    @task()
    def crash(self, client: Client, brief: Message) -> Message:
        raise RuntimeError("the disk is on fire")

    def round(self, server: Server, state: State) -> State:
        return state


@pytest.fixture
def site(tmp_path: Path) -> Site:
    federation = Federation.from_arrays({"oak": (np.zeros((4, 1, 4, 4), np.uint8), np.array([0, 1, 0, 1]))})
    return Site("oak", federation.sites["oak"], tmp_path / "oak", seed=5, config="words")


@pytest.fixture
def method(site: Site) -> Counting:
    federation = Federation.from_arrays({"oak": (site.holding.own.x, site.holding.own.y)})
    entry = models.entry("softmax")
    counting = Counting()
    counting.bind(Network(lambda: entry.build(federation.problem, entry.settings()), federation.problem), 3)
    Counting.works = 0
    return counting


def request(
    round: int,
    step: int,
    start: str = NOTHING,
    *,
    task: str = "Counting.count",
    brief: float = 0.0,
    run: str = "run",
    config: str = "words",
) -> Request:
    return Request(
        run, config, "oak", task, round, step, start, start, False, Message(b=torch.tensor(brief)).to_bytes()
    )


def test_memory_goes_from_the_version_that_the_request_names_to_a_new_one(site: Site, method: Counting) -> None:
    first = answer(site, method, request(1, 1))
    assert (first.outcome, first.version) == ("done", "r1s1")
    second = answer(site, method, request(2, 1, first.version))
    assert Message.from_bytes(second.read())["times"] == 2


def test_a_version_that_did_not_count_is_as_if_it_had_never_been(site: Site, method: Counting) -> None:
    counted = answer(site, method, request(1, 1)).version
    answer(site, method, request(2, 1, counted))  # its reply was lost
    third = answer(site, method, request(3, 1, counted))
    assert Message.from_bytes(third.read())["times"] == 2


def test_asked_again_it_sends_the_same_bytes_without_working_again(site: Site, method: Counting) -> None:
    first = answer(site, method, request(1, 1))
    said, works = first.read(), Counting.works
    again = answer(site, method, request(1, 1))
    assert (again.read(), again.version, Counting.works) == (said, first.version, works)


def test_asked_otherwise_for_the_same_step_it_refuses(site: Site, method: Counting) -> None:
    answer(site, method, request(1, 1))
    other = answer(site, method, request(1, 1, brief=1.0))
    assert (other.outcome, other.why) == ("refused", "it has already answered this step, for another brief")


def test_a_round_of_several_asks_can_be_repeated_from_its_beginning(site: Site, method: Counting) -> None:
    """A server that was killed in the third ask of a round begins the round again."""
    start, first = NOTHING, []
    for step in (1, 2, 3):
        done = answer(site, method, request(1, step, start))
        start = done.version
        first.append((done.read(), done.version))
    works, start, again = Counting.works, NOTHING, []
    for step in (1, 2, 3):
        done = answer(site, method, request(1, step, start))
        start = done.version
        again.append((done.read(), done.version))
    assert again == first
    assert Counting.works == works


@pytest.mark.parametrize(("round", "step"), [(1, 1), (2, 1)])
def test_asked_for_a_step_behind_its_newest_it_refuses(site: Site, method: Counting, round: int, step: int) -> None:
    answer(site, method, request(2, 2))
    late = answer(site, method, request(round, step))
    assert (late.outcome, late.why) == ("refused", "it is already at round 2, step 2")


def test_another_run_begins_with_nothing_and_takes_nothing_away(site: Site, method: Counting) -> None:
    start = answer(site, method, request(5, 1)).version
    other = answer(site, method, request(1, 1, run="another"))
    assert Message.from_bytes(other.read())["times"] == 1
    assert Message.from_bytes(answer(site, method, request(6, 1, start)).read())["times"] == 2


def test_work_that_failed_after_a_charge_costs_again(site: Site, method: Counting) -> None:
    private = replace(site, privacy=PrivacySettings(delta=1e-5))
    for times in (1, 2, 3):
        despaired = answer(private, method, request(1, 1, task="Counting.despair", brief=times))
        assert (despaired.outcome, despaired.why) == ("failed", "what it made is not sound")
        assert [charge["number"] for charge in despaired.charges] == list(range(times))


def test_a_server_with_another_config_is_refused(site: Site, method: Counting) -> None:
    other = answer(site, method, request(1, 1, config="other words"))
    assert other.outcome == "refused"
    assert other.why.startswith("it was set up with another config than the server's (seed, problem, model and")


def test_memory_written_in_place_counts_as_changed() -> None:
    memory = Memory({"k": torch.zeros(2)})
    assert not memory.changed
    memory["k"].add_(1)
    assert memory.changed


def test_draws_depend_on_round_and_client_only(site: Site, method: Counting, tmp_path: Path) -> None:
    here = Message.from_bytes(answer(site, method, request(1, 1)).read())["drawn"]
    elsewhere = Site("oak", site.holding, tmp_path / "elsewhere", seed=5, config="words")
    assert Message.from_bytes(answer(elsewhere, method, request(1, 1)).read())["drawn"] == here
    assert Message.from_bytes(answer(elsewhere, method, request(2, 1)).read())["drawn"] != here
    named = Site("ash", site.holding, tmp_path / "ash", seed=5, config="words")
    assert Message.from_bytes(answer(named, method, request(1, 1)).read())["drawn"] != here


def test_a_reply_that_is_not_finite_stays_and_memory_does_not_move(site: Site, method: Counting) -> None:
    bad = answer(site, method, request(1, 1, task="Counting.diverge"))
    assert bad.outcome == "refused"
    assert "not finite in value" in bad.why
    assert site.memory("run").entries() == []


def test_a_task_that_raises_is_a_failure_with_its_reason_and_its_trace_stays_at_home(
    site: Site, method: Counting
) -> None:
    bad = answer(site, method, request(1, 1, task="Counting.crash"))
    assert (bad.outcome, bad.why) == ("failed", "Counting.crash raised RuntimeError; its error.txt has the details")
    assert "raise RuntimeError" in (site.folder / "error.txt").read_text()


def test_a_task_that_it_does_not_know_is_named(site: Site, method: Counting) -> None:
    assert "has no task 'Counting.cuont'" in answer(site, method, request(1, 1, task="Counting.cuont")).why


def test_old_versions_go_once_the_checkpoint_is_past_them(site: Site, method: Counting) -> None:
    start = NOTHING
    for round in range(1, 6):
        start = answer(site, method, request(round, 1, start)).version
    assert site.memory("run").entries() == ["r4s1", "r5s1"]


@pytest.mark.parametrize("field", ["run", "start", "settled"])
@pytest.mark.parametrize("name", ["../elsewhere", "a/b", "*", "r1s1/../.."])
def test_a_server_cannot_name_files_outside_the_sites_folder(
    site: Site, method: Counting, field: str, name: str
) -> None:
    asked = answer(site, method, replace(request(1, 1), **cast(Any, {field: name})))
    assert (asked.outcome, asked.why) == ("refused", f"the request's {field} cannot name a file")


def test_a_brief_that_is_not_finite_is_refused(site: Site, method: Counting) -> None:
    brief = Message(model=torch.tensor([1.0, torch.inf]))
    asked = answer(site, method, replace(request(1, 1), body=brief.to_bytes()))
    assert (asked.outcome, asked.why) == ("failed", "the brief is not finite in model")


def test_examples_of_all_steps_of_a_round_count_against_its_limit(site: Site, method: Counting) -> None:
    # Four a step: eight may leave, twelve may not. What is sent once more was sent before. Then the next round.
    strict = replace(site, policy=Policy(examples_a_round=8))
    places = [(1, 1), (1, 2), (1, 2), (1, 3), (2, 1)]
    asked = [answer(strict, method, request(*place, task="Counting.give")).outcome for place in places]
    assert asked == ["done", "done", "done", "refused", "done"]


# ---- what covers a reply, and what is written down of it


@pytest.fixture
def guarded(site: Site) -> Site:
    return replace(site, privacy=PrivacySettings(delta=1e-5), policy=Policy(epsilon=9.0))


@pytest.mark.parametrize("first", ["Counting.despair", "Counting.pay_or_not"])
def test_work_that_failed_lends_its_charge_to_nothing_else(guarded: Site, method: Counting, first: str) -> None:
    word = torch.ones(1)
    failed = answer(guarded, method, replace(request(1, 1, task=first), body=Message(pay=word, fail=word).to_bytes()))
    assert (failed.outcome, len(failed.charges)) == ("failed", 1)
    bare = answer(guarded, method, request(1, 1, task="Counting.pay_or_not"))
    assert (bare.outcome, bare.code) == ("refused", "policy")
    assert "'value' would leave without any such guarantee" in bare.why
    again = replace(request(1, 1, task="Counting.pay_or_not"), body=Message(pay=word).to_bytes())
    paid = answer(guarded, method, again)
    in_vain = [()] if first == "Counting.pay_or_not" else []  # told once more, since nobody may have heard of it
    assert (paid.outcome, [charge["covers"] for charge in paid.charges]) == ("done", [("value",), *in_vain])
    assert len(guarded.charge_log.charges()) == 2  # it cost again


def test_two_mechanisms_that_cost_the_same_cost_twice(guarded: Site, method: Counting) -> None:
    done = answer(guarded, method, request(1, 1, task="Counting.pay_twice"))
    assert [charge["number"] for charge in done.charges] == [0, 1]
    assert [charge.number for charge in guarded.charge_log.charges()] == [0, 1]


def test_every_mechanism_has_a_line_of_its_own_also_after_a_failure_between_two(
    guarded: Site, method: Counting
) -> None:
    word = Message(fail=torch.ones(1)).to_bytes()
    failed = answer(guarded, method, replace(request(1, 1, task="Counting.pay_twice"), body=word))
    done = answer(guarded, method, request(1, 1, task="Counting.pay_twice"))
    assert [[charge["number"] for charge in one.charges] for one in (failed, done)] == [[0], [1, 2, 0]]
    assert [charge.number for charge in guarded.charge_log.charges()] == [0, 1, 2]


@pytest.mark.parametrize(("round", "step"), [(10**9 + 1, 1), (-1, 1), (1, -1), (1, 10**9 + 1)])
def test_no_round_or_step_that_a_server_names_spoils_the_charge_log(
    guarded: Site, method: Counting, round: int, step: int
) -> None:
    asked = answer(guarded, method, request(round, step, task="Counting.pay_twice"))
    assert (asked.outcome, asked.code) == ("refused", "bad-request")
    assert guarded.charge_log.charges() == []


STRICTER = [Policy(kinds=("weights",)), Policy(smallest_class=3), Policy(examples_a_round=3), Policy(epsilon=1.0)]


@pytest.mark.parametrize("first", [None, Policy(approval=("examples",))])
@pytest.mark.parametrize("stricter", STRICTER, ids=("kinds", "smallest_class", "examples_a_round", "epsilon"))
def test_a_kept_reply_leaves_only_by_the_policy_of_today(
    site: Site, method: Counting, first: Policy | None, stricter: Policy
) -> None:
    asked = request(1, 1, task="Counting.give")
    answer(replace(site, policy=first), method, asked)  # the site is stopped, and starts again with another policy
    held = answer(replace(site, policy=stricter), method, asked)
    assert (held.outcome, held.code, held.read()) == ("refused", "policy", b"")
    assert answer(replace(site, policy=Policy(examples_a_round=4)), method, asked).outcome == "done"


def test_no_task_sends_under_the_name_of_the_scores(site: Site, method: Counting) -> None:
    careful = replace(site, policy=Policy(approval=("examples",)))
    held = answer(careful, method, request(1, 1, task="Counting.disguise"))
    assert (held.outcome, held.read()) == ("failed", b"")
    assert "understudy.score, which @task does not declare" in held.why


def test_a_real_site_writes_down_every_reply_before_it_leaves(site: Site, method: Counting) -> None:
    real = replace(site, logs_replies=True)
    sent = answer(real, method, request(1, 1)).read()
    answer(real, method, request(1, 1))  # the same bytes once more
    lines = [json.loads(line) for line in (real.folder / "answers.jsonl").read_text().splitlines()]
    assert [line["sha256"] for line in lines] == 2 * [hashlib.sha256(sent).hexdigest()]
    wanted = {"run": "run", "round": 1, "step": 1, "task": "Counting.count", "outcome": "done", "bytes": len(sent)}
    assert {key: lines[0][key] for key in wanted} == wanted
    drawn = {"part": "drawn", "kind": "scalars", "shape": [], "bytes": 4, "covered": False}
    assert lines[0]["parts"] == [drawn, {**drawn, "part": "times"}]


def test_a_line_that_was_cut_off_does_not_spoil_the_next_one(site: Site, method: Counting) -> None:
    real = replace(site, logs_replies=True)
    site.folder.mkdir()
    (site.folder / "answers.jsonl").write_text('{"when": "2026-')  # the disk was full
    answer(real, method, request(1, 1))
    (line,) = (site.folder / "answers.jsonl").read_text().splitlines()
    assert json.loads(line)["outcome"] == "done"


def test_a_reply_that_cannot_be_written_down_does_not_leave(site: Site, method: Counting) -> None:
    (site.folder / "answers.jsonl").mkdir(parents=True)
    kept = answer(replace(site, logs_replies=True), method, request(1, 1))
    assert (kept.outcome, kept.read()) == ("failed", b"")


def test_in_a_simulation_only_failures_are_written_down(site: Site, method: Counting) -> None:
    answer(site, method, request(1, 1))
    assert not (site.folder / "answers.jsonl").exists()
    answer(site, method, request(1, 2, task="Counting.diverge"))
    (line,) = [json.loads(line) for line in (site.folder / "answers.jsonl").read_text().splitlines()]
    assert (line["outcome"], line["code"], "not finite in value" in line["why"]) == ("refused", "not-finite", True)
