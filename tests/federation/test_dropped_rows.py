"""A person at a site drops single examples: exactly the others leave, and the decision can be taken back until then."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.answering import answer
from understudy.federation.approval import ApprovalQueue, DecidedMeanwhile
from understudy.federation.client import Client
from understudy.federation.exchange import NOTHING, Answer, Request
from understudy.federation.held import Held
from understudy.federation.message import Kind, Message
from understudy.federation.method import Method, State, task
from understudy.federation.rows import row_ids, rows_named
from understudy.federation.server import Server
from understudy.federation.site import Site
from understudy.models import zoo as models
from understudy.models.network import Network
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings

LABELS = [0, 1, 0, 1, 1]


class Sends(Method):
    """Five images, and in other tasks something beside them."""

    @task(x="examples", y="labels")
    def images(self, client: Client, brief: Message) -> Message:
        if self.privacy is not None:
            client.budget.charge(rate=0.1, noise=2.0, steps=1, clip=1.0, covers=("x", "y"))
        x = torch.arange(5 * 16, dtype=torch.float32).reshape(5, 1, 4, 4)
        return Message(x=x, y=torch.tensor(LABELS, dtype=torch.uint8))

    @task(x="examples", y="labels", mean="statistics")
    def with_a_mean(self, client: Client, brief: Message) -> Message:
        return self.images(client, brief).but(mean=torch.ones(()))

    def round(self, server: Server, state: State) -> State:
        return state


class Cheats(Sends):
    """Drops another row than it is told."""

    def keep_rows(self, kinds: Mapping[str, Kind], reply: Message, kept: Tensor) -> Message:
        return super().keep_rows(kinds, reply, (kept + 1) % len(reply["y"]))


def sites() -> Federation:
    records = np.zeros((8, 1, 4, 4), np.uint8), np.array([0, 1] * 4)
    return Federation.from_arrays({"oak": records}, held_out=0.25, classes=2)


def site_with(folder: Path, *, private: bool = False, **policy: Any) -> Site:
    privacy = PrivacySettings(delta=1e-5) if private else None
    rules = Policy(**{"approval": ("examples",), **policy})
    return Site("oak", sites().sites["oak"], folder / "oak", 5, "words", None, privacy, rules, logs_replies=True)


def bound(method: Method, site: Site) -> Method:
    entry, problem = models.entry("softmax"), sites().problem
    method.privacy = site.privacy
    method.bind(Network(lambda: entry.build(problem, entry.settings()), problem), 3)
    return method


def ask(site: Site, work: str = "images", method: Method | None = None, *, score: bool = False) -> Answer:
    known = bound(method or Sends(), site)
    brief = Message(model=known.net.initial()).to_bytes()
    return answer(site, known, Request("run", "words", "oak", f"Sends.{work}", 1, 1, NOTHING, NOTHING, score, brief))


def waiting(site: Site) -> tuple[ApprovalQueue, Held]:
    queue = ApprovalQueue(site.folder)
    (held,) = queue.held()
    return queue, held


def lines(site: Site, name: str = "approvals.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (site.folder / name).read_text().splitlines()]


def test_ids_are_class_and_number_and_a_class_names_all_its_rows() -> None:
    ids = row_ids(Examples(torch.zeros(5, 2), torch.tensor(LABELS)))
    assert ids == ["0.1", "1.1", "0.2", "1.2", "1.3"]
    assert rows_named(["1.2", "0.1", "1.2"], ids) == [0, 3]
    assert rows_named(["1"], ids) == [1, 3, 4]
    for wrong in ("1.4", "2", "", "1.", "-1", "1.02"):
        with pytest.raises(UserError, match="no example"):
            rows_named([wrong], ids)
    assert row_ids(Examples(torch.zeros(2, 3), torch.ones(2, 4))) == ["r1", "r2"], "several labels per record"


def test_exactly_the_approved_rows_leave_as_often_as_they_are_asked_for(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    assert ask(site).outcome == "waiting"
    queue, held = waiting(site)
    queue.decide(held, "yes", [3, 0, 3], reason=" a face\x1b[2J ", by="Dr. Oak")
    wanted = Message(x=held.reply["x"][[1, 2, 4]], y=torch.tensor([1, 0, 1], dtype=torch.uint8)).to_bytes()
    for _ in range(2):  # the second time as after a kill of the server
        sent = ask(site)
        assert (sent.outcome, sent.read(), sent.records_seen) == ("done", wanted, False)
    assert queue.held() == []
    decided, cut = lines(site)
    assert [decided[key] for key in ("decision", "dropped", "by", "reason")] == ["yes", [0, 3], "Dr. Oak", "a face [2J"]
    assert (cut["decision"], cut["by"], cut["dropped"]) == ("cut", "Dr. Oak", [0, 3])
    assert [line["bytes"] for line in lines(site, "answers.jsonl") if line["outcome"] == "done"] == [len(wanted)] * 2


def test_scores_that_the_site_added_leave_with_what_is_left(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site, score=True)
    queue, held = waiting(site)
    queue.decide(held, "yes", [0])
    left = Message.from_bytes(ask(site, score=True).read())
    assert torch.equal(left["understudy.score"], held.reply["understudy.score"])


def test_dropped_rows_do_not_count_against_the_examples_of_a_round(tmp_path: Path) -> None:
    site = site_with(tmp_path, examples_a_round=5)
    ask(site)
    queue, held = waiting(site)
    queue.decide(held, "yes", [0])
    assert [ask(site).outcome, ask(site).outcome] == ["done", "done"]


def test_a_decision_can_be_taken_back_until_the_reply_has_left(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site)
    queue, held = waiting(site)
    decided = queue.decide(held, "yes", [1])
    assert queue.undo(decided).decision is None
    assert ask(site).outcome == "waiting"
    queue, held = waiting(site)
    with pytest.raises(UserError, match="nothing to undo"):
        queue.undo(held)
    decided = queue.decide(held, "yes", [2])
    assert ask(site).outcome == "done"
    with pytest.raises(DecidedMeanwhile, match="does not wait any more"):
        queue.undo(decided)


def test_of_two_reviewers_the_second_is_told_of_the_first(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site)
    queue, held = waiting(site)
    said: list[str] = []
    together = threading.Barrier(2)

    def decide(row: int) -> None:
        together.wait()
        try:
            said.append(str(queue.decide(held, "yes", [row], by=f"reviewer {row}").decision))
        except DecidedMeanwhile as late:
            said.append(str(late))

    both = [threading.Thread(target=decide, args=(row,)) for row in (0, 1)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sum("meanwhile (reviewer" in sentence for sentence in said) == 1
    assert [line["decision"] for line in lines(site)] == ["yes"]


@pytest.mark.parametrize("where", ["approval.write_whole", "approval.shutil.rmtree"])
def test_killed_while_it_leaves_the_same_rows_leave_afterwards(where: str, tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site)
    queue, held = waiting(site)
    queue.decide(held, "yes", [0])
    killed = patch(f"understudy.federation.{where}", side_effect=KeyboardInterrupt)
    with killed, pytest.raises(KeyboardInterrupt):
        ask(site)
    left = Message.from_bytes(ask(site).read())
    assert torch.equal(left["x"], held.reply["x"][1:])


def test_what_cannot_be_dropped_is_refused(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site)
    queue, held = waiting(site)
    for rows, why in (([5], "5 rows"), ([-1], "5 rows"), ([0, 1, 2, 3, 4], "Nothing of .* would be left")):
        with pytest.raises(UserError, match=why):
            queue.decide(held, "yes", rows)
    assert not (site.folder / "approvals.jsonl").exists()


def test_a_method_that_does_not_say_what_follows_leaves_as_a_whole_and_people_know_beforehand(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site, "with_a_mean")
    queue, held = waiting(site)
    assert held.whole == "it also sends 'mean', and the method does not say what becomes of that without some rows"
    with pytest.raises(UserError, match=r"No single row of .* can be dropped: it also sends 'mean'"):
        queue.decide(held, "yes", [0])
    queue.decide(held, "yes")
    assert ask(site, "with_a_mean").outcome == "done"


def test_a_method_that_returns_other_rows_than_the_approved_ones_sends_none(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site)
    queue, held = waiting(site)
    queue.decide(held, "yes", [0])
    stays = ask(site, method=Cheats())
    assert (stays.outcome, stays.why) == ("failed", "the method did not return exactly the approved rows")
    assert stays.read() == b""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("about.json", b"{"),
        ("about.json", b"[]"),
        ("about.json", b"\xff"),
        ("about.json", b'{"client": "oak", "run": "run", "task": "t", "round": 1, "step": 1, "parts": 5}'),
        ("reply.safetensors", b"abc"),
    ],
)
def test_a_damaged_file_of_the_queue_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site)
    (site.folder / "waiting/run-r1s1" / name).write_bytes(content)
    with pytest.raises(UserError, match=name):
        ApprovalQueue(site.folder).held()


@pytest.mark.parametrize("line", ["5", "{}", '{"decision": "yes", "dropped": ["x"]}', "[" * 5000])
def test_a_damaged_decision_lets_nothing_leave(line: str, tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site)
    (site.folder / "approvals.jsonl").write_text(line + "\n")
    stays = ask(site)
    assert (stays.outcome, "line 1, cannot be read" in stays.why) == ("failed", True)
    assert stays.records_seen, "it is not known, so nothing is claimed"


# ---- records in view


def test_a_decision_with_records_in_view_is_reported_a_plain_no_included(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    ask(site)
    queue, held = waiting(site)
    queue.note_records_seen(held)
    queue, held = waiting(site)
    assert held.records_seen
    declined = queue.decide(held, "no")
    assert (ask(site).code, ask(site).records_seen) == ("declined", True)
    queue.decide(declined, "yes", [0])
    assert [(a.outcome, a.records_seen) for a in (ask(site), ask(site))] == [("done", True)] * 2


def test_where_a_policy_limits_epsilon_nobody_decides_with_records_in_view(tmp_path: Path) -> None:
    site = site_with(tmp_path, private=True, epsilon=8.0)
    assert ask(site).outcome == "waiting"
    queue, held = waiting(site)
    assert held.private
    with pytest.raises(UserError, match="limits ε"):
        queue.note_records_seen(held)
    queue.decide(held, "yes", [0])
    assert ask(site).outcome == "done", "chosen by the images alone: post-processing"


def test_what_was_decided_with_records_in_view_stays_once_the_policy_limits_epsilon(tmp_path: Path) -> None:
    site = site_with(tmp_path, private=True)
    ask(site)
    queue, held = waiting(site)
    queue.note_records_seen(held)
    queue.decide(held, "yes")
    stays = ask(site_with(tmp_path, private=True, epsilon=8.0))
    assert (stays.outcome, stays.code, "with records in view" in stays.why) == ("refused", "policy", True)
